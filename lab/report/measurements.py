"""Runs whose steps end in measurements (lab/measurements.py), as Prometheus has recorded them.

    lab_run_info{run="20261123T090512-suites",scenario="suites",study="suites",...} 1

Such a run is known by the label `study` of lab_run_info.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab import LabError
from lab.measurements import METRIC, UNSETTLED, Measurement
from lab.prometheus import Prometheus, Recorded, Sample
from lab.report.loads import count
from lab.report.tables import time

UNKNOWN = "not recorded"


@dataclass(frozen=True)
class MeasuredRun:
    """One run; Unix times of its first and last samples."""

    name: str
    study: str
    scenario: str
    host: str
    start: float
    end: float


@dataclass(frozen=True)
class Recording:
    """All that a run has measured; `asked` has the queries by metric, `info` the labels of lab_run_info."""

    run: MeasuredRun
    asked: Mapping[str, str]
    info: Mapping[str, str]
    planned_steps: int
    finished_steps: int
    measurements: tuple[Measurement, ...]
    asked_at: float
    unsettled: Mapping[str, float] = field(default_factory=dict)
    """CPUs that others used right before a step, by its name, where the machine did not settle."""


def runs_of(study: str) -> str:
    """The range selector whose series are the runs of a study; as long as the stack keeps data."""
    return f'lab_run_info{{study="{study}"}}[30d]'


def runs(recorded: Sequence[Recorded]) -> list[MeasuredRun]:
    """All runs that have samples, newest first."""
    times: dict[tuple[str, str, str, str], list[float]] = {}
    for series in recorded:
        of = series.labels
        run = (of["run"], of["study"], of.get("scenario", ""), of.get("host", ""))
        times.setdefault(run, []).extend(when for when, _ in series.samples)
    found = [MeasuredRun(*run, min(seen), max(seen)) for run, seen in times.items()]
    return sorted(found, key=lambda run: run.start, reverse=True)


def query(metric: str, run: MeasuredRun) -> str:
    """The last sample of each series of the run, within the run's time only: its result is always the same."""
    end = math.ceil(run.end)
    return f'last_over_time({metric}{{run="{run.name}"}}[{end - math.floor(run.start) + 1}s] @ {end})'


def collect(prometheus: Prometheus, run: MeasuredRun, asked_at: float) -> Recording:
    """Run all queries about a run; raises `PrometheusError`, and `LabError` as `measurement` does."""
    asked = {metric: query(metric, run) for metric in ("lab_run_info", "lab_run_planned_steps", UNSETTLED, METRIC)}
    info, planned, unsettled, found = (prometheus.vector(text) for text in asked.values())
    latest = _latest(found)
    return Recording(
        run,
        asked,
        info[0].labels if info else {},
        round(planned[0].value) if planned else 0,
        len({sample.labels.get("step", "") for sample in latest}),
        tuple(measurement(sample) for sample in latest),
        asked_at,
        {sample.labels.get("step", ""): sample.value for sample in unsettled},
    )


def _latest(found: Sequence[Sample]) -> list[Sample]:
    """Of each step its latest attempt."""
    last: dict[str, str] = {}
    for sample in found:
        step = sample.labels.get("step", "")
        last[step] = max(last.get(step, ""), sample.labels.get("attempt", ""))
    return [one for one in found if one.labels.get("attempt", "") == last[one.labels.get("step", "")]]


def measurement(sample: Sample) -> Measurement:
    """One series of lab_measurement; raises `LabError` that names it if a label is missing or is no number."""
    of = sample.labels
    try:
        return Measurement(
            of["environment"],
            of["virtualization"],
            of["emulated"] == "yes",
            of["test"],
            of["unit"],
            of["better"],
            int(of["repetition"]),
            sample.value,
        )
    except (KeyError, ValueError) as error:
        raise LabError(f"{METRIC} with a label that is missing or no number ({error}): {dict(of)}") from error


def facts(recording: Recording, prometheus: str) -> list[tuple[str, str]]:
    """The table at the top of a report; `prometheus` is the address of the data's source."""
    run, info = recording.run, recording.info
    cpu = f", {info.get('cpus', '?')} CPUs, {info['cpu']}" if info.get("cpu") else ""
    software = [part for part in (info.get("os"), info.get("kernel") and f"Linux {info['kernel']}") if part]
    repetitions = max((one.repetition for one in recording.measurements), default=0)
    finished = f"{recording.finished_steps} of {count(recording.planned_steps, 'step')}"
    return [
        ("When", f"{time(run.start)} to {time(run.end)}"),
        ("What", f"{finished}, {count(repetitions, 'repetition')}"),
        ("Machine", f"{run.host}{cpu}"),
        ("Software", ", ".join(software) or UNKNOWN),
        ("virtscope", info.get("version") or UNKNOWN),
        ("Asked", f"{prometheus} at {time(recording.asked_at)}"),
    ]


def values(of: Sequence[Measurement], test: str, environment: str) -> list[float]:
    """A test's values in an environment, by repetition."""
    found = [one for one in of if (one.test, one.environment) == (test, environment)]
    return [one.value for one in sorted(found, key=lambda one: one.repetition)]
