"""What panels' queries return for a given history, by promtool."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.rules.test_rules import run

NAMES = {"$host_platform": "xen", "$hosts": "xen1", "$host": "xen1", "$app": "shop"}
TIMES = {"$__range": "60m", "$__interval_ms": "60000", "$__interval": "1m"}


def assert_answers(
    folder: Path, expr: str, minute: int, wanted: Mapping[str, float], history: Mapping[str, str]
) -> None:
    """A test that a panel's query returns these series at that minute of a history with a sample a minute."""
    for variable, value in {**NAMES, **TIMES}.items():
        expr = expr.replace(variable, value)
    case: dict[str, Any] = {
        "expr": expr,
        "eval_time": f"{minute}m",
        "exp_samples": [{"labels": labels, "value": value} for labels, value in wanted.items()],
    }
    series = [{"series": series, "values": values} for series, values in history.items()]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [case]}
    file = folder / "panel.yml"
    file.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    run("promtool", "test", "rules", file)
