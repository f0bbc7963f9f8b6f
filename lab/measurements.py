"""Results of studies whose steps end in numbers, such as a benchmark's: a gauge for each value.

    lab_measurement{run="20261123T090512-suites",step="base-2",environment="base",virtualization="none",emulated="no",
                    test="fork",unit="microseconds",better="lower",repetition="2",attempt="1795424712"} 131.5

A value is exposed from the end of its step to the end of the run, and a step is only finished once Prometheus has it.
One that was interrupted before that is measured again: of two attempts, Unix times of their ends, the later counts.

    lab_step_unsettled_cpus{run="20261123T090512-suites",step="base-2"} 1.3

Of steps that have begun although others used the machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from lab import scrapes
from lab.metrics import RunnerMetrics

METRIC = "lab_measurement"
UNSETTLED = "lab_step_unsettled_cpus"
BETTER = ("lower", "higher")
_LABELS = (
    "run",
    "step",
    "environment",
    "virtualization",
    "emulated",
    "test",
    "unit",
    "better",
    "repetition",
    "attempt",
)


@dataclass(frozen=True)
class Measurement:
    """One value of a test, in `unit`. `better` is one of `BETTER`; `virtualization` is "none", or a platform's name."""

    environment: str
    virtualization: str
    emulated: bool
    test: str
    unit: str
    better: str
    repetition: int
    value: float


class Measurements(RunnerMetrics, Collector):
    """The metrics of a run whose steps end in measurements."""

    def __init__(self) -> None:
        self._found: list[tuple[tuple[str, ...], float]] = []
        self._unsettled: dict[tuple[str, str], float] = {}
        super().__init__()
        self.registry.register(self)

    def add(self, run: str, step: str, found: Sequence[Measurement]) -> None:
        """Expose what a step has measured, all at once."""
        attempt = str(int(time.time()))
        self._found = [*self._found, *(((*_labels(run, step, each), attempt), each.value) for each in found)]

    def unsettled(self, run: str, step: str, cpus: float) -> None:
        """Expose that others used so many CPUs right before a step."""
        self._unsettled[run, step] = cpus

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """For prometheus_client."""
        family = GaugeMetricFamily(METRIC, "What a step of the lab has measured, in the label `unit`.", labels=_LABELS)
        for labels, value in self._found:
            family.add_metric(labels, value)
        yield family
        unsettled = GaugeMetricFamily(
            UNSETTLED,
            "CPUs that others used right before the step, if the machine did not settle.",
            labels=["run", "step"],
        )
        for step, cpus in self._unsettled.items():
            unsettled.add_metric(step, cpus)
        yield unsettled


def await_scraped(prometheus_port: int, run: str, step: str, number: int, check: Callable[[], None]) -> None:
    """Return once Prometheus has this number of measurements of a step; raises `LabError` if it doesn't get them."""
    attempts = f"{METRIC}{{run={json.dumps(run)}, step={json.dumps(step, ensure_ascii=False)}}}"
    query = f"max(count by (attempt) ({attempts})) >= {number}"
    scrapes.await_samples(prometheus_port, lambda: query, f"not all measurements of step {step}", check)


def _labels(run: str, step: str, of: Measurement) -> tuple[str, ...]:
    emulated = "yes" if of.emulated else "no"
    kind = (of.environment, of.virtualization, emulated, of.test, of.unit, of.better)
    return (run, step, *kind, str(of.repetition))
