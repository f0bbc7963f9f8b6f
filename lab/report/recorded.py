"""Lab runs and their measurements (lab/metrics.py), as recorded in Prometheus."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab import LabError
from lab.metrics import METRIC, UNSETTLED, Measurement
from lab.prometheus import Prometheus, Recorded, Sample

RUNS = "lab_run_info[30d]"  # the stack's retention
GAUGES = ("lab_request_cpu_seconds", "lab_study_clients")  # of a consolidation


@dataclass(frozen=True)
class Run:
    name: str
    study: str
    scenario: str
    host: str
    start: float
    end: float


@dataclass(frozen=True)
class Recording:
    """All measurements of a run; `asked` has the queries by metric, `info` the labels of lab_run_info."""

    run: Run
    url: str
    asked: Mapping[str, str]
    info: Mapping[str, str]
    planned_steps: int
    finished_steps: int
    measurements: tuple[Measurement, ...]
    asked_at: float
    unsettled: Mapping[str, float] = field(default_factory=dict)
    """CPUs that others used right before a step, by step name, if the machine did not settle."""
    gauges: Mapping[str, float] = field(default_factory=dict)
    """Other values of the run, by metric."""


def runs(recorded: Sequence[Recorded]) -> list[Run]:
    """All runs that have samples, newest first."""
    times: dict[tuple[str, str, str, str], list[float]] = {}
    for series in recorded:
        of = series.labels
        run = (of["run"], of.get("study", ""), of.get("scenario", ""), of.get("host", ""))
        times.setdefault(run, []).extend(when for when, _ in series.samples)
    found = [Run(*run, min(seen), max(seen)) for run, seen in times.items()]
    return sorted(found, key=lambda run: run.start, reverse=True)


def find_run(prometheus: Prometheus, name: str | None) -> Run:
    """The run of this name, or the newest; raises `LabError`."""
    found = runs(prometheus.recorded(RUNS))
    if not found:
        raise LabError(
            f"{prometheus.url} has no run of the lab within the last 30 days: start one with `make lab SCENARIO=smoke`"
        )
    chosen = [run for run in found if name in {None, run.name}]
    if not chosen:
        raise LabError(f"no run {name!r}; there are, newest first: {', '.join(run.name for run in found)}")
    return chosen[0]


def query(metric: str, run: Run) -> str:
    """The last sample of each series within the run's time: the result never changes."""
    end = math.ceil(run.end)
    return f'last_over_time({metric}{{run="{run.name}"}}[{end - math.floor(run.start) + 1}s] @ {end})'


def collect(prometheus: Prometheus, run: Run, asked_at: float) -> Recording:
    """Run all queries about a run; raises `PrometheusError`."""
    metrics = ("lab_run_info", "lab_run_planned_steps", UNSETTLED, *GAUGES, METRIC)
    asked = {metric: query(metric, run) for metric in metrics}
    given = {metric: prometheus.vector(text) for metric, text in asked.items()}
    last: dict[str, str] = {}  # attempts of each step
    for sample in given[METRIC]:
        step, attempt = _attempt(sample)
        last[step] = max(last.get(step, ""), attempt)
    latest = [sample for sample in given[METRIC] if last[_attempt(sample)[0]] == _attempt(sample)[1]]
    planned = given["lab_run_planned_steps"]
    return Recording(
        run,
        prometheus.url,
        asked,
        given["lab_run_info"][0].labels if given["lab_run_info"] else {},
        round(planned[0].value) if planned else 0,
        len(last),
        tuple(measurement(sample) for sample in latest),
        asked_at,
        {sample.labels.get("step", ""): sample.value for sample in given[UNSETTLED]},
        {name: given[name][0].value for name in GAUGES if given[name]},
    )


def _attempt(sample: Sample) -> tuple[str, str]:
    return sample.labels.get("step", ""), sample.labels.get("attempt", "")


def measurement(sample: Sample) -> Measurement:
    of = sample.labels
    kind = (of["environment"], of["virtualization"], of["emulated"] == "yes", of["test"], of["unit"], of["better"])
    return Measurement(*kind, int(of["repetition"]), sample.value)
