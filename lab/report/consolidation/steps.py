"""The steps of a run, from the samples of `lab_step_info`, and the answers to all queries about them.

    lab_step_info{run="20261121T090512-scale", scenario="scale", step="4x700-2", instances="4", clients="700",
                  placement="one node", repetition="2", host="lab", platform="cgroup"} 1

The runner exposes a step only while it measures: warm-up and the pauses between steps have no samples. So the
samples of a series define the time over which values are computed, and a gap in them means that the step was
restarted, as in a run that continues after a crash.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab import LabError
from lab.prometheus import Prometheus, Recorded, Sample
from lab.report.consolidation import queries
from lab.report.recorded import Run

SCRAPE_SECONDS = 5.0  # prometheus.yml's, as a step with one sample doesn't show it
ATTEMPT_GAP_SECONDS = 20  # three scrapes in a row may fail on an overloaded machine
_LABELS = ("run", "step", "instances", "clients", "placement", "repetition", "host", "platform")


@dataclass(frozen=True)
class Step:
    """One step of a run: a constant load. `clients` are those of one instance, in the study's numbers."""

    run: str
    name: str
    instances: int
    clients: int
    placement: str
    repetition: int
    host: str
    platform: str
    start: int
    """Unix time of its first samples: a scrape after it was first seen, so that they are all of the step itself."""
    end: int
    """Unix time of its last samples; a whole number of scrapes after `start`."""
    attempts: int = 1

    @property
    def seconds(self) -> int:
        """How long it was measured; 0 if it ended within a scrape or two, so that there is nothing to compare."""
        return self.end - self.start


@dataclass(frozen=True)
class Answers:
    """Prometheus's data about one step: by name, each query and its result; and the applications that had clients."""

    step: Step
    apps: tuple[str, ...]
    asked: Mapping[str, str]
    given: Mapping[str, Sequence[Sample]]


@dataclass(frozen=True)
class Recording:
    """Prometheus's data about a run. `info` and `gauges` are from the runner; empty if it exposed none."""

    run: Run
    url: str
    info: Mapping[str, str]
    gauges: Mapping[str, float]
    steps: tuple[Answers, ...]
    asked_at: float


def collect(prometheus: Prometheus, run: Run, asked_at: float) -> Recording:
    """Run all queries about a run; raises `PrometheusError`, and `LabError` as `steps` does."""
    found = steps(prometheus.recorded(f'lab_step_info{{run="{run.name}"}}[30d]'))
    if not found:
        raise LabError(f"run {run.name} has not measured a step yet")
    asked = {
        metric: f'{metric}{{run="{run.name}"}} @ {found[-1].end}' for metric in ("lab_run_info", *queries.RUN_GAUGES)
    }
    given = {metric: samples[0] for metric, query in asked.items() if (samples := prometheus.vector(query))}
    info = given["lab_run_info"].labels if "lab_run_info" in given else {}
    gauges = {metric: sample.value for metric, sample in given.items()}
    answers = tuple(_answers(prometheus, step) for step in found)
    return Recording(run, prometheus.url, info, gauges, answers, asked_at)


def _answers(prometheus: Prometheus, step: Step) -> Answers:
    if step.seconds == 0:
        return Answers(step, (), {}, {})
    clients = prometheus.vector(queries.applications(step))
    apps = tuple(sorted((sample.labels["app"] for sample in clients), key=_natural))
    asked = queries.of_step(step, apps)
    given = {name: prometheus.vector(text) for name, text in asked.items()}
    by_seconds: dict[float, list[str]] = {}
    for sample in given["thresholds"]:
        if sample.labels["objective"] == "latency":
            by_seconds.setdefault(sample.value, []).append(sample.labels["app"])
    if by_seconds:
        each = [queries.within(step, sorted(of, key=_natural), seconds) for seconds, of in sorted(by_seconds.items())]
        asked["within"] = "\nor\n".join(each)
        given["within"] = prometheus.vector(asked["within"])
    return Answers(step, apps, asked, given)


def _natural(name: str) -> tuple[int, str]:
    """auction-2 before auction-10."""
    return len(name), name


def steps(recorded: Iterable[Recorded]) -> list[Step]:
    """A run's steps, in the order in which they ran; raises `LabError` that names a series that isn't the lab's."""
    times: dict[tuple[str, ...], set[float]] = {}
    for series in recorded:
        # Without `instance` and `job`: after a crash the runner may have another port, but it is the same step.
        identity = tuple(series.labels.get(label, "") for label in _LABELS)
        times.setdefault(identity, set()).update(time for time, _ in series.samples)
    return sorted((_step(identity, sorted(seen)) for identity, seen in times.items()), key=lambda step: step.start)


def _step(identity: tuple[str, ...], seen: Sequence[float]) -> Step:
    """The step's longest attempt; of equally long ones the last."""
    run, name, instances, clients, placement, repetition, host, platform = identity
    attempts = _attempts(seen)
    attempt = max(reversed(attempts), key=lambda times: times[-1] - times[0])
    interval = statistics.median(b - a for a, b in itertools.pairwise(attempt)) if len(attempt) > 1 else SCRAPE_SECONDS
    # Other targets are scraped at other moments than the lab's, each at its own fixed place within the interval. What
    # Prometheus knows at `end` is of the last interval. Whole intervals lie between start and end, so that the same
    # time lies between the samples of every target.
    end = int(attempt[-1])
    intervals = max(int((attempt[-1] - attempt[0]) / interval + 0.5) - 1, 0)
    try:
        numbers = (int(instances), int(clients), placement, int(repetition))
    except ValueError as error:
        raise LabError(f"lab_step_info with a label that is missing or no number ({error}): {identity}") from error
    return Step(run, name, *numbers, host, platform, end - round(intervals * interval), end, len(attempts))


def _attempts(times: Sequence[float]) -> list[list[float]]:
    """Split the times of samples at gaps.

    >>> _attempts([0, 5, 10, 100, 105])
    [[0, 5, 10], [100, 105]]
    """
    attempts = [[times[0]]]
    for before, time in itertools.pairwise(times):
        if time - before > ATTEMPT_GAP_SECONDS:
            attempts.append([])
        attempts[-1].append(time)
    return attempts
