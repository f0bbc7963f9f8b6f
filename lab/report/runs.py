"""Runs and their steps, from the samples of `lab_step_info`.

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
from lab.prometheus import Recorded

LABELS = ("run", "scenario", "step", "instances", "clients", "placement", "repetition", "host", "platform")
SCRAPE_SECONDS = 5.0  # prometheus.yml's, as a step with one sample doesn't show it
ATTEMPT_GAP_SECONDS = 20  # three scrapes in a row may fail on an overloaded machine


@dataclass(frozen=True)
class Step:
    """One step of a run: a constant load. `clients` are those of one instance, in the study's numbers."""

    run: str
    scenario: str
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

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Run:
    """All steps of one run, in the order in which they ran."""

    name: str
    scenario: str
    steps: tuple[Step, ...]

    @property
    def start(self) -> int:
        """Unix time at which its first step began."""
        return self.steps[0].start

    @property
    def end(self) -> int:
        """Unix time at which its last step ended."""
        return max(step.end for step in self.steps)


def runs(recorded: Iterable[Recorded]) -> list[Run]:
    """All runs that have samples, newest first.

    Raises `LabError`, naming the series, if a numeric label isn't a number or a label is missing.
    """
    times: dict[tuple[str, ...], set[float]] = {}
    for series in recorded:
        # Without `instance` and `job`: after a crash the runner may have another port, but it is the same step.
        times.setdefault(_identity(series.labels), set()).update(time for time, _ in series.samples)
    by_run: dict[str, list[Step]] = {}
    for identity, seen in times.items():
        step = _step(identity, _attempts(sorted(seen)))
        by_run.setdefault(step.run, []).append(step)
    found = [
        Run(name, steps[0].scenario, tuple(sorted(steps, key=lambda step: step.start)))
        for name, steps in by_run.items()
    ]
    return sorted(found, key=lambda run: run.start, reverse=True)


def _identity(labels: Mapping[str, str]) -> tuple[str, ...]:
    missing = [label for label in LABELS if label not in labels]
    if missing:
        raise LabError(f"lab_step_info without {', '.join(missing)}: {dict(labels)}")
    return tuple(labels[label] for label in LABELS)


def _step(identity: Sequence[str], attempts: Sequence[Sequence[float]]) -> Step:
    """The step's longest attempt; of equally long ones the last."""
    of = dict(zip(LABELS, identity, strict=True))
    try:
        instances, clients, repetition = int(of["instances"]), int(of["clients"]), int(of["repetition"])
    except ValueError as error:
        raise LabError(f"lab_step_info with a label that isn't a number ({error}): {of}") from error
    attempt = max(reversed(attempts), key=lambda seen: seen[-1] - seen[0])
    interval = statistics.median(b - a for a, b in itertools.pairwise(attempt)) if len(attempt) > 1 else SCRAPE_SECONDS
    # Other targets are scraped at other moments than the lab's, each at its own fixed place within the interval. What
    # Prometheus knows at `end` is of the last interval. Whole intervals lie between start and end, so that the same
    # time lies between the samples of every target.
    end = int(attempt[-1])
    intervals = max(int((attempt[-1] - attempt[0]) / interval + 0.5) - 1, 0)
    return Step(
        of["run"],
        of["scenario"],
        of["step"],
        instances,
        clients,
        of["placement"],
        repetition,
        of["host"],
        of["platform"],
        start=end - round(intervals * interval),
        end=end,
        attempts=len(attempts),
    )


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
