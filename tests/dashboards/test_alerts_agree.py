"""Panels and alerts use the same records and the same thresholds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from dashboards.signals import Signal, host

ROOT = Path(__file__).resolve().parents[2]


# The ratio of the panel is the quotient of these two over the alert's five minutes.
COMPARED = {
    host.OVERHEAD_RATIO: "sum_over_time(host:overhead_cpu:rate[5m]) / (sum_over_time(host:cpu_usage:rate[5m]) > 0)",
    host.OVERHEAD_CPU: "avg_over_time(host:overhead_cpu:rate[5m])",
}


@pytest.mark.parametrize("signal", COMPARED, ids=lambda signal: signal.name)
def test_host_overhead_high_fires_from_where_the_panel_warns(signal: Signal) -> None:
    compared = re.search(rf"{re.escape(COMPARED[signal])} > ([0-9.]+)", alert("HostOverheadHigh"))
    assert compared, f"HostOverheadHigh does not compare {COMPARED[signal]} with a number"
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
