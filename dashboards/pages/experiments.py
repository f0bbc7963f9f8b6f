"""Experiments: what the lab has measured, runs, hosts and platforms side by side."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from dashboards import palette, panels, variables
from dashboards.layout import Row, page
from dashboards.signals import experiments


def make() -> dashboard.Dashboard:
    """The dashboard of all runs of the lab in the time shown."""
    return page(
        uid="virtscope-experiments",
        title="Experiments",
        question="What did the lab measure?",
        answer=(
            "All runs in the time shown, of all hosts: each test in each environment compared with a baseline. Reports "
            "have intervals, and the studies' values."
        ),
        any_hosts=True,
        time="now-7d",
        refresh="30s",
        own_variables=[variables.lab_run(), variables.lab_test(), variables.lab_baseline()],
        rows=[
            Row(
                "",
                [
                    panels.columns(
                        "Runs",
                        experiments.PLANNED.description,
                        {"run": "Run", "study": "Study", "scenario": "Scenario", "host": "Host"},
                        [experiments.PLANNED, experiments.FINISHED],
                    )
                    .span(24)
                    .height(7)
                ],
            ),
            Row(
                "Measurements",
                [
                    panels.columns(
                        "Tests by environment",
                        experiments.MEAN.description,
                        {
                            "run": "Run",
                            "test": "Test",
                            "environment": "Environment",
                            "virtualization": "On",
                            "unit": "Unit",
                        },
                        [experiments.RELATIVE, experiments.MEAN, experiments.DEVIATION, experiments.REPETITIONS],
                    )
                    .override_by_name(experiments.RELATIVE.name, panels.as_bar(palette.GUESTS, 160))
                    .filterable(True)
                    .span(24)
                    .height(14)
                ],
            ),
        ],
    )
