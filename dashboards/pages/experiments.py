"""Experiments: the lab's results; runs, hosts and platforms side by side."""

from dashboards import palette, tables, variables
from dashboards.layout import Row, page
from dashboards.signals import experiments

PAGE = page(
    uid="virtscope-experiments",
    title="Experiments",
    question="What did the lab measure?",
    answer=(
        "All runs in the time shown, of all hosts: each test in each environment compared with a baseline. Reports "
        "have intervals, and the studies' values."
    ),
    time="now-7d",
    refresh="30s",
    variables=[*variables.of_any_hosts(), *variables.lab()],
    rows=[
        Row(
            "",
            tables.columns(
                "Runs",
                "Runs of the lab in the time shown, and the steps of which there are samples. `python3 -m "
                "deploy.lab report RUN` writes a run's report again.",
                {"run": "Run", "study": "Study", "scenario": "Scenario", "host": "Host"},
                experiments.RUNS,
                height=7,
            ),
        ),
        Row(
            "Measurements",
            tables.columns(
                "Tests by environment",
                "Mean of the repetitions of each test, by environment and run, in its unit and relative to "
                "the run's baseline. Values from emulated machines only show that the test works.",
                {"run": "Run", "test": "Test", "environment": "Environment", "virtualization": "On"}
                | {"emulated": "Emulated", "unit": "Unit"},
                experiments.MEASUREMENTS,
                height=14,
            )
            .override_by_name(experiments.RELATIVE.name, tables.as_bar(palette.GUESTS, 160))
            .filterable(True),
        ),
    ],
)
