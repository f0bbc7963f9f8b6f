"""What a step has measured so far, as counters that begin at 0 with it.

    lab_allocation_step_info{run="20261123T090512-allocation",scenario="allocation",step="2x0.2-0.8-6s-1",
                             attempt="1795424712",containers="2",pinning="unpinned",load="computational",mode="dynamic",low="0.2",high="0.8",
                             interval="6",repetition="1"} 1
    lab_allocation_seconds_total{run="...",step="...",attempt="...",since="0"} 59.02
    lab_allocation_container_cpu_seconds_total{...,since="0",cap="0.8"} 46.91

All of them are one scrape's, so ratios are exact. `since` is the whole seconds since the caps were last written: 0 is
the second that begins with the writing, "never" what was before. A step's last values are exposed until Prometheus has
them. One that was interrupted begins again as another `attempt`, which is the Unix time of its beginning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from lab.allocation.scenario import Step
from lab.metrics import RunnerMetrics

FOLLOWED = 5  # seconds after a switch that have a label of their own; the others are "later"
LATER, NEVER = "later", "never"

Family = CounterMetricFamily | GaugeMetricFamily


def since(seconds: int | None) -> str:
    """The label for a second that begins this long after the last switch, None if there was none.

    >>> since(None), since(0), since(4), since(5)
    ('never', '0', '4', 'later')
    """
    if seconds is None:
        return NEVER
    return str(seconds) if seconds < FOLLOWED else LATER


@dataclass(frozen=True)
class Attempt:
    """A step that is being measured, since `began`, a Unix time; `planned` is in seconds."""

    run: str
    scenario: str
    step: Step
    began: int
    planned: int

    @property
    def labels(self) -> dict[str, str]:
        """Of all its series."""
        return {"run": self.run, "step": self.step.name, "attempt": str(self.began)}


@dataclass(frozen=True)
class Sample:
    """Totals at a moment, in seconds: of the clock, of all CPU used on the machine, of that of each container."""

    clock: float
    machine_cpu: float
    container_cpu: Sequence[float]
    tasks: int


@dataclass
class Sums:
    """Of a step; times in seconds, by `since`, and of containers by their cap too."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    machine_cpu: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    container_cpu: dict[tuple[str, float], float] = field(default_factory=lambda: defaultdict(float))
    tasks: int = 0
    calls: int = 0
    call_cpu: float = 0.0
    call_seconds: float = 0.0

    def add(self, before: Sample, after: Sample, when: str, caps: Sequence[float]) -> None:
        """What was used between two samples, at these caps of the containers."""
        self.seconds[when] += after.clock - before.clock
        self.machine_cpu[when] += after.machine_cpu - before.machine_cpu
        for cap, was, now in zip(caps, before.container_cpu, after.container_cpu, strict=True):
            self.container_cpu[when, cap] += now - was
        self.tasks += after.tasks - before.tasks


class Metrics(RunnerMetrics, Collector):
    """The runner's metrics. What `show` was given last is exposed, until `clear`."""

    def __init__(self) -> None:
        self._families: Sequence[Family] = ()
        super().__init__()
        self.registry.register(self)

    def show(self, attempt: Attempt, sums: Sums) -> None:
        """Expose a step's sums, all at once."""
        self._families = [*_facts(attempt), *_sums(sums, attempt.labels)]

    def clear(self) -> None:
        """Expose no step."""
        self._families = ()

    def collect(self) -> Iterator[Family]:
        """For prometheus_client."""
        yield from self._families


def _facts(attempt: Attempt) -> Iterator[Family]:
    step, of_step = attempt.step, attempt.labels
    labels = {
        **of_step,
        "scenario": attempt.scenario,
        "containers": str(step.containers),
        "pinning": step.pinning,
        "load": step.load,
        "mode": step.mode,
        "low": f"{step.low:g}",
        "high": f"{step.high:g}",
        "interval": str(step.interval),
        "repetition": str(step.repetition),
    }
    info = GaugeMetricFamily("lab_allocation_step_info", "The step that is being measured.", labels=list(labels))
    info.add_metric(list(labels.values()), 1)
    seconds = GaugeMetricFamily(
        "lab_allocation_step_planned_seconds", "How long the step is to be measured.", labels=list(of_step)
    )
    seconds.add_metric(list(of_step.values()), attempt.planned)
    yield from (info, seconds)


def _sums(sums: Sums, of_step: Mapping[str, str]) -> Iterator[Family]:
    for name, help_text, by_since in (
        ("seconds", "Time measured, by whole seconds since the caps were last written.", sums.seconds),
        ("machine_cpu_seconds", "CPU time used on the whole machine, as in /proc/stat.", sums.machine_cpu),
    ):
        family = CounterMetricFamily(f"lab_allocation_{name}", help_text, labels=[*of_step, "since"])
        for when, value in sorted(by_since.items()):
            family.add_metric([*of_step.values(), when], value)
        yield family
    containers = CounterMetricFamily(
        "lab_allocation_container_cpu_seconds",
        "CPU time used by the containers that had this cap, all of them together.",
        labels=[*of_step, "since", "cap"],
    )
    for (when, cap), value in sorted(sums.container_cpu.items()):
        containers.add_metric([*of_step.values(), when, f"{cap:g}"], value)
    yield containers
    for name, help_text, total in (
        ("tasks", "Tasks finished in all containers.", sums.tasks),
        ("calls", "How often the caps of all containers were written.", sums.calls),
        ("call_cpu_seconds", "CPU time of the lab's process while it wrote the caps.", sums.call_cpu),
        ("call_seconds", "Time it took to write the caps.", sums.call_seconds),
    ):
        family = CounterMetricFamily(f"lab_allocation_{name}", help_text, labels=list(of_step))
        family.add_metric(list(of_step.values()), total)
        yield family
