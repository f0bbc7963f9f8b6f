"""Scenarios of dynamic allocation (docs/lab.md): which caps are switched how often.

For each number of containers, interval and repetition there is a block of steps: a static one with equal caps, a
control that writes unchanged equal caps, and one for each magnitude, the smaller and the larger cap.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, Field, model_validator

from deploy.documents import KeyProblem, Model
from lab import keys
from lab.cgroups import SMALLEST_CAP
from lab.environments import Platform
from lab.keys import OneOrMore, Seconds, WholeSeconds, distinct, rotated

CONTAINERS = (2, 4)
IN_PERCENT = ("xen", "openvz")  # their tools take caps in percent
Load = Literal["computational", "transactional"]
COMPUTATIONAL, TRANSACTIONAL = LOADS = get_args(Load)
STATIC, CONTROL, DYNAMIC = "static", "control", "dynamic"


_ENVIRONMENT = re.compile(
    r"(\d{1,3}) containers, (\w+), (\w+), (\w+) \[(\d{1,6}(?:\.\d{1,9})?), (\d{1,6}(?:\.\d{1,9})?)\], (\d{1,6}) s",
    re.ASCII,
)


@dataclass(frozen=True)
class Step:
    """One pair of caps, switched or not; `low` and `high` are in CPUs, `interval` is in seconds."""

    containers: int
    pinning: str
    interval: int
    mode: str
    low: float
    high: float
    repetition: int
    load: str = COMPUTATIONAL

    @property
    def name(self) -> str:
        """Unique in its run, such as "2x0.2-0.8-6s-1", "transactional-pinned-4xstatic-30s-2"."""
        load = f"{TRANSACTIONAL}-" if self.load == TRANSACTIONAL else ""
        pinned = "pinned-" if self.pinning == "pinned" else ""
        what = f"{self.low:g}-{self.high:g}" if self.mode == DYNAMIC else self.mode
        return f"{load}{pinned}{self.containers}x{what}-{self.interval}s-{self.repetition}"

    @property
    def environment(self) -> str:
        """Common to all its repetitions, such as "2 containers, unpinned, computational, dynamic [0.2, 0.8], 6 s"."""
        caps = f"{self.mode} [{self.low:g}, {self.high:g}]"
        return f"{self.containers} containers, {self.pinning}, {self.load}, {caps}, {self.interval} s"

    @classmethod
    def parse(cls, environment: str, repetition: int = 1) -> Self | None:
        """The step of this environment; None if it belongs to another study."""
        if not (found := _ENVIRONMENT.fullmatch(environment)):
            return None
        containers, pinning, load, mode, low, high, interval = found.groups()
        return cls(int(containers), pinning, int(interval), mode, float(low), float(high), repetition, load)

    @property
    def unit(self) -> str:
        return "requests" if self.load == TRANSACTIONAL else "tasks"

    def cap(self, container: int, switches: int) -> float:
        """The cap of a container, from 0, after this number of switches: neighbours alternate."""
        return self.low if (container + switches) % 2 == 0 else self.high


def _argument(text: str) -> str:
    if not text.isprintable() or not text or text.startswith("-"):
        raise ValueError(f"{text!r} is no name: it must be printable, and not begin with -")
    return text


Argument = Annotated[str, AfterValidator(_argument)]
"""A name for a command line; it is never taken for an option."""


class Guest(Model):
    """A guest whose cap is switched: its name on the host, and perhaps an ssh(1) destination to run its load."""

    name: Argument
    ssh: Argument | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given


class Elsewhere(Model):
    """A host whose guests' caps are switched; `host` is for ssh(1), `emulated` is for the machine below."""

    platform: Platform
    host: Argument
    guests: Annotated[OneOrMore[Guest], distinct(lambda guest: guest.name)]
    emulated: bool = False

    @property
    def short(self) -> str:
        """The host without a user, for its run's name, such as "xen1"."""
        return re.sub(r"[^A-Za-z0-9.]+", "-", self.host.rpartition("@")[2]).strip("-")

    def refuse(self, magnitude: tuple[float, float]) -> str:
        """Why its guests can't have these caps; "" if they can."""
        if containers_of(magnitude) != len(self.guests):
            return f"is of {containers_of(magnitude)} containers, but {self.host} has {len(self.guests)} guests"
        if self.platform in IN_PERCENT and any(abs(cap * 100 - round(cap * 100)) > 1e-6 for cap in magnitude):
            return f"caps of {self.platform} are whole percent of a CPU, such as 0.25"
        return ""


