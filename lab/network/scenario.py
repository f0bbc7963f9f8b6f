"""Scenarios of network costs (docs/lab-network.md): paths, directions, message sizes, and offloads.

A configuration is one of each, or a path and a load of requests for one of two files; a guest is one more path. A step
is a configuration, once per repetition.
"""

import re
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Literal, get_args

from pydantic import Field

from lab import keys
from lab.environments import Guest
from lab.keys import OneOrMore, WholeSeconds, distinct, rotated

Path = Literal["loopback", "veth", "bridge"]
LOOPBACK, VETH, BRIDGE = PATHS = get_args(Path)
Direction = Literal["send", "receive"]
SEND, RECEIVE = DIRECTIONS = get_args(Direction)
Offloads = Literal["on", "off"]
ON, OFF = OFFLOADS = get_args(Offloads)
UNCHANGED = "unchanged"  # offloads on the path to a guest: its devices belong to the user
GUEST = "guest "  # prefix of the path to a guest
FILES = (1_024, 131_072)  # bytes: a small page, and an image


@dataclass(frozen=True, order=True)
class Configuration:
    """How bytes are sent from one end to the other; `size` is that of each write, in bytes."""

    path: str
    """One of `PATHS`, or "guest " with a guest's name."""
    direction: str
    size: int
    offloads: str

    @property
    def name(self) -> str:
        """In words, such as "veth, send, 256 bytes, offloads on"; `parse` reads it."""
        return f"{self.path}, {self.direction}, {self.size} bytes, offloads {self.offloads}"


@dataclass(frozen=True, order=True)
class WebLoad:
    """`rate` requests per second for a static file of `size` bytes, independent of the answers."""

    path: str
    """One of `PATHS`, or "guest " with a guest's name."""
    size: int
    rate: int

    @property
    def name(self) -> str:
        """In words, such as "veth, web, 1024 bytes, 1000 requests/s"; `parse` reads it."""
        return f"{self.path}, web, {self.size} bytes, {self.rate} requests/s"


_NAME = re.compile(
    rf"({'|'.join(PATHS)}|{GUEST}.+), ({'|'.join(DIRECTIONS)}|web), (\d{{1,9}}) bytes, "
    r"(?:offloads (\w+)|(\d{1,9}) requests/s)",
    re.ASCII,
)


def parse(name: str) -> Configuration | WebLoad | None:
    """The configuration or the load with this name; None if there is none."""
    if not (found := _NAME.fullmatch(name)):
        return None
    path, direction, size, offloads, rate = found.groups()
    return WebLoad(path, int(size), int(rate)) if rate else Configuration(path, direction, int(size), offloads)


@dataclass(frozen=True)
class Step:
    configuration: Configuration | WebLoad
    repetition: int

    @property
    def name(self) -> str:
        """Unique in its run, such as "veth-send-256-offloads-on-1"."""
        path, name = self.configuration.path, self.configuration.name
        what = re.sub(" bytes| requests/s", "", name.removeprefix(path))
        return f"{_slug(path)}{_slug(what)}-{self.repetition}"


def _slug(path: str) -> str:
    return re.sub(r"[^\w.-]+", "-", path)


class Network(keys.Scenario):
    study: Literal["network"]
    paths: OneOrMore[Path] = PATHS
    directions: OneOrMore[Direction] = DIRECTIONS
    sizes: OneOrMore[Annotated[int, Field(ge=16, le=1_048_576)]] = (256, 131_072)
    offloads: OneOrMore[Offloads] = OFFLOADS
    web_rates: OneOrMore[Annotated[int, Field(ge=1, le=100_000)]] | None = None
    guests: Annotated[tuple[Guest, ...], distinct(lambda guest: _slug(guest.name))] = ()
    duration: Annotated[WholeSeconds, Field(ge=1, le=3_600)] = 10
    warm_up: Annotated[WholeSeconds, Field(ge=1, le=600)] = 2

    @property
    def steps(self) -> tuple[Step, ...]:
        of_guests = [guest_path(guest) for guest in self.guests]
        of: list[Configuration | WebLoad] = [
            *(Configuration(*one) for one in product(self.paths, self.directions, self.sizes, self.offloads)),
            *(Configuration(*one, UNCHANGED) for one in product(of_guests, self.directions, self.sizes)),
            *(WebLoad(*one) for one in product((*self.paths, *of_guests), FILES, self.web_rates or ())),
        ]
        return tuple(Step(one, turn + 1) for turn in range(self.repetitions) for one in rotated(of, turn))


def guest_path(guest: Guest) -> str:
    return f"{GUEST}{guest.name}"
