"""How many clients of this machine stand for the study's.

In the study four sites with 800 clients each asked for more than the one CPU that they shared, two of them did not. So
one asks for about 0.3 here. What a request costs differs between machines by an order of magnitude, and is measured: a
site is visited for a while, and the CPU time of its tiers divided by its answers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lab import LabError

STUDY_CLIENTS = 800
THEIR_CPUS = 0.3
# To measure by: so many clients think so short a time that they give a steady load, which any machine can handle.
PROBING_CLIENTS = 10
PROBING_THINK_SECONDS = 0.5
LEAST_ANSWERS = 50


@dataclass(frozen=True)
class Scale:
    """From the study's clients to this machine's. Both are 1 and 0 where clients are taken as they are."""

    study_clients: float = 1.0  # that one client here stands for
    request_cpu_seconds: float = 0.0  # as measured

    def clients(self, of_study: int) -> int:
        """So many clients here for those of the study; at least one."""
        return max(1, round(of_study / self.study_clients))

    def as_dict(self) -> dict[str, float]:
        """For a state file; `Scale(**scale.as_dict())` is the same again."""
        return asdict(self)


def scale(cpu_seconds: float, answers: float, think_seconds: float) -> Scale:
    """The scale that follows from what was measured; raises `LabError` if that is too little.

    A client asks once per think time and answer, and the answer takes about the CPU time that it costs. The clients
    that take `THEIR_CPUS` are those who together ask `THEIR_CPUS` / cost times per second.
    """
    if answers < LEAST_ANSWERS or cpu_seconds <= 0:
        raise LabError(f"calibration got only {answers:g} answers: give it more time, or read the site's logs")
    cost = cpu_seconds / answers
    return Scale(STUDY_CLIENTS / (THEIR_CPUS / cost * (think_seconds + cost)), cost)
