"""Measurements of a dynamic allocation step: sums by the seconds since the last switch, and their results.

Capacity is the CPU use of all containers together, performance their finished tasks; the host's CPU is the rest.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.allocation.scenario import Step
from lab.metrics import Measurement

FOLLOWED = 5  # seconds after a switch with results of their own; all later ones are one
SETTLED = 2  # seconds until a switch has taken effect; 1 to 2 in the study
NEVER = -1  # before the first switch
FIRST, AFTER = tuple(range(SETTLED)), tuple(range(SETTLED, FOLLOWED + 1))

CAPACITY, HOST, SWITCH = "containers' CPU", "host's CPU", "CPU of a switch"
TASKS = {"tasks": "tasks/s", "requests": "requests/s"}  # tests and their units
CALL_CPU, CALL_SECONDS = "CPU of writing caps", "time of writing caps"
RAISED, CUT = "delay of a larger cap", "delay of a smaller cap"


def host_after(second: int) -> str:
    """The test for the host's CPU in this second after a switch."""
    return f"{HOST}, second {second}"


@dataclass(frozen=True)
class Sample:
    """Totals at a moment, in seconds: the clock, CPU used on the whole machine, and by each container."""

    clock: float
    machine_cpu: float
    container_cpu: Sequence[float]
    tasks: int


@dataclass
class Sums:
    """Sums of a step; times in seconds, by whole seconds since the last switch, and for containers also by cap."""

    seconds: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    machine_cpu: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    container_cpu: dict[tuple[int, float], float] = field(default_factory=lambda: defaultdict(float))
    tasks: int = 0
    calls: int = 0
    call_cpu: float = 0.0
    call_seconds: float = 0.0

    def add(self, before: Sample, after: Sample, since: int, caps: Sequence[float]) -> None:
        """Add the use between two samples, `since` seconds after the last switch, at these caps of the containers."""
        since = min(since, FOLLOWED)
        self.seconds[since] += after.clock - before.clock
        self.machine_cpu[since] += after.machine_cpu - before.machine_cpu
        for cap, was, now in zip(caps, before.container_cpu, after.container_cpu, strict=True):
            self.container_cpu[since, cap] += now - was
        self.tasks += after.tasks - before.tasks

    @property
    def duration(self) -> float:
        return sum(self.seconds.values())

    @property
    def capacity(self) -> float:
        return sum(self.container_cpu.values()) / self.duration

    def host(self, *since: int) -> float:
        """CPUs used outside the containers, only in these seconds if given; NaN without any."""
        when = since or tuple(self.seconds)
        contained = sum(cpu for (each, _), cpu in self.container_cpu.items() if each in when)
        return (sum(self.machine_cpu.get(each, 0) for each in when) - contained) / self._duration(when)

    def _at_cap(self, cap: float, *since: int) -> float:
        """CPUs used by containers with this cap in these seconds since a switch; NaN without any."""
        used = sum(cpu for (when, of), cpu in self.container_cpu.items() if when in since and of == cap)
        return used / self._duration(since)

    def _duration(self, since: Sequence[int]) -> float:
        return sum(self.seconds.get(each, 0) for each in since) or math.nan

    def cpu_of_a_switch(self) -> float:
        """CPU seconds outside the containers in the first seconds after a switch, beyond later use.

        A second way to measure the cost of a switch, within one step: drift between steps doesn't matter.
        """
        settled = self.host(*AFTER)
        return sum(self.host(when) - settled for when in FIRST)  # each for one second

    def delay(self, cap: float, before: float) -> float:
        """Mean seconds until a cap has taken effect, over switches from the cap `before`; NaN if unknown.

        A container that stays at the old cap for d seconds uses d * (before - now) more than one that changes at once.
        d follows from the use in the first seconds, compared with the later use of as many containers of both caps; it
        is at most `SETTLED`. It doesn't depend on the sampling interval, and noise may make it slightly negative.
        """
        settled = self._at_cap(cap, *AFTER)
        change = self._at_cap(before, *AFTER) - settled
        return sum(self._at_cap(cap, when) - settled for when in FIRST) / (change or math.nan)


def measurements(step: Step, sums: Sums, platform: str, *, emulated: bool) -> list[Measurement]:
    values = [
        (CAPACITY, "CPUs", "higher", sums.capacity),
        (step.unit, TASKS[step.unit], "higher", sums.tasks / sums.duration),
        (HOST, "CPUs", "lower", sums.host()),
        *((host_after(second), "CPUs", "lower", sums.host(second)) for second in range(FOLLOWED)),
        (SWITCH, "s", "lower", sums.cpu_of_a_switch()),
    ]
    if step.low != step.high:
        values.append((RAISED, "s", "lower", sums.delay(step.high, step.low)))
        values.append((CUT, "s", "lower", sums.delay(step.low, step.high)))
    if sums.calls:
        call_cpu = sums.call_cpu / sums.calls or math.nan  # 0: of commands of another host
        values.append((CALL_CPU, "s", "lower", call_cpu))
        values.append((CALL_SECONDS, "s", "lower", sums.call_seconds / sums.calls))
    where = step.environment, platform, emulated
    return [
        Measurement(*where, test, unit, better, step.repetition, value)
        for test, unit, better, value in values
        if not math.isnan(value)
    ]
