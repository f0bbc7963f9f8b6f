"""Scenarios of influence factors: which benchmarks run, and what is varied.

    study: factors
    about: How far may this host be overcommitted, and does pinning help?
    workloads: [cpu, memory]
    factors: [virtualisation, overcommit, affinity]
    cpus: 2

Each factor is a few cases that differ in it alone; a case that several factors need is measured once. A step is a case
under a workload, in each repetition once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from alerts.generator.document import Value
from lab import environments, keys
from lab.cgroups import SMALLEST_CAP
from lab.environments import Guest
from lab.factors.cases import BASE, Case
from lab.keys import one_of, one_or_more, whole, whole_seconds

STUDY = "factors"
COMPUTING = ("cpu", "memory")  # workloads that CPU factors act upon
WORKLOADS = (*COMPUTING, "disk", "network")
VIRTUALISATION, SERVERS, OVERCOMMIT = "virtualisation", "servers", "overcommit"
AFFINITY, SPARE_CORE, WEIGHTS, CAPS = "affinity", "spare core", "weights", "caps"
FACTORS = (VIRTUALISATION, SERVERS, OVERCOMMIT, AFFINITY, SPARE_CORE, WEIGHTS, CAPS)
OF_ALL_WORKLOADS = (VIRTUALISATION, SERVERS)
SEVERAL_CPUS = (AFFINITY, SPARE_CORE)  # factors that mean nothing on a single one
MOST_SERVERS = 512


@dataclass(frozen=True)
class Step:
    """A case under a workload."""

    workload: str
    case: Case
    repetition: int

    @property
    def name(self) -> str:
        """Unique in its run, such as "cpu-4on2-free-1"."""
        return f"{self.workload}-{self.case.slug}-{self.repetition}"


@dataclass(frozen=True)
class Factors:
    """A valid scenario; times in seconds."""

    name: str
    digest: str
    about: str
    workloads: tuple[str, ...] = WORKLOADS
    factors: tuple[str, ...] = FACTORS
    cpus: int = 2
    servers: tuple[int, ...] = ()
    overcommit: tuple[int, ...] = (1, 2, 3, 4)
    weights: tuple[int, ...] = (100, 300)
    caps: tuple[float, ...] = (0.25, 0.5)
    guests: tuple[Guest, ...] = ()
    duration: int = 10
    warm_up: int = 2
    repetitions: int = 5

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, in the order in which they run. Repetitions are the outermost loop, so that drift shows."""
        return tuple(step for repetition in range(1, self.repetitions + 1) for step in self._block(repetition))

    def _block(self, repetition: int) -> Iterator[Step]:
        """Each case of each workload once; rotated by repetition, so that none is always the first."""
        for workload in self.workloads:
            wanted = [factor for factor in self.factors if workload in COMPUTING or factor in OF_ALL_WORKLOADS]
            cases = list(dict.fromkeys(case for factor in wanted for case in self.cases(factor, workload)))
            first = (repetition - 1) % len(cases) if cases else 0
            for case in cases[first:] + cases[:first]:
                yield Step(workload, case, repetition)

    def cases(self, factor: str, workload: str) -> list[Case]:
        """The cases that differ in one factor, the one to compare with first."""
        many = self.cpus
        # A guest's disk and network end elsewhere than the machine's own, so they have nothing to be compared with.
        guests = [Case(elsewhere=guest.name) for guest in self.guests] if workload in COMPUTING else []
        numbers = self.servers or range(1, many + 1)
        return {
            VIRTUALISATION: [Case(elsewhere=BASE), Case(), *guests],
            SERVERS: [Case(servers, many, pinned=False) for servers in sorted({1, *numbers})],
            OVERCOMMIT: [Case(x * many, many, pinned=False) for x in sorted({1, *self.overcommit})],
            AFFINITY: [Case(servers, many, pinned=pinned) for servers in (1, many) for pinned in (False, True)],
            SPARE_CORE: [Case(many, many), Case(many - 1, many)],
            WEIGHTS: [Case(), Case(len(self.weights), weights=self.weights)],
            CAPS: [Case(), *(Case(cap=cap) for cap in self.caps)],
        }[factor]


def parse(text: str, file_name: str) -> Factors:
    """The scenario in a text; raises `ScenarioError`."""
    return keys.scenario(text, file_name, _KEYS, _REQUIRED, _make)


def _make(values: dict[str, Any], fields: Mapping[str, Value]) -> Factors:
    """Refuse values that are only invalid together."""
    found = Factors(**values)
    if found.cpus == 1 and (one := next((factor for factor in SEVERAL_CPUS if factor in found.factors), None)):
        fields["cpus"].refuse(f"{one} needs at least two CPUs; leave it out of factors")
    if (most := max(found.overcommit) * found.cpus) > MOST_SERVERS:
        fields.get("overcommit", fields.get("cpus", fields["about"])).refuse(
            f"{most} virtual servers at the largest overcommitment are too many: at most {MOST_SERVERS} run"
        )
    names = [step.name for step in found.steps]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        key = next(key for key in ("guests", "caps") if key in fields)  # all others are whole numbers and words
        fields[key].refuse(f"two steps would be called {twice}: make these names or caps differ more")
    if not found.steps:
        fields.get("factors", fields["about"]).refuse(
            f"none of them acts on {' and '.join(found.workloads)}: take {' or '.join(OF_ALL_WORKLOADS)} too"
        )
    return found


def _cap(value: Value) -> float:
    cap = value.number()
    if not SMALLEST_CAP <= cap < 1:
        value.refuse(f"{cap:g} is no cap for one thread: give at least {SMALLEST_CAP:g} CPUs, and less than one")
    return cap


def _weights(value: Value) -> tuple[int, ...]:
    weights = tuple(map(whole(1, 10_000), value.items()))
    if len(weights) != 2 or weights[0] == weights[1]:
        value.refuse("must be two different weights, such as [100, 300]")
    return weights


def _guests(value: Value) -> tuple[Guest, ...]:
    guests = environments.guests(value, lambda name: Case(elsewhere=name).slug, taken=(BASE,))
    for guest, at in zip(guests, value.items(), strict=True):
        if Case.parse(guest.name):
            at.refuse(f"the name {guest.name!r} is taken; give it another")
    return guests


_KEYS: keys.Keys = {
    "workloads": one_or_more(one_of(WORKLOADS)),
    "factors": one_or_more(one_of(FACTORS)),
    "cpus": whole(1, 256),
    "servers": one_or_more(whole(1, MOST_SERVERS)),
    "overcommit": one_or_more(whole(1, 16)),
    "weights": _weights,
    "caps": one_or_more(_cap),
    "guests": _guests,
    "duration": whole_seconds(1, 3_600),
    "warm_up": whole_seconds(1, 600),
}
_REQUIRED = {"study": STUDY, "about": "Does pinning help?"}  # with an example for each
