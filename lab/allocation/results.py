"""What a step of dynamic allocation has measured: sums by the seconds since the last switch, and their results.

Capacity is the CPU of all containers together, performance the tasks that they finish; the host's CPU is all the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.allocation.scenario import Step
from lab.measurements import Measurement

FOLLOWED = 5  # seconds after a switch that have results of their own; later ones are one
SETTLED = 2  # seconds until a switch has taken effect; the study saw 1 to 2
NEVER = -1  # before the first switch
FIRST, AFTER = tuple(range(SETTLED)), tuple(range(SETTLED, FOLLOWED + 1))

CAPACITY, HOST, SETTLED_HOST, SWITCH = "containers' CPU", "host's CPU", "host's CPU, later", "CPU of a switch"
TASKS = {"tasks": "tasks/s", "requests": "requests/s"}  # tests and their units
CALL_CPU, CALL_SECONDS = "CPU of writing caps", "time of writing caps"
RAISED, CUT = "delay of a larger cap", "delay of a smaller cap"


def host_after(second: int) -> str:
    """The test of the host's CPU in this second after a switch."""
    return f"{HOST}, second {second}"


@dataclass(frozen=True)
class Sample:
    """Totals at a moment, in seconds: of the clock, of all CPU used on the machine, of that of each container."""

    clock: float
    machine_cpu: float
    container_cpu: Sequence[float]
    tasks: int


@dataclass
class Sums:
    """Of a step; times in seconds, by the whole seconds since the last switch, and of containers by their cap too."""

    seconds: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    machine_cpu: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    container_cpu: dict[tuple[int, float], float] = field(default_factory=lambda: defaultdict(float))
    tasks: int = 0
    calls: int = 0
    call_cpu: float = 0.0
    call_seconds: float = 0.0

    def add(self, before: Sample, after: Sample, since: int, caps: Sequence[float]) -> None:
        """What was used between two samples, so many seconds after the last switch, at these caps of the containers."""
        since = min(since, FOLLOWED)
        self.seconds[since] += after.clock - before.clock
        self.machine_cpu[since] += after.machine_cpu - before.machine_cpu
        for cap, was, now in zip(caps, before.container_cpu, after.container_cpu, strict=True):
            self.container_cpu[since, cap] += now - was
        self.tasks += after.tasks - before.tasks

    @property
    def duration(self) -> float:
        """How long the step was measured."""
        return sum(self.seconds.values())

    @property
    def capacity(self) -> float:
        """CPUs that all containers together used."""
        return sum(self.container_cpu.values()) / self.duration

    def host(self, *since: int) -> float | None:
        """CPUs that everything outside of the containers used, in only these seconds if given; None without any."""
        when = since or tuple(self.seconds)
        if not (seconds := sum(self.seconds.get(each, 0) for each in when)):
            return None
        contained = sum(cpu for (each, _), cpu in self.container_cpu.items() if each in when)
        return (sum(self.machine_cpu.get(each, 0) for each in when) - contained) / seconds

    def _at_cap(self, cap: float, *since: int) -> float | None:
        """CPUs that the containers with this cap used in these seconds since a switch; None without any."""
        if not (seconds := sum(self.seconds.get(each, 0) for each in since)):
            return None
        return sum(cpu for (when, of), cpu in self.container_cpu.items() if when in since and of == cap) / seconds

    def cpu_of_a_switch(self) -> float | None:
        """CPU seconds outside of the containers in the first seconds after a switch, beyond what is used later.

        A second way to the cost of a switch, from within one step: drift between steps doesn't matter to it.
        """
        settled, first = self.host(*AFTER), [self.host(when) for when in FIRST]
        if settled is None or None in first:
            return None
        return sum((cpu or 0) - settled for cpu in first)  # each for one second

    def delay(self, cap: float, before: float) -> float | None:
        """Seconds until a cap has taken effect, on average over its switches from the cap `before`; None if unknown.

        A container that goes on as before for d seconds uses d * (before - now) more than one that changes at once.
        What it used in the first seconds, compared with what as many containers of both caps use later, gives d; at
        most `SETTLED`. It doesn't depend on how fine the samples are, and may be a little below 0 by their noise.
        """
        settled, settled_before = self._at_cap(cap, *AFTER), self._at_cap(before, *AFTER)
        first = [self._at_cap(cap, when) for when in FIRST]
        if settled is None or settled_before is None or None in first or settled == settled_before:
            return None
        return sum((cpu or 0) - settled for cpu in first) / (settled_before - settled)


def measurements(step: Step, sums: Sums, platform: str, *, emulated: bool) -> list[Measurement]:
    """A step's values."""
    values = [
        (CAPACITY, "CPUs", "higher", sums.capacity),
        (step.unit, TASKS[step.unit], "higher", sums.tasks / sums.duration),
        (HOST, "CPUs", "lower", sums.host()),
        *((host_after(second), "CPUs", "lower", sums.host(second)) for second in range(FOLLOWED)),
        (SETTLED_HOST, "CPUs", "lower", sums.host(*AFTER)),
        (SWITCH, "s", "lower", sums.cpu_of_a_switch()),
    ]
    if step.low != step.high:
        values.append((RAISED, "s", "lower", sums.delay(step.high, step.low)))
        values.append((CUT, "s", "lower", sums.delay(step.low, step.high)))
    if sums.calls:
        values.append((CALL_CPU, "s", "lower", sums.call_cpu / sums.calls or None))  # 0: another host's own commands
        values.append((CALL_SECONDS, "s", "lower", sums.call_seconds / sums.calls))
    where = step.environment, platform, emulated
    return [
        Measurement(*where, test, unit, better, step.repetition, value)
        for test, unit, better, value in values
        if value is not None
    ]
