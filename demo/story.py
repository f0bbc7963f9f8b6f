"""Which step of the experiment is on: an hour's story, tied to the clock, so that it is known of any moment."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from demo import study

PLATFORMS = {"demo-xen": "xen", "demo-openvz": "openvz", "demo-base": "base"}  # by host


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
        """As the lab calls its steps, such as "4x800"."""
        return f"{self.instances}x{self.clients}{' one node' if self.placement == 'one node' else ''}"


def _steps() -> list[Step]:
    wanted = [(chapter, step) for chapter in study.CHAPTERS for step in study.STEPS]
    ends = list(accumulate(60 * step["minutes"] for _, step in wanted))
    return [
        Step(chapter["placement"], chapter["instances"], step["clients"], begin, end)
        for (chapter, step), begin, end in zip(wanted, [0, *ends], ends, strict=False)
    ]


STEPS = _steps()
CYCLE = STEPS[-1].end  # seconds


def step_at(seconds: float) -> Step:
    """The step at this Unix time."""
    phase = seconds % CYCLE
    return next(step for step in STEPS if phase < step.end)


def instances_on(platform: str, step: Step) -> int:
    """How many applications a host has: only virtualised ones have more than one."""
    return 1 if platform == "base" else step.instances
