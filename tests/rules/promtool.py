"""Evaluates rules over synthetic series by generating a unit test for `promtool test rules`."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.rules.test_rules import run


def evaluate(
    file: Path,
    rules: Sequence[Path],
    *,
    interval: float,
    evaluation: float,
    given: Iterable[tuple[str, str]],
    expected: Sequence[Mapping[str, Any]],
    program: str = "promtool",
) -> None:
    """Evaluate the rules with promtool, group by group in the order of the files; fail if results differ.

    file: path of the generated test. given: series and their values in promtool's notation, `interval` seconds apart.
    evaluation: seconds between evaluations. expected: entries of promql_expr_test; a query without `exp_samples` must
    return nothing.
    """
    groups = [group["name"] for rule_file in rules for group in yaml.safe_load(rule_file.read_text())["groups"]]
    series = [{"series": name, "values": values} for name, values in given]
    document = {
        "rule_files": [str(rule_file) for rule_file in rules],
        "evaluation_interval": f"{evaluation:.0f}s",
        "group_eval_order": groups,
        "tests": [{"interval": f"{interval:.0f}s", "input_series": series, "promql_expr_test": list(expected)}],
    }
    file.write_text(json.dumps(document))
    run(program, "test", "rules", file)


def asks(expr: str, at: str, wanted: Mapping[str, float]) -> dict[str, Any]:
    """An entry of promql_expr_test: values by labels at this time, to five digits of the smallest one."""
    smallest = min((abs(value) for value in wanted.values() if value), default=1.0)
    to = float(f"1e{math.floor(math.log10(smallest)) - 4}")
    samples = [{"labels": labels, "value": _rounded(value, to)} for labels, value in wanted.items()]
    return {"expr": f"round({expr}, {to:g})", "eval_time": at, "exp_samples": samples}


def _rounded(value: float, to: float) -> float:
    """PromQL's round()."""
    return math.floor(value * (1 / to) + 0.5) / (1 / to)


def number(text: object) -> float:
    """A sum of quotients, such as "1001 + 0.4/3"."""
    terms = [list(map(float, term.split("/"))) for term in str(text).split(" + ")]
    return sum(term[0] / (term[1] if len(term) > 1 else 1) for term in terms)
