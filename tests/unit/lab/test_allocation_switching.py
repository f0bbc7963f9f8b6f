"""The times at which caps are switched, and the second after a switch that each sample belongs to."""

from typing import Any

from lab.allocation.results import NEVER, Sample
from lab.allocation.scenario import Allocation
from lab.allocation.switching import switched

SCENARIO = "study: allocation\nabout: x.\nmagnitudes: [[0.2, 0.8]]\nintervals: 3s\nduration: 9s\n"


class Containers:
    """Each second, one guest uses its current cap, and the host uses nothing."""

    def __init__(self) -> None:
        self.clock = 0
        self.caps = [0.2, 0.8]
        self.used = [0.0, 0.0]
        self.written: list[tuple[int, int, float]] = []

    def cap(self, container: int, cpus: float) -> None:
        self.written.append((self.clock, container, cpus))
        self.caps[container] = cpus

    def sample(self) -> Sample:
        return Sample(self.clock, sum(self.used), list(self.used), self.clock)

    def check(self) -> None:
        pass

    def pass_time(self, _seconds: float, check: Any) -> None:
        check()
        self.clock += 1
        self.used = [before + cap for before, cap in zip(self.used, self.caps, strict=True)]


def test_caps_change_places_on_schedule_and_each_second_counts_from_the_last_switch() -> None:
    what, containers = Allocation.parse(SCENARIO, "mine.yml"), Containers()
    [step] = [one for one in what.steps if one.mode == "dynamic" and one.repetition == 1]
    fake: Any = containers
    sums = switched(step, what, course=fake, running=fake)
    assert containers.written == [(3, 0, 0.8), (3, 1, 0.2), (6, 0, 0.2), (6, 1, 0.8)]
    assert sums.seconds == {NEVER: 3, 0: 2, 1: 2, 2: 2}
    assert {key: round(cpu, 9) for key, cpu in sums.container_cpu.items()} == {
        (since, cap): round(seconds * cap, 9) for since, seconds in sums.seconds.items() for cap in (0.2, 0.8)
    }
    assert (sums.calls, sums.tasks) == (2, 9)