def _magnitude(caps: tuple[float, float]) -> tuple[float, float]:
    low, high = caps
    if low >= high:
        raise ValueError("the first cap must be the smaller one; equal caps always run too")
    if low < SMALLEST_CAP:
        raise ValueError(f"{low:g} is less than the smallest cap, {SMALLEST_CAP:g} CPUs")
    if containers_of(caps) is None:
        raise ValueError(f"caps of two containers add up to 1, those of four to 0.5 in each pair, not to {sum(caps):g}")
    return caps


Magnitude = Annotated[tuple[float, float], AfterValidator(_magnitude)]


class Allocation(keys.Scenario):
    study: Literal["allocation"]
    magnitudes: Annotated[tuple[Magnitude, ...], distinct(), Field(min_length=1)]
    # At least 3 s: a switch takes up to 2 s to take effect, and one more second is measured before the next.
    intervals: OneOrMore[Annotated[WholeSeconds, Field(ge=3, le=3_600)]]
    duration: Annotated[WholeSeconds, Field(ge=6, le=86_400)] = 360
    warm_up: Annotated[Seconds, Field(le=3_600)] = 5.0
    pinning: OneOrMore[Literal["unpinned", "pinned"]] = ("unpinned",)
    load: OneOrMore[Load] = ("computational",)
    targets: Annotated[OneOrMore[Elsewhere], distinct(lambda host: host.short)] | None = Field(None, alias="target")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.duration < 2 * (longest := max(self.intervals)):
            problem = f"{self.duration} s are too short for switches every {longest} s: give at least {2 * longest}s"
            raise KeyProblem(problem, "duration" if "duration" in self.model_fields_set else "intervals")
        for elsewhere in self.targets or ():
            for number, magnitude in enumerate(self.magnitudes):
                if problem := elsewhere.refuse(magnitude):
                    raise KeyProblem(problem, "magnitudes", number)
            for key in self.model_fields_set & {"pinning", "load"}:
                raise KeyProblem("is of cgroups: guests keep their pinning, and run the awk load or their own", key)
        return self

    @property
    def target(self) -> Elsewhere | None:
        """The host of this run; None for this machine."""
        [target] = self.targets or (None,)
        return target

    @property
    def runs(self) -> tuple[Self, ...]:
        """One run for each host, in order; with several hosts their names end in the host's."""
        if self.targets is None or len(self.targets) == 1:
            return (self,)
        runs = tuple(self.model_copy(update={"targets": (host,)}) for host in self.targets)
        for run, host in zip(runs, self.targets, strict=True):
            run._name = f"{self.name}-{host.short}"
        return runs

    @property
    def steps(self) -> tuple[Step, ...]:
        repetitions = range(1, self.repetitions + 1)
        groups = itertools.product(repetitions, self.load, self.pinning, CONTAINERS, self.intervals)
        return tuple(step for group in groups for step in self._block(*group))

    def _block(self, repetition: int, load: str, pinning: str, containers: int, interval: int) -> Iterator[Step]:
        """A static step, a control and each magnitude; rotated by repetition, so that the first one varies."""
        pairs = [pair for pair in self.magnitudes if containers_of(pair) == containers]
        if not pairs:
            return
        equal = 1 / containers
        kinds = [(STATIC, equal, equal), (CONTROL, equal, equal), *((DYNAMIC, *pair) for pair in pairs)]
        for kind in rotated(kinds, repetition - 1):
            yield Step(containers, pinning, interval, *kind, repetition, load)


def containers_of(magnitude: tuple[float, float]) -> int | None:
    """How many containers add up to one CPU with these caps, in alternating pairs; None if neither 2 nor 4 do."""
    return next((number for number in CONTAINERS if abs(sum(magnitude) * number / 2 - 1) < 1e-6), None)
