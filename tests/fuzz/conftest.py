"""How many inputs a long run has had, at its end."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    runs = [dict(report.user_properties) | {"id": report.nodeid} for report in terminalreporter.getreports("passed")]
    runs = [run for run in runs if "inputs" in run]
    if sum(run["seconds"] for run in runs) < 60:
        return
    terminalreporter.section("inputs")
    for run in runs:
        name = run["id"].partition("[")[2].rstrip("]")
        terminalreporter.line(f"{name:28} {run['inputs']:12,} {run['inputs'] / run['seconds']:10,.0f} per second")
    terminalreporter.line(f"{'all':28} {sum(run['inputs'] for run in runs):12,}")
