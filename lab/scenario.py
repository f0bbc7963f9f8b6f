"""Scenarios of consolidation (docs/lab.md): applications, their setup, and the number of clients of each.

Each combination of a placement, a number of instances and of clients, with or without a batch job, is a step, held for
`duration` after `warm_up`.
"""

import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from deploy.documents import KeyProblem, Model, nearest
from lab import LabError, keys
from lab.keys import Cap, OneOrMore, ScenarioError, Seconds, Weight

FOLDER = Path(__file__).with_name("scenarios")

Batch = Literal["none", "running", "throttled", "stopped"]
"""The batch job next to the sites: not yet started, running, running with a limit for the disk, ended."""
NONE, RUNNING, THROTTLED, STOPPED = get_args(Batch)
MAX_CLIENTS = 10_000  # for all instances together: the limit of one process at a think time of 7 s
STUDY_CLIENTS = 800
THEIR_CPUS = 0.3
MIN_ANSWERS = 50
_ENVIRONMENT = re.compile(
    r"(one node|two nodes)(?:, batch job (running|throttled|stopped))?, (\d{1,3}) instances? of (\d{1,6}) clients",
    re.ASCII,
)
_VSERVER = re.compile(r"auction-([1-9]\d?)-(?:web|db)")


class Limit(Model):
    # Other load on this CPU hardly disturbs the applications. With more, the kernel's own threads may wait for seconds.
    weight: Weight = 1_000
    cap: Cap | None = None


@dataclass(frozen=True, order=True)
class Step:
    """A constant load: a number of instances and of clients for each, in the study's numbers."""

    instances: int
    clients: int
    placement: str
    repetition: int
    batch: str = NONE

    @property
    def name(self) -> str:
        """Unique in its run, such as "4x700-2"."""
        two_nodes = "two-nodes-" if self.placement == "two nodes" else ""
        batch = "" if self.batch == NONE else f"batch-{self.batch}-"
        return f"{two_nodes}{batch}{self.instances}x{self.clients}-{self.repetition}"

    @property
    def setting(self) -> str:
        """Everything but the load, in words: its placement in metrics and the report."""
        return self.placement if self.batch == NONE else f"{self.placement}, batch job {self.batch}"

    @property
    def environment(self) -> str:
        """Common to all its repetitions, such as "one node, 4 instances of 700 clients"; `parse` reads it."""
        instances = "instance" if self.instances == 1 else "instances"
        return f"{self.setting}, {self.instances} {instances} of {self.clients} clients"

    @classmethod
    def parse(cls, environment: str, repetition: int) -> Self | None:
        """The step of this environment; None if there is none."""
        if not (found := _ENVIRONMENT.fullmatch(environment)):
            return None
        placement, batch, instances, clients = found.groups()
        return cls(int(instances), int(clients), placement, repetition, batch or NONE)

    @property
    def apps(self) -> tuple[str, ...]:
        return tuple(f"auction-{number}" for number in range(1, self.instances + 1))


class Consolidation(keys.Scenario):
    instances: OneOrMore[Annotated[int, Field(ge=1, le=32)]]
    clients: OneOrMore[Annotated[int, Field(ge=1, le=MAX_CLIENTS)]]  # per instance; in sequence, each for `duration`
    duration: Annotated[Seconds, Field(ge=15, le=86_400)]  # three scrapes: lab.consolidation.STEP_SCRAPES
    warm_up: Annotated[Seconds, Field(le=3_600)] = 20.0
    repetitions: Annotated[int, Field(ge=1, le=100)] = 1
    placement: OneOrMore[Literal["one node", "two nodes"]] = ("one node",)
    batch: OneOrMore[Batch] = ("none",)
    think_time: Annotated[Seconds, Field(ge=0.1, le=600)] = 7.0
    timeout: Annotated[Seconds, Field(ge=0.1, le=600)] = 10.0
    seed: Annotated[int, Field(ge=0, le=999_999_999)] = 1
    calibration: Annotated[Seconds, Field(le=600)] = 30.0  # 0: `clients` aren't converted
    disk: Annotated[Seconds, Field(ge=0.001, le=0.1)] | None = None  # a request's; all databases are on this disk
    limits: dict[str, Limit] = Field(default_factory=dict)  # by tier ("web"), or virtual server ("auction-2-web")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        most, clients = max(self.instances), max(self.clients)
        for name in self.limits:
            server = _VSERVER.fullmatch(name)
            if not server and name not in {"web", "db"}:
                raise KeyProblem(f"no such key{nearest(name, ('web', 'db', 'auction-1-web'))}", "limits", name)
            if server and int(server[1]) > most:
                raise KeyProblem(f"no such instance runs: there are at most {most}", "limits", name)
        if most * clients > MAX_CLIENTS:
            together = f"{clients} for each of {most} instances are {most * clients}"
            raise KeyProblem(f"{together}: at most {MAX_CLIENTS} clients run at a time", "clients")
        if THROTTLED in self.batch and self.disk is None:
            raise KeyProblem("only a job that reads a disk can be throttled: add disk, such as 0.001s", "batch")
        return self

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(
            Step(instances, clients, placement, repetition, batch)
            for repetition, placement, instances, clients, batch in itertools.product(
                range(1, self.repetitions + 1), self.placement, self.instances, self.clients, self.batch
            )
        )

    def limit(self, instance: str, tier: str) -> Limit:
        """The limits of a tier of an instance: its own, or its tier's in all instances."""
        return self.limits.get(f"{instance}-{tier}") or self.limits.get(tier) or Limit()


@dataclass(frozen=True)
class Scale:
    """How many clients on this machine correspond to the study's. The values are 1 and 0 without calibration.

    In the study, four sites with 800 clients each exceeded the one CPU that they shared, and two sites did not. So one
    site should use about 0.3 CPUs. The cost of a request differs between machines by an order of magnitude, so it is
    measured: one site is visited for a while, and the CPU time of its tiers is divided by its answers.
    """

    study_clients: float = 1.0  # per client here
    request_cpu_seconds: float = 0.0  # as measured

    def clients(self, of_study: int) -> int:
        return max(1, round(of_study / self.study_clients))


def calibrated(cpu_seconds: float, answers: float, think_seconds: float) -> Scale:
    """The scale from the measurement; raises `LabError` if it has too few answers.

    A client sends one request per think time plus response time, which is about the CPU time of the request. Clients
    use `THEIR_CPUS` if together they send `THEIR_CPUS` / cost requests per second.
    """
    if answers < MIN_ANSWERS or cpu_seconds <= 0:
        raise LabError(f"calibration got only {answers:g} answers: give it more time, or read the site's logs")
    cost = cpu_seconds / answers
    return Scale(STUDY_CLIENTS / (THEIR_CPUS / cost * (think_seconds + cost)), cost)


def shipped() -> list[str]:
    return sorted(file.stem for file in FOLDER.glob("*.yml"))


def find(name: str) -> Path:
    if name.endswith((".yml", ".yaml")):
        if not Path(name).is_file():
            raise ScenarioError(f"{name}: no such file")
        return Path(name)
    if name not in shipped():
        raise ScenarioError(f"no scenario {name!r} (your own file must end in .yml){nearest(name, shipped())}")
    return FOLDER / f"{name}.yml"
