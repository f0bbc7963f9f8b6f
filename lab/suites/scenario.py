"""Scenarios of benchmark suites: which suites run in which environments, how often.

    study: suites
    about: lmbench on this machine and in a capped cgroup.
    suites: lmbench
    environments:
      - base
      - {name: capped, cap: 0.5}

For each repetition all suites run in each environment, one after the other; which environment is the first rotates with
the repetition, so that a drift of the machine is in all of them. `base`, with which the others are compared, is
required.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from alerts.generator.document import Value
from lab import environments, keys
from lab.environments import Base, Environment
from lab.keys import one_of, one_or_more, seconds, whole
from lab.suites import lmbench, nbench, stress_ng, unixbench

STUDY = "suites"
SUITES = (lmbench.SUITE, unixbench.SUITE, nbench.SUITE, stress_ng.SUITE)
# Where other work was throttled or descheduled in an interval shows in its length. A tenth of a second is the longest
# that lmbench tries before it falls back to a second, and five periods of a cap.
INTERVAL = 0.1


@dataclass(frozen=True)
class Step:
    """A suite in an environment, once."""

    environment: str
    suite: str
    repetition: int

    @property
    def name(self) -> str:
        """Unique in its run, such as "capped-lmbench-2"."""
        return f"{self.environment}-{self.suite}-{self.repetition}"


@dataclass(frozen=True)
class Suites:
    """A valid scenario; times in seconds."""

    name: str
    digest: str
    about: str
    environments: tuple[Environment, ...]
    suites: tuple[str, ...] = SUITES
    repetitions: int = 5
    settle: float = 10.0
    megabytes: int = 64
    interval: float = INTERVAL
    stress_time: float = 10.0
    unixbench: str | None = None  # folder with its Run, the same in each environment
    nbench: str | None = None  # folder with its nbench

    @property
    def runnable(self) -> tuple[str, ...]:
        """Those of the suites that are packaged, or of which a copy is given."""
        copies = {unixbench.SUITE: self.unixbench, nbench.SUITE: self.nbench}
        return tuple(suite for suite in self.suites if suite not in copies or copies[suite])

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, in the order in which they run."""
        of = [environment.name for environment in self.environments]
        order = ((turn, of[turn % len(of) :] + of[: turn % len(of)]) for turn in range(self.repetitions))
        return tuple(
            Step(environment, suite, turn + 1)
            for turn, rotated in order
            for environment, suite in itertools.product(rotated, self.runnable)
        )


def parse(text: str, file_name: str) -> Suites:
    """The scenario in a text; raises `ScenarioError`."""
    return keys.scenario(text, file_name, _KEYS, _REQUIRED, _make)


def _make(values: dict[str, Any], fields: Mapping[str, Value]) -> Suites:
    cpus = values.pop("cpus", str(max(os.sched_getaffinity(0))))
    return Suites(**values | {"environments": _environments(fields["environments"], cpus)})


def _environments(value: Value, cpus: str) -> tuple[Environment, ...]:
    found: list[Environment] = []
    for each in value.items():
        one = environments.read(each, cpus)
        if one.name in {other.name for other in found}:
            each.refuse(f"{one.name} is there twice; to run it again, use repetitions")
        found.append(one)
    if not any(isinstance(one, Base) for one in found):
        value.refuse("base is missing, with which all others are compared: add `- base`")
    return tuple(found)


def _cpus(value: Value) -> str:
    text = value.scalar("a list of CPUs, such as 1 or 0-1,3")
    if not re.fullmatch(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?){0,99}", text, re.ASCII):
        value.refuse(f"{text!r} is not a list of CPUs, such as 1 or 0-1,3")
    return text


def _folder(value: Value) -> str:
    if not (text := value.text()).startswith("/"):
        value.refuse(f"{text!r} is not an absolute path, which each environment needs")
    return text


def _power_of_two(value: Value) -> int:
    if (number := whole(4, 65_536)(value)) & (number - 1):
        value.refuse(f"{number} is not a power of two, as lmbench's sizes are")
    return number


_KEYS: keys.Keys = {
    "environments": lambda value: value,  # read once the CPUs are known
    "suites": one_or_more(one_of(SUITES)),
    "cpus": _cpus,
    "settle": seconds(0, 3_600),
    "megabytes": _power_of_two,
    "interval": seconds(0.001, 10),
    "stress_time": seconds(1, 3_600),
    "unixbench": _folder,
    "nbench": _folder,
}
_REQUIRED = {  # with an example for each
    "study": STUDY,
    "about": "lmbench here and in a capped cgroup.",
    "environments": "[base, {name: capped, cap: 0.5}]",
}
