"""The lab's metrics during its studies, written by the lab's own classes."""

import functools

from prometheus_client import generate_latest

from lab.allocation.results import Sample, Sums, measurements
from lab.allocation.scenario import CONTROL, DYNAMIC, STATIC, Step
from lab.metrics import Measurement, RunnerMetrics

_SUITES, _ALLOCATION = "20261121T090512-suites", "20261121T120000-allocation-short"


@functools.cache
def page() -> str:
    """A run with measurements in two environments and one of dynamic allocation, at any time."""
    return _measurements() + _allocation()


_STEPS = [
    Step(2, "unpinned", 6, mode, low, high, repetition)
    for repetition in (1, 2)
    for mode, low, high in ((STATIC, 0.5, 0.5), (CONTROL, 0.5, 0.5), (DYNAMIC, 0.2, 0.8))
]


def _measurements() -> str:
    metrics = RunnerMetrics()
    metrics.describe_run(_SUITES, "suites", "suites", 4, {"version": "v1"})
    for environment, kind, slower in (("base", "none", 1.0), ("capped", "cgroup", 2.5)):
        for repetition in (1, 2):
            value = (100 + repetition) * slower
            found = Measurement(environment, kind, False, "fork", "microseconds", "lower", repetition, value)
            metrics.add(_SUITES, f"{environment}-{repetition}", [found])
    return _text(metrics)


def _allocation() -> str:
    metrics = RunnerMetrics()
    facts = {"virtualization": "xen", "emulated": "yes", "target": "root@xen1"}
    metrics.describe_run(_ALLOCATION, "allocation", "allocation-short", len(_STEPS), facts)
    for step in _STEPS:
        sums, caps = (
            Sums(calls=6, call_seconds=0.01, call_cpu=0.001),
            [step.cap(container, 0) for container in range(2)],
        )
        sums.add(Sample(0, 0, [0, 0], 0), Sample(36, 40, [36 * cap for cap in caps], 72_000), 0, caps)
        metrics.add(_ALLOCATION, step.name, measurements(step, sums, "xen", emulated=True))
    return _text(metrics)


def _text(metrics: RunnerMetrics) -> str:
    text = generate_latest(metrics.registry).decode()
    metrics.stop()
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
