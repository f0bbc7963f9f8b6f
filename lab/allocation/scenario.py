"""Scenarios of dynamic allocation: which caps are switched how often.

    study: allocation
    about: Two containers, a little and much, seldom and often.
    magnitudes: [[0.4, 0.6], [0.2, 0.8]]
    intervals: [6s, 30s]

A magnitude is the smaller and the larger cap; as all caps add up to one CPU, it says how many containers there are.
For each number of containers, interval and repetition there is a block of steps: a static one with equal caps, a
control that writes equal caps again, and one for each magnitude.

The containers are cgroups of this machine, or guests of another host:

    target:
      platform: xen
      host: root@xen1
      guests: [{name: web1, ssh: root@web1}, {name: web2, ssh: root@web2}]

or of a list of such hosts: then there is a run of each, one after the other.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from alerts.generator.document import Value
from lab import keys
from lab.cgroups import SMALLEST_CAP
from lab.environments import PLATFORMS
from lab.keys import one_of, one_or_more, seconds, whole_seconds, yes

STUDY = "allocation"
CONTAINERS = (2, 4)
PINNING = ("unpinned", "pinned")
IN_PERCENT = ("xen", "openvz")  # how their tools take caps
COMPUTATIONAL, TRANSACTIONAL = LOADS = ("computational", "transactional")
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
        """Of all its repetitions, such as "2 containers, unpinned, computational, dynamic [0.2, 0.8], 6 s"."""
        caps = f"{self.mode} [{self.low:g}, {self.high:g}]"
        return f"{self.containers} containers, {self.pinning}, {self.load}, {caps}, {self.interval} s"

    @classmethod
    def parse(cls, environment: str, repetition: int = 1) -> Step | None:
        """The step of this environment; None if it is of another study."""
        if not (found := _ENVIRONMENT.fullmatch(environment)):
            return None
        containers, pinning, load, mode, low, high, interval = found.groups()
        return cls(int(containers), pinning, int(interval), mode, float(low), float(high), repetition, load)

    @property
    def unit(self) -> str:
        """What its load finishes, in the plural."""
        return "requests" if self.load == TRANSACTIONAL else "tasks"

    def cap(self, container: int, switches: int) -> float:
        """The cap of a container, from 0, after this number of switches: neighbours in antiphase."""
        return self.low if (container + switches) % 2 == 0 else self.high


@dataclass(frozen=True)
class Guest:
    """A guest whose cap is switched: its name on its host, and where ssh(1) reaches it to run its load, if it may."""

    name: str
    ssh: str | None = None


@dataclass(frozen=True)
class Elsewhere:
    """A host whose guests' caps are switched; `host` is as for ssh(1), `emulated` says that the machine below is."""

    platform: str
    host: str
    guests: tuple[Guest, ...]
    emulated: bool = False

    @property
    def short(self) -> str:
        """The host without a user, for the name of its run, such as "xen1"."""
        return re.sub(r"[^A-Za-z0-9.]+", "-", self.host.rpartition("@")[2]).strip("-")


