"""The queries about a run of dynamic allocation, and their results.

A step's counters begin at 0 with it, and its last values are exposed until they are scraped: so the last sample of each
series is the step's exact total, and one query for each metric fetches that of all steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.prometheus import Prometheus, Recorded, Sample

RUNS = "lab_allocation_step_info[30d]"  # as long as the stack keeps data
OF_RUN = ("lab_run_info", "lab_run_planned_steps")
OF_STEPS = (
    "lab_allocation_step_info",
    "lab_allocation_step_planned_seconds",
    "lab_allocation_seconds_total",
    "lab_allocation_machine_cpu_seconds_total",
    "lab_allocation_container_cpu_seconds_total",
    "lab_allocation_tasks_total",
    "lab_allocation_calls_total",
    "lab_allocation_call_cpu_seconds_total",
    "lab_allocation_call_seconds_total",
)


@dataclass(frozen=True)
class AllocationRun:
    """One run; Unix times of its first and last samples."""

    name: str
    scenario: str
    host: str
    start: float
    end: float


@dataclass(frozen=True)
class Recording:
    """Prometheus's data about a run: by metric, the query and its result."""

    run: AllocationRun
    asked: Mapping[str, str]
    given: Mapping[str, Sequence[Sample]]
    asked_at: float


def runs(recorded: Sequence[Recorded]) -> list[AllocationRun]:
    """All runs that have samples, newest first."""
    times: dict[tuple[str, str, str], list[float]] = {}
    for series in recorded:
        run = (series.labels["run"], series.labels.get("scenario", ""), series.labels.get("host", ""))
        times.setdefault(run, []).extend(time for time, _ in series.samples)
    found = [AllocationRun(*run, min(seen), max(seen)) for run, seen in times.items()]
    return sorted(found, key=lambda run: run.start, reverse=True)


def query(metric: str, run: AllocationRun) -> str:
    """The last sample of each series of the run, within the run's time only: its result is always the same."""
    end = math.ceil(run.end)
    return f'last_over_time({metric}{{run="{run.name}"}}[{end - math.floor(run.start) + 1}s] @ {end})'


def collect(prometheus: Prometheus, run: AllocationRun, asked_at: float) -> Recording:
    """Run all queries about a run; raises `PrometheusError`."""
    asked = {metric: query(metric, run) for metric in (*OF_RUN, *OF_STEPS)}
    return Recording(run, asked, {metric: prometheus.vector(text) for metric, text in asked.items()}, asked_at)
