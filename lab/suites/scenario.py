"""Scenarios of benchmark suites (docs/lab-suites.md): suites, environments, and repetitions.

In each repetition all suites run in each environment, one after the other; the first environment rotates with the
repetition, so that a drift of the machine affects all of them.
"""

import itertools
import os
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from lab import keys
from lab.environments import Base, Environment, Listed
from lab.keys import OneOrMore, Seconds, distinct, rotated

Suite = Literal["lmbench", "unixbench", "nbench", "stress-ng"]
SUITES = get_args(Suite)
# An interval's duration shows whether other work was throttled or descheduled in it. A tenth of a second is the longest
# that lmbench tries before it falls back to a second, and is five periods of a cap.
INTERVAL = 0.1


@dataclass(frozen=True)
class Step:
    environment: str
    suite: str
    repetition: int

    @property
    def name(self) -> str:
        """Unique in its run, such as "capped-lmbench-2"."""
        return f"{self.environment}-{self.suite}-{self.repetition}"


def _power_of_two(number: int) -> int:
    if number & (number - 1):
        raise ValueError(f"{number} is not a power of two, as lmbench's sizes are")
    return number


def _with_base(found: tuple[Environment, ...]) -> tuple[Environment, ...]:
    if Base() not in found:
        raise ValueError("base is missing, with which all others are compared: add `- base`")
    return found


Folder = Annotated[str, Field(pattern="^/")]
"""An absolute path, the same in each environment."""


class Suites(keys.Scenario):
    study: Literal["suites"]
    cpus: Annotated[str, Field(pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$")] = Field(
        default_factory=lambda: str(max(os.sched_getaffinity(0)))
    )  # for all environments of this machine
    environments: Annotated[tuple[Listed, ...], distinct(lambda one: one.name), AfterValidator(_with_base)]
    suites: OneOrMore[Suite] = SUITES
    settle: Annotated[Seconds, Field(le=3_600)] = 10.0
    megabytes: Annotated[int, Field(ge=4, le=65_536), AfterValidator(_power_of_two)] = 64
    interval: Annotated[Seconds, Field(ge=0.001, le=10)] = INTERVAL
    stress_time: Annotated[Seconds, Field(ge=1, le=3_600)] = 10.0
    unixbench: Folder | None = None  # the folder with its Run
    nbench: Folder | None = None  # the folder with its nbench

    @property
    def copies(self) -> dict[str, str | None]:
        """The user's copies of suites that no distribution packages."""
        return {"unixbench": self.unixbench, "nbench": self.nbench}

    @property
    def runnable(self) -> tuple[str, ...]:
        return tuple(suite for suite in self.suites if self.copies.get(suite, "packaged"))

    @property
    def steps(self) -> tuple[Step, ...]:
        of = [environment.name for environment in self.environments]
        return tuple(
            Step(environment, suite, turn + 1)
            for turn in range(self.repetitions)
            for environment, suite in itertools.product(rotated(of, turn), self.runnable)
        )