@dataclass(frozen=True)
class Allocation:
    """A valid scenario; times in seconds."""

    name: str
    digest: str
    about: str
    magnitudes: tuple[tuple[float, float], ...]
    intervals: tuple[int, ...]
    duration: int = 360
    warm_up: float = 5.0
    repetitions: int = 5
    pinning: tuple[str, ...] = ("unpinned",)
    load: tuple[str, ...] = (COMPUTATIONAL,)
    targets: tuple[Elsewhere, ...] = ()  # this machine if there is none

    @property
    def target(self) -> Elsewhere | None:
        """The host of this run; None if it is this machine."""
        [target] = self.targets or (None,)
        return target

    @property
    def runs(self) -> tuple[Allocation, ...]:
        """One for each host, in their order; with several hosts the names of runs end in theirs."""
        if len(self.targets) < 2:
            return (self,)
        return tuple(replace(self, name=f"{self.name}-{each.short}", targets=(each,)) for each in self.targets)

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, in the order in which they run. Repetitions are the outermost loop, so that drift shows."""
        repetitions = range(1, self.repetitions + 1)
        groups = itertools.product(repetitions, self.load, self.pinning, CONTAINERS, self.intervals)
        return tuple(step for group in groups for step in self._block(*group))

    def _block(self, repetition: int, load: str, pinning: str, containers: int, interval: int) -> Iterator[Step]:
        """A static step, a control and each magnitude; rotated by repetition, so that none is always the first."""
        pairs = [pair for pair in self.magnitudes if containers_of(pair) == containers]
        if not pairs:
            return
        equal = 1 / containers
        kinds = [(STATIC, equal, equal), (CONTROL, equal, equal), *((DYNAMIC, *pair) for pair in pairs)]
        first = (repetition - 1) % len(kinds)
        for kind in kinds[first:] + kinds[:first]:
            yield Step(containers, pinning, interval, *kind, repetition, load)


def containers_of(magnitude: tuple[float, float]) -> int | None:
    """How many containers add up to one CPU with these caps, each pair in antiphase; None if neither 2 nor 4 do."""
    return next((number for number in CONTAINERS if abs(sum(magnitude) * number / 2 - 1) < 1e-6), None)


def parse(text: str, file_name: str) -> Allocation:
    """The scenario in a text; raises `ScenarioError`."""
    return keys.scenario(text, file_name, _KEYS, _REQUIRED, _make)


def _make(values: dict[str, Any], fields: Mapping[str, Value]) -> Allocation:
    longest = max(values["intervals"])
    if (duration := values.get("duration", Allocation.duration)) < 2 * longest:
        fields.get("duration", fields["intervals"]).refuse(
            f"{duration} s are too short for switches every {longest} s: give at least {2 * longest}s"
        )
    targets = values.pop("target", ())
    for elsewhere in targets:
        _agree(elsewhere, fields)
    return Allocation(targets=targets, **values)


def _magnitudes(value: Value) -> tuple[tuple[float, float], ...]:
    found: list[tuple[float, float]] = []
    for each in value.items():
        if (pair := _magnitude(each)) in found:
            each.refuse("is there twice; to run it again, use repetitions")
        found.append(pair)
    return tuple(found) or value.refuse("the list is empty")


def _magnitude(value: Value) -> tuple[float, float]:
    caps = [cap.number() for cap in value.items()]
    if len(caps) != 2:
        value.refuse("must be the smaller and the larger cap, such as [0.2, 0.8]")
    low, high = caps
    if low >= high:
        value.refuse(
            "the first cap must be the smaller one; equal caps always run, as the static baseline and the control"
        )
    if low < SMALLEST_CAP:
        value.refuse(f"{low:g} is less than the smallest cap, {SMALLEST_CAP:g} CPUs")
    if containers_of((low, high)) is None:
        value.refuse(f"caps of two containers add up to 1, those of four to 0.5 in each pair, not to {low + high:g}")
    return low, high


def _targets(value: Value) -> tuple[Elsewhere, ...]:
    found: dict[str, Elsewhere] = {}
    for each in value.one_or_more():
        target = _target(each)
        if target.short in found:
            each.refuse(f"the host {target.short} is there twice, and has one run")
        found[target.short] = target
    return tuple(found.values()) or value.refuse("the list is empty")


def _target(value: Value) -> Elsewhere:
    examples = {"platform": "xen", "host": "root@xen1", "guests": "[web1, web2]"}
    fields = value.fields(examples, optional=["emulated"])
    platform = one_of(PLATFORMS)(fields["platform"])
    guests = one_or_more(_guest)(fields["guests"])
    if len({guest.name for guest in guests}) < len(guests):
        fields["guests"].refuse("two guests have the same name")
    if len(guests) not in CONTAINERS:
        fields["guests"].refuse(f"must be two or four guests, not {len(guests)}")
    return Elsewhere(platform, _argument(fields["host"]), guests, "emulated" in fields and yes(fields["emulated"]))


def _guest(value: Value) -> Guest:
    if isinstance(value.node, yaml.MappingNode):
        fields = value.fields({"name": "web1", "ssh": "root@web1"})
        return Guest(_argument(fields["name"]), _argument(fields["ssh"]))
    return Guest(_argument(value))


def _argument(value: Value) -> str:
    """A name for a command on one line, never taken for an option; a CTID is a number."""
    text = value.scalar("a name")
    if not text.isprintable() or not text.strip() or text.startswith("-"):
        value.refuse(f"{text!r} is no name: it must be printable, and not begin with -")
    return text


def _agree(elsewhere: Elsewhere, fields: Mapping[str, Value]) -> None:
    """Refuse what can't be done with a host's guests."""
    for pair, value in zip(_magnitudes(fields["magnitudes"]), fields["magnitudes"].items(), strict=True):
        if containers_of(pair) != len(elsewhere.guests):
            value.refuse(
                f"is of {containers_of(pair)} containers, but {elsewhere.host} has {len(elsewhere.guests)} guests"
            )
        if elsewhere.platform in IN_PERCENT and any(abs(cap * 100 - round(cap * 100)) > 1e-6 for cap in pair):
            value.refuse(f"caps of {elsewhere.platform} are whole percent of a CPU, such as 0.25")
    if "pinning" in fields:
        fields["pinning"].refuse("is of cgroups: how a host's guests are pinned is left as it is")
    if "load" in fields:
        fields["load"].refuse("is of cgroups: guests run the computational load, or their own")


_KEYS: keys.Keys = {
    "magnitudes": _magnitudes,
    # From 3 s on there is a second between two switches in which the first has taken effect.
    "intervals": one_or_more(whole_seconds(3, 3_600)),
    "duration": whole_seconds(6, 86_400),
    "warm_up": seconds(0, 3_600),
    "pinning": one_or_more(one_of(PINNING)),
    "load": one_or_more(one_of(LOADS)),
    "target": _targets,
}
_REQUIRED = {  # with an example for each
    "study": STUDY,
    "about": "Two containers.",
    "magnitudes": "[[0.2, 0.8]]",
    "intervals": "[6s, 30s]",
}
