"""The lab's results, runs side by side: the last sample of each series in the time range is a step's result."""

from functools import partial

from grafana_foundation_sdk.models import units

from dashboards.signals import Signal, on_hosts


def _last(metric: str, *matchers: str, **labels: str) -> str:
    return f"last_over_time({on_hosts(metric, *matchers, run='$run', **labels)}[$__range])"


_OF_A_RUN = f"on (run, host) group_left (study, scenario) max by (run, study, scenario, host) ({_last('lab_run_info')})"
_STEPS = " or ".join(f"group by (run, host, step) ({_last(metric)})" for metric in ("lab_measurement", "lab_step_info"))
_count = partial(Signal, unit=units.NoUnit, absent="The lab has not run in the time shown: docs/lab.md.")

RUNS = [
    _count("Steps planned", f"max by (run, host) ({_last('lab_run_planned_steps')}) * {_OF_A_RUN}"),
    _count("Steps begun", f"count by (run, host) ({_STEPS}) * {_OF_A_RUN}"),
]

_TEST = "run, host, environment, virtualization, emulated, test, unit"


def _repetitions(*matchers: str) -> str:
    """Each repetition once: an interrupted step may have two measurements."""
    return f"avg by ({_TEST}, repetition) ({_last('lab_measurement', *matchers, test='$test')})"


_MEASURED = _repetitions()
_BASELINE = _repetitions('environment="$baseline"')
_number = partial(
    Signal,
    unit=units.NoUnit,
    absent="No run in the time shown has measurements: those of suites, factors and network have, docs/lab.md.",
)

RELATIVE = _number(
    "Relative",
    f"avg by ({_TEST}) ({_MEASURED}) / on (run, host, test, unit) group_left () avg by (run, host, test, unit) "
    f"({_BASELINE})",
    decimals=2,
)
MEASUREMENTS = [
    RELATIVE,
    _number("Mean", f"avg by ({_TEST}) ({_MEASURED})", decimals=3),
    _number("Min", f"min by ({_TEST}) ({_MEASURED})", decimals=3),
    _number("Max", f"max by ({_TEST}) ({_MEASURED})", decimals=3),
    _number("n", f"count by ({_TEST}) ({_MEASURED})"),
]
