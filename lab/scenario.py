"""Scenarios of consolidation: which applications, how, and how many clients each has, as small YAML files.

    about: One application, then two, then four of them on one CPU.
    instances: [1, 2, 4]
    clients: [500, 600, 700, 800]
    duration: 60s

Each combination of a placement, a number of instances and of clients, and with a batch job or none, is a step, held for
`duration` after `warm_up`; docs/lab.md has all keys. Mistakes are refused with line, key and the nearest valid one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alerts.generator.document import Value
from lab import keys
from lab.keys import ScenarioError, nearest, one_of, one_or_more, seconds, whole

STUDY = "consolidation"
FOLDER = Path(__file__).with_name("scenarios")

PLACEMENTS = ("one node", "two nodes")
NONE, RUNNING, STOPPED = BATCH = ("none", "running", "stopped")
"""What of a batch job beside the sites: none yet, one that runs, none any more."""
MOST_CLIENTS = 10_000  # of all instances together: the limit of one process at a think time of 7 s


@dataclass(frozen=True)
class Limit:
    """What virtual servers may use of their CPU; see lab.cgroups.TierLimits."""

    weight: int = 10_000  # the maximum: nothing else on this CPU gets in the way of the applications
    cap: float | None = None


@dataclass(frozen=True)
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
        """All but the load, in words: its placement in metrics and the report."""
        return self.placement if self.batch == NONE else f"{self.placement}, batch job {self.batch}"


@dataclass(frozen=True)
class Scenario:
    """A valid scenario; times in seconds."""

    name: str
    digest: str
    about: str
    instances: tuple[int, ...]
    clients: tuple[int, ...]  # per instance; in sequence, each for `duration`
    duration: float
    warm_up: float = 20.0
    repetitions: int = 1
    placement: tuple[str, ...] = ("one node",)
    batch: tuple[str, ...] = (NONE,)
    think_time: float = 7.0
    timeout: float = 10.0
    seed: int = 1
    calibration: float = 30.0  # 0: `clients` aren't converted
    limits: Mapping[str, Limit] = field(default_factory=dict)  # by tier ("web"), or virtual server ("auction-2-web")

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, in the order in which they run. Repetitions are the outermost loop, so that drift shows."""
        return tuple(
            Step(instances, clients, placement, repetition, batch)
            for repetition, placement, instances, clients, batch in itertools.product(
                range(1, self.repetitions + 1), self.placement, self.instances, self.clients, self.batch
            )
        )

    def limit(self, instance: str, tier: str) -> Limit:
        """The limits of a tier of an instance: those given for this one, else for its tier in all instances."""
        return self.limits.get(f"{instance}-{tier}") or self.limits.get(tier) or Limit()


def find(name: str) -> Path:
    """The file of a scenario given by name or path; raises `ScenarioError`."""
    if name.endswith((".yml", ".yaml")):
        if not Path(name).is_file():
            raise ScenarioError(f"{name}: no such file")
        return Path(name)
    shipped = sorted(file.stem for file in FOLDER.glob("*.yml"))
    if name not in shipped:
        raise ScenarioError(f"no scenario {name!r} (your own file must end in .yml){nearest(name, shipped)}")
    return FOLDER / f"{name}.yml"


def load(file: Path) -> Scenario:
    """Read a scenario; raises `ScenarioError`."""
    return parse(read(file), file.name)


def read(file: Path) -> str:
    """The text of a scenario's file; raises `ScenarioError`."""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{file}: can't be read: {error}") from None


def parse(text: str, file_name: str) -> Scenario:
    """The scenario in a text; raises `ScenarioError`."""
    return keys.scenario(text, file_name, _KEYS, _REQUIRED, _make)


def _make(values: dict[str, Any], fields: Mapping[str, Value]) -> Scenario:
    most, clients = max(values["instances"]), max(values["clients"])
    for name, at in fields["limits"].entries().items() if "limits" in fields else ():
        if (match := _VSERVER.fullmatch(name)) and int(match[1]) > most:
            at.refuse(f"no such instance runs: there are at most {most}")
    if most * clients > MOST_CLIENTS:
        fields["clients"].refuse(
            f"{clients} for each of {most} instances are {most * clients}: at most {MOST_CLIENTS} clients can be "
            "played at a time"
        )
    return Scenario(**values)


def _cap(value: Value) -> float:
    cpus = value.number()
    if cpus < 0.05:  # lab.cgroups.SMALLEST_CAP
        value.refuse(f"{cpus:g} is not a number of CPUs from 0.05, such as 0.2")
    return cpus


def _limits(value: Value) -> dict[str, Limit]:
    servers = [name for name in value.entries() if _VSERVER.fullmatch(name)]
    fields = value.fields({}, optional=["web", "db", *(servers or ["auction-1-web"])])
    return {name: _limit(limit) for name, limit in fields.items()}


def _limit(value: Value) -> Limit:
    read: dict[str, Callable[[Value], Any]] = {"weight": whole(1, 10_000), "cap": _cap}
    return Limit(**{key: read[key](field) for key, field in value.fields({}, optional=read).items()})


_VSERVER = re.compile(r"auction-([1-9]\d?)-(?:web|db)")
_KEYS: keys.Keys = {
    "instances": one_or_more(whole(1, 32)),
    "clients": one_or_more(whole(1, MOST_CLIENTS)),
    "duration": seconds(15, 86_400),  # three scrapes: lab.stage.STEP_SCRAPES
    "warm_up": seconds(0, 3_600),
    "placement": one_or_more(one_of(PLACEMENTS)),
    "batch": one_or_more(one_of(BATCH)),
    "think_time": seconds(0.1, 600),
    "timeout": seconds(0.1, 600),
    "seed": whole(0, 999_999_999),
    "calibration": seconds(0, 600),
    "limits": _limits,
}
_REQUIRED = {"about": "One site.", "instances": "1", "clients": "800", "duration": "90s"}  # with an example for each
