"""What the lab has measured, run beside run: of the time shown, the last sample of each series is a step's result."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Signal, on_hosts

_RUNS = f"max by (run, study, scenario, host) (last_over_time({on_hosts('lab_run_info', run='$run')}[$__range]))"
_OF_A_RUN = "on (run, host) group_left (study, scenario)"
_NO_RUN = "The lab has not run in the time shown: docs/lab.md."

PLANNED = Signal(
    name="Steps planned",
    query=f"max by (run, host) (last_over_time({on_hosts('lab_run_planned_steps', run='$run')}[$__range]))"
    f" * {_OF_A_RUN} {_RUNS}",
    unit=units.NoUnit,
    description="Runs of the lab in the time shown. `python3 -m tools.lab report RUN` writes a run's report again.",
    absent=_NO_RUN,
    decimals=0,
)

_STEPS = " or ".join(
    f"group by (run, host, step) (last_over_time({on_hosts(metric, run='$run')}[$__range]))"
    for metric in ("lab_measurement", "lab_allocation_step_info", "lab_step_info")
)
FINISHED = Signal(
    name="Steps begun",
    query=f"count by (run, host) ({_STEPS}) * {_OF_A_RUN} {_RUNS}",
    unit=units.NoUnit,
    description="Steps of which there are samples.",
    absent=_NO_RUN,
    decimals=0,
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
    name="Mean",
    query=f"avg by ({_ENVIRONMENT}) ({_MEASURED})",
    unit=units.NoUnit,
    description=(
        "Each test in each environment of each run: the mean of its repetitions, in the unit beside it, and relative "
        "to the baseline's of the same run, if it has one. What was measured on an emulated machine proves that it "
        "works, no more."
    ),
    absent=_NO_MEASUREMENT,
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

REPETITIONS = Signal(
    name="n",
    query=f"count by ({_ENVIRONMENT}) ({_MEASURED})",
    unit=units.NoUnit,
    description="Repetitions.",
    absent=_NO_MEASUREMENT,
    decimals=0,
)

_BASE = _measured(f'{_SELECTOR[:-1]}, environment="$baseline"}}')
RELATIVE = Signal(
    name="Relative",
    query=f"avg by ({_ENVIRONMENT}) ({_MEASURED})"
    f" / on (run, host, test, unit) group_left () avg by (run, host, test, unit) ({_BASE})",
    unit=units.NoUnit,
    description="The mean divided by that of the chosen baseline in the same run.",
    absent=_NO_MEASUREMENT,
    decimals=2,
)

# --- Dynamic allocation -----------------------------------------------------------------------------------------------

_OF_STEP = "run, host, step, attempt"
_CASE = "run, host, virtualization, of, caps, every"
_NO_ALLOCATION = "No run of dynamic allocation in the time shown: make lab SCENARIO=allocation-short."


def _total(metric: str) -> str:
    return f"sum by ({_OF_STEP}) (last_over_time({on_hosts(f'lab_allocation_{metric}_total', run='$run')}[$__range]))"


_PLANNED = on_hosts("lab_allocation_step_planned_seconds", run="$run")
# Of a step that was cut short nothing is shown, as in the report.
_SECONDS = f"({_total('seconds')} >= max by ({_OF_STEP}) (last_over_time({_PLANNED}[$__range])) - 1.5)"
# Whose caps were switched; what is emulated says so.
_WHERE = (
    "max by (run, host, virtualization) (label_replace(label_join("
    f"last_over_time({on_hosts('lab_run_info', run='$run', study='allocation')}[$__range]), "
    '"emulated", "/", "virtualization", "emulated"), "virtualization", "$1 (emulated)", "emulated", "(.+)/yes"))'
)


def _by_case(of_steps: str) -> str:
    info = f"last_over_time({on_hosts('lab_allocation_step_info', run='$run')}[$__range])"
    words = f'label_join({info}, "of", ", ", "containers", "pinning", "load")'
    words = f'label_join({words}, "caps", " to ", "low", "high")'
    words = f'label_join({words}, "every", " s, ", "interval", "mode")'
    facts = "of, caps, every"
    cases = f"max by ({_OF_STEP}, {facts}) ({words}) * on (run, host) group_left (virtualization) {_WHERE}"
    return f"avg by ({_CASE}) (({of_steps}) * on ({_OF_STEP}) group_left (virtualization, {facts}) ({cases}))"


HOST_CPU = Signal(
    name="Host's own CPU",
    query=_by_case(f"({_total('machine_cpu_seconds')} - {_total('container_cpu_seconds')}) / {_SECONDS}"),
    unit=CPUS,
    description=(
        "Caps that are switched every so many seconds (dynamic), written again without a change (control), or left "
        "alone (static), and what the host itself uses meanwhile: means over repetitions."
    ),
    absent=_NO_ALLOCATION,
    decimals=3,
)

CONTAINERS_CPU = Signal(
    name="Containers' CPU",
    query=_by_case(f"{_total('container_cpu_seconds')} / {_SECONDS}"),
    unit=CPUS,
    description="CPU that all containers together used.",
    absent=_NO_ALLOCATION,
    decimals=3,
)

TASKS = Signal(
    name="Tasks/s",
    query=_by_case(f"{_total('tasks')} / {_SECONDS}"),
    unit=units.NoUnit,
    description="Tasks that all containers together finished in a second, or requests that they answered.",
    absent=_NO_ALLOCATION,
    decimals=1,
)

CALL = Signal(
    name="Writing takes",
    query=_by_case(f"{_total('call_seconds')} / ({_total('calls')} > 0) and {_SECONDS}"),
    unit=units.Seconds,
    description="How long it took to write all caps once.",
    absent=_NO_ALLOCATION,
    decimals=1,
)
