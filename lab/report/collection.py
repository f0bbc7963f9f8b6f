"""All queries of the report about one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from lab import LabError
from lab.prometheus import Prometheus, Sample
from lab.report import queries
from lab.report.runs import Run, Step, runs


class NoSuchRunError(LabError):
    """There is no run of this name, or none at all: the message lists those that exist."""


class Named(Protocol):
    """A run of any study."""

    @property
    def name(self) -> str:
        """Begins with the time at which it began."""


AnyRun = TypeVar("AnyRun", bound=Named)


@dataclass(frozen=True)
class Answers:
    """Prometheus's data about one step: by name, each query and its result."""

    step: Step
    apps: tuple[str, ...]
    """The applications that had clients in it."""
    asked: Mapping[str, str]
    given: Mapping[str, Sequence[Sample]]


@dataclass(frozen=True)
class Recording:
    """Prometheus's data about a run. `info` and `gauges` are from the runner; empty if it exposed none."""

    run: Run
    info: Mapping[str, str]
    gauges: Mapping[str, float]
    steps: tuple[Answers, ...]
    asked_at: float


def find_run(prometheus: Prometheus, name: str | None) -> Run:
    """The run of this name, or the newest.

    Raises `NoSuchRunError`, `PrometheusError`, and `LabError` as `runs` does.
    """
    return choose(runs(prometheus.recorded(queries.RUNS)), name, prometheus.url)


def choose(found: Sequence[AnyRun], name: str | None, url: str) -> AnyRun:
    """The run of this name, or the first, which is the newest; raises `NoSuchRunError`."""
    if not found:
        raise NoSuchRunError(
            f"{url} has no run of the lab within the last 30 days: start one with `make lab SCENARIO=smoke`"
        )
    chosen = [run for run in found if name in {None, run.name}]
    if not chosen:
        raise NoSuchRunError(f"no run {name!r}; there are, newest first: {', '.join(run.name for run in found)}")
    return chosen[0]


def collect(prometheus: Prometheus, run: Run, asked_at: float) -> Recording:
    """Run all queries about a run; raises `PrometheusError`."""
    last = run.steps[-1]
    info = prometheus.vector(queries.about_run("lab_run_info", last))
    gauges = {
        metric: samples[0].value
        for metric in queries.RUN_GAUGES
        if (samples := prometheus.vector(queries.about_run(metric, last)))
    }
    return Recording(
        run, info[0].labels if info else {}, gauges, tuple(_answers(prometheus, step) for step in run.steps), asked_at
    )


def _answers(prometheus: Prometheus, step: Step) -> Answers:
    if step.seconds == 0:
        return Answers(step, (), {}, {})
    clients = prometheus.vector(queries.applications(step))
    apps = tuple(sorted((sample.labels["app"] for sample in clients), key=_natural))
    asked = {name: query(step, apps) for name, query in queries.OF_STEP.items()}
    given = {name: prometheus.vector(text) for name, text in asked.items()}
    by_seconds: dict[float, list[str]] = {}
    for sample in given["thresholds"]:
        if sample.labels["objective"] == "latency":
            by_seconds.setdefault(sample.value, []).append(sample.labels["app"])
    if by_seconds:
        each = [queries.within(seconds)(step, sorted(of, key=_natural)) for seconds, of in sorted(by_seconds.items())]
        asked["within"] = "\nor\n".join(each)
        given["within"] = prometheus.vector(asked["within"])
    return Answers(step, apps, asked, given)


def _natural(name: str) -> tuple[int, str]:
    """auction-2 before auction-10."""
    return len(name), name
