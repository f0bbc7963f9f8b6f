"""The experiment's step at any given time: an hour's story that repeats by the clock."""

from collections.abc import Iterator
from dataclasses import dataclass

from demo import shop, study

# By host. All but demo-kvm are the study's.
PLATFORMS = {"demo-xen": "xen", "demo-openvz": "openvz", "demo-base": "base", shop.HOST: "kvm"}


@dataclass(frozen=True)
class Step:
    """`instances` applications with `clients` each, from `begin` to `end` in seconds of the hour."""

    placement: str
    instances: int
    clients: int
    begin: int
    end: int

    @property
    def name(self) -> str:
        """In the lab's notation, such as "4x800"."""
        return f"{self.instances}x{self.clients}{' one node' if self.placement == 'one node' else ''}"


def _steps() -> Iterator[Step]:
    clients, seconds = study.STEPS["clients"], 60 * study.STEPS["minutes"]
    begin = 0
    for chapter in study.CHAPTERS:
        end = begin + 60 * chapter["minutes"]
        for number in clients:
            until = end if number == clients[-1] else begin + seconds
            yield Step(chapter["placement"], chapter["instances"], number, begin, until)
            begin = until


STEPS = list(_steps())
CYCLE = STEPS[-1].end  # seconds


def step_at(seconds: float) -> Step:
    """The step at this Unix time."""
    phase = seconds % CYCLE
    return next(step for step in STEPS if phase < step.end)


def instances_on(platform: str, step: Step) -> int:
    """How many applications a host has: only virtualised ones have more than one."""
    return 1 if platform == "base" else step.instances
