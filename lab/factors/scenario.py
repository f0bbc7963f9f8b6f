"""Scenarios of influence factors (docs/lab-factors.md): benchmarks to run, and factors to vary.

Each factor is a few cases that differ only in it; a case of several factors is measured once. A case is virtual servers
side by side, a step a case under a workload, once per repetition.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from deploy.documents import KeyProblem
from lab import keys
from lab.environments import Guest
from lab.keys import Cap, OneOrMore, Weight, WholeSeconds, distinct, rotated

BASE = "base"
WEIGHT = 100  # the default of each cgroup, and of everything else on the machine


@dataclass(frozen=True, order=True)
class Case:
    """Virtual servers with one busy thread each, or a program on the machine itself, or one in a guest."""

    servers: int = 1
    cpus: int = 1
    """Shared by the servers: the machine's last ones."""
    pinned: bool = True
    """Each server to one CPU, in turn; otherwise the scheduler moves them among all of these."""
    weights: tuple[int, ...] = ()
    """Of each server, in units of cgroup version 2; if empty, all have `WEIGHT`."""
    cap: float | None = None
    """Of each server, in CPUs."""
    elsewhere: str = ""
    """`BASE` outside cgroups, or "guest " and its name, for a single program."""

    @property
    def name(self) -> str:
        """In words, such as "4 servers on 2 CPUs, free"; `parse` reads it."""
        if self.elsewhere:
            return self.elsewhere
        servers, cpus = "server" if self.servers == 1 else "servers", "CPU" if self.cpus == 1 else "CPUs"
        weights = f", weights {':'.join(map(str, self.weights))}" if self.weights else ""
        cap = "" if self.cap is None else f", cap {self.cap}"
        how = "pinned" if self.pinned else "free"
        return f"{self.servers} {servers} on {self.cpus} {cpus}, {how}{weights}{cap}"

    @property
    def slug(self) -> str:
        """For a step's name, such as "4on2-free"."""
        name = self.elsewhere or re.sub(" CPUs?", "", re.sub(" servers? on ", "on", self.name))
        return re.sub(r"[^\w.-]+", "-", name)

    def of_server(self, server: int) -> str:
        """The name of one of its virtual servers, from 0, if they differ."""
        return f"{self.name}, server {server + 1}"

    @property
    def overcommit(self) -> float:
        return self.servers / self.cpus

    def places(self, cpus: list[int]) -> list[str]:
        """The CPUs of each virtual server, as lists for cpuset; `cpus` are the machine's shared ones."""
        every = ",".join(map(str, cpus))
        return [str(cpus[server % len(cpus)]) if self.pinned else every for server in range(self.servers)]

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The case with this name; None if it isn't a case of virtual servers."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        servers, cpus, pinned, weights, cap = found.groups()
        each = tuple(map(int, weights.split(":"))) if weights else ()
        return cls(int(servers), int(cpus), pinned == "pinned", each, float(cap) if cap else None)


_NAME = re.compile(
    r"(\d{1,6}) servers? on (\d{1,6}) CPUs?, (pinned|free)"
    r"(?:, weights ((?:\d{1,6}:){0,99}\d{1,6}))?(?:, cap (\d{1,6}(?:\.\d{1,9})?))?",
    re.ASCII,
)


Workload = Literal["cpu", "memory", "disk", "network"]
WORKLOADS = get_args(Workload)
COMPUTING = ("cpu", "memory")  # workloads that CPU factors affect
Factor = Literal["virtualisation", "servers", "overcommit", "affinity", "spare core", "weights", "caps"]
VIRTUALISATION, SERVERS, OVERCOMMIT, AFFINITY, SPARE_CORE, WEIGHTS, CAPS = FACTORS = get_args(Factor)
OF_ALL_WORKLOADS = (VIRTUALISATION, SERVERS)
SEVERAL_CPUS = (AFFINITY, SPARE_CORE)  # factors that need more than one CPU
MAX_SERVERS = 512


@dataclass(frozen=True)
class Step:
    workload: str
    case: Case
    repetition: int

    @property
    def name(self) -> str:
        """Unique in its run, such as "cpu-4on2-free-1"."""
        return f"{self.workload}-{self.case.slug}-{self.repetition}"


def of_guest(guest: Guest) -> Case:
    return Case(elsewhere=f"guest {guest.name}")


class Factors(keys.Scenario):
    study: Literal["factors"]
    workloads: OneOrMore[Workload] = WORKLOADS
    factors: OneOrMore[Factor] = FACTORS
    cpus: Annotated[int, Field(ge=1, le=256)] = 2
    servers: OneOrMore[Annotated[int, Field(ge=1, le=MAX_SERVERS)]] | None = None
    overcommit: OneOrMore[Annotated[int, Field(ge=1, le=16)]] = (1, 2, 3, 4)
    weights: Annotated[tuple[Weight, Weight], distinct()] = (100, 300)
    caps: OneOrMore[Annotated[Cap, Field(lt=1)]] = (0.25, 0.5)
    guests: Annotated[tuple[Guest, ...], distinct(lambda guest: of_guest(guest).slug)] = ()
    duration: Annotated[WholeSeconds, Field(ge=1, le=3_600)] = 10
    warm_up: Annotated[WholeSeconds, Field(ge=1, le=600)] = 2

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.cpus == 1 and (one := next((factor for factor in SEVERAL_CPUS if factor in self.factors), None)):
            raise KeyProblem(f"{one} needs at least two CPUs; leave it out of factors", "cpus")
        if (most := max(self.overcommit) * self.cpus) > MAX_SERVERS:
            problem = f"{most} virtual servers at the largest overcommitment are too many: at most {MAX_SERVERS} run"
            raise KeyProblem(problem, "overcommit" if "overcommit" in self.model_fields_set else "cpus")
        if not self.steps:
            none = f"none of them acts on {' and '.join(self.workloads)}: take {' or '.join(OF_ALL_WORKLOADS)} too"
            raise KeyProblem(none, "factors")
        return self

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for repetition in range(1, self.repetitions + 1) for step in self._block(repetition))

    def _block(self, repetition: int) -> Iterator[Step]:
        """Each case of each workload once; rotated by repetition, so that the first one varies."""
        for workload in self.workloads:
            wanted = [factor for factor in self.factors if workload in COMPUTING or factor in OF_ALL_WORKLOADS]
            cases = list(dict.fromkeys(case for factor in wanted for case in self.cases(factor, workload)))
            for case in rotated(cases, repetition - 1):
                yield Step(workload, case, repetition)

    def cases(self, factor: str, workload: str) -> list[Case]:
        """The cases that differ in one factor, the baseline first."""
        many = self.cpus
        # A guest's disk and network have other endpoints than the machine's own, so there is no baseline for them.
        guests = [of_guest(guest) for guest in self.guests] if workload in COMPUTING else []
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
