"""Scenarios of network costs: over which paths, in which directions, messages of which sizes, with offloads or without.

    study: network
    about: What does a bridge cost, for bytes and for requests?
    paths: [loopback, veth, bridge]
    sizes: [256, 131072]
    web_rates: 1000

A configuration is one of each, or a path and a load of requests for one of two files; a guest is one more path. A step
is a configuration, in each repetition once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import Self

from lab import environments, keys
from lab.environments import Guest
from lab.keys import one_of, one_or_more, whole, whole_seconds

STUDY = "network"
LOOPBACK, VETH, BRIDGE = "loopback", "veth", "bridge"
PATHS = (LOOPBACK, VETH, BRIDGE)
SEND, RECEIVE = "send", "receive"
DIRECTIONS = (SEND, RECEIVE)
ON, OFF = "on", "off"
OFFLOADS = (ON, OFF)
UNCHANGED = "unchanged"  # of the path to a guest: what it is made of belongs to the user
GUEST = "guest "  # how the path to one begins
FILES = (1_024, 131_072)  # bytes; a small page, and an image
MOST_REQUESTS = 100_000  # per second


@dataclass(frozen=True, order=True)
class Configuration:
    """How bytes go from one end to the other; `size` is that of each write, in bytes."""

    path: str
    """One of `PATHS`, or "guest " with a guest's name."""
    direction: str
    size: int
    offloads: str

    @property
    def name(self) -> str:
        """In words, such as "veth, send, 256 bytes, offloads on"; `parse` reads it."""
        return f"{self.path}, {self.direction}, {self.size} bytes, offloads {self.offloads}"

    @property
    def slug(self) -> str:
        """The same in the name of a step."""
        return f"{_slug(self.path)}-{self.direction}-{self.size}-offloads-{self.offloads}"

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The configuration that has this name; None if none has.

        >>> Configuration.parse("veth, send, 256 bytes, offloads on")
        Configuration(path='veth', direction='send', size=256, offloads='on')
        """
        found = _NAME.fullmatch(name)
        return cls(found[1], found[2], int(found[3]), found[4]) if found else None


@dataclass(frozen=True, order=True)
class WebLoad:
    """Requests for a static file of `size` bytes, `rate` of them each second, whenever the answers come."""

    path: str
    """One of `PATHS`, or "guest " with a guest's name."""
    size: int
    rate: int

    @property
    def name(self) -> str:
        """In words, such as "veth, web, 1024 bytes, 1000 requests/s"; `parse` reads it."""
        return f"{self.path}, web, {self.size} bytes, {self.rate} requests/s"

    @property
    def slug(self) -> str:
        """The same in the name of a step."""
        return f"{_slug(self.path)}-web-{self.size}-{self.rate}"

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The load that has this name; None if none has.

        >>> WebLoad.parse("veth, web, 1024 bytes, 1000 requests/s")
        WebLoad(path='veth', size=1024, rate=1000)
        """
        found = _WEB_NAME.fullmatch(name)
        return cls(found[1], int(found[2]), int(found[3])) if found else None


_NAME = re.compile(
    rf"({'|'.join(PATHS)}|{GUEST}.+), ({'|'.join(DIRECTIONS)}), (\d{{1,9}}) bytes, "
    rf"offloads ({'|'.join((*OFFLOADS, UNCHANGED))})",
    re.ASCII,
)
_WEB_NAME = re.compile(rf"({'|'.join(PATHS)}|{GUEST}.+), web, (\d{{1,9}}) bytes, (\d{{1,9}}) requests/s", re.ASCII)


@dataclass(frozen=True)
class Step:
    """A configuration, once."""

    configuration: Configuration | WebLoad
    repetition: int

    @property
    def name(self) -> str:
        """Unique in its run, such as "veth-send-256-offloads-on-1"."""
        return f"{self.configuration.slug}-{self.repetition}"


@dataclass(frozen=True)
class Network:
    """A valid scenario; times in seconds, sizes in bytes."""

    name: str
    digest: str
    about: str
    paths: tuple[str, ...] = PATHS
    directions: tuple[str, ...] = DIRECTIONS
    sizes: tuple[int, ...] = (256, 131_072)
    offloads: tuple[str, ...] = OFFLOADS
    web_rates: tuple[int, ...] = ()
    guests: tuple[Guest, ...] = ()
    duration: int = 10
    warm_up: int = 2
    repetitions: int = 5

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, in the order in which they run; rotated by repetition, so that none is always the first."""
        of_guests = [guest_path(guest) for guest in self.guests]
        of: list[Configuration | WebLoad] = [
            *(Configuration(*one) for one in product(self.paths, self.directions, self.sizes, self.offloads)),
            *(Configuration(*one, UNCHANGED) for one in product(of_guests, self.directions, self.sizes)),
            *(WebLoad(*one) for one in product((*self.paths, *of_guests), FILES, self.web_rates)),
        ]
        return tuple(
            Step(one, turn + 1)
            for turn in range(self.repetitions)
            for one in of[turn % len(of) :] + of[: turn % len(of)]
        )


def guest_path(guest: Guest) -> str:
    """The path to a guest, as configurations have it."""
    return f"{GUEST}{guest.name}"


def parse(text: str, file_name: str) -> Network:
    """The scenario in a text; raises `ScenarioError`."""
    return keys.scenario(text, file_name, _KEYS, _REQUIRED, lambda values, _: Network(**values))


def _slug(path: str) -> str:
    return re.sub(r"[^\w.-]+", "-", path)


_KEYS: keys.Keys = {
    "paths": one_or_more(one_of(PATHS)),
    "directions": one_or_more(one_of(DIRECTIONS)),
    "sizes": one_or_more(whole(16, 1_048_576)),
    "offloads": one_or_more(one_of(OFFLOADS)),
    "web_rates": one_or_more(whole(1, MOST_REQUESTS)),
    "guests": lambda value: environments.guests(value, _slug),
    "duration": whole_seconds(1, 3_600),
    "warm_up": whole_seconds(1, 600),
}
_REQUIRED = {"study": STUDY, "about": "What does a bridge cost?"}  # with an example for each
