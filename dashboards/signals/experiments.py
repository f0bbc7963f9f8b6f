"""What the lab has measured, run beside run: of the time shown, the last sample of each series is a step's result."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from dashboards.signals import Signal, on_hosts

_RUNS = f"max by (run, study, scenario, host) (last_over_time({on_hosts('lab_run_info', run='$run')}[$__range]))"
_OF_A_RUN = "on (run, host) group_left (study, scenario)"
_NO_RUN = "The lab has not run in the time shown: docs/lab.md."

PLANNED = Signal(
    "Steps planned",
    f"max by (run, host) (last_over_time({on_hosts('lab_run_planned_steps', run='$run')}[$__range]))"
    f" * {_OF_A_RUN} {_RUNS}",
    units.NoUnit,
    "Runs of the lab in the time shown. `python3 -m deploy.lab report RUN` writes a run's report again.",
    _NO_RUN,
    decimals=0,
)

_STEPS = " or ".join(
    f"group by (run, host, step) (last_over_time({on_hosts(metric, run='$run')}[$__range]))"
    for metric in ("lab_measurement", "lab_step_info")
)
FINISHED = Signal(
    "Steps begun", f"count by (run, host) ({_STEPS}) * {_OF_A_RUN} {_RUNS}", units.NoUnit, absent=_NO_RUN, decimals=0
)

# --- Measurements -----------------------------------------------------------------------------------------------------


def _measured(selector: str) -> str:
    """Each repetition once: a step that was interrupted may have been measured twice. What is emulated says so."""
    return (
        "avg by (run, host, environment, virtualization, test, unit, repetition) ("
        f"label_replace(label_join(last_over_time({selector}[$__range]), "
        '"emulated", "/", "environment", "emulated"), "environment", "$1 (emulated)", "emulated", "(.+)/yes"))'
    )


_SELECTOR = on_hosts("lab_measurement", run="$run", test="$test")
_MEASURED = _measured(_SELECTOR)
_ENVIRONMENT = "run, host, environment, virtualization, test, unit"
_NO_MEASUREMENT = "No run in the time shown has measurements: those of suites, factors and network have, docs/lab.md."

MEAN = Signal(
    "Mean",
    f"avg by ({_ENVIRONMENT}) ({_MEASURED})",
    units.NoUnit,
    "Each test in each environment of each run: the mean of its repetitions, in the unit beside it, and relative to "
    "the baseline's of the same run, if it has one. What was measured on an emulated machine proves that it works, no "
    "more.",
    _NO_MEASUREMENT,
    decimals=3,
)

DEVIATION = Signal(
    name="Std deviation",
    # stddev divides by n, a sample's is by n - 1; of one repetition there is none.
    query=f"stddev by ({_ENVIRONMENT}) ({_MEASURED})"
    f" * sqrt(count by ({_ENVIRONMENT}) ({_MEASURED}) / (count by ({_ENVIRONMENT}) ({_MEASURED}) - 1 > 0))",
    unit=units.NoUnit,
    description="Sample standard deviation of the repetitions.",
    absent=_NO_MEASUREMENT,
    decimals=3,
)

REPETITIONS = Signal("n", f"count by ({_ENVIRONMENT}) ({_MEASURED})", units.NoUnit, absent=_NO_MEASUREMENT, decimals=0)

_BASE = _measured(f'{_SELECTOR[:-1]}, environment="$baseline"}}')
RELATIVE = Signal(
    "Relative",
    f"avg by ({_ENVIRONMENT}) ({_MEASURED})"
    f" / on (run, host, test, unit) group_left () avg by (run, host, test, unit) ({_BASE})",
    units.NoUnit,
    absent=_NO_MEASUREMENT,
    decimals=2,
)
