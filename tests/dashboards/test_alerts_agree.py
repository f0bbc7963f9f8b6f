"""Panels and alerts judge by the same records and the same thresholds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from dashboards.signals import Signal, host

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("signal", [host.OVERHEAD_RATIO, host.OVERHEAD_CPU], ids=lambda signal: signal.name)
def test_host_overhead_high_fires_where_the_panel_turns_to_trouble(signal: Signal) -> None:
    (record,) = re.findall(r"\w+:\w+:\w+", signal.expr)
    compared = re.search(rf"\b{record}\b[^<>]*> *([0-9.]+)", alert("HostOverheadHigh"))
    assert compared, f"HostOverheadHigh does not compare {record} with a number"
    assert float(compared[1]) == signal.high


def alert(name: str) -> str:
    """The alert's expression."""
    for file in (ROOT / "alerts" / "rules").glob("*.yml"):
        for group in yaml.safe_load(file.read_text())["groups"]:
            for rule in group["rules"]:
                if rule.get("alert") == name:
                    expr: str = rule["expr"]
                    return expr
    raise LookupError(f"no alert {name} in alerts/rules")
