"""What is said between the lab and the clients' process: one JSON object per line, an answer to each.

    <- {"port": 40123}                                             first of all: where its metrics are
    -> {"habits": {"seed": "2007/1x800-1", "think_seconds": 7.0, "timeout_seconds": 10.0},
        "applications": {"auction-1": {"url": "http://127.0.0.1:40080", "clients": 210}}}
    <- {"auction-1": 210}                                          once they run, or have ended

The process ends with its standard input, and so with whoever started it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Application:
    """Where an application is, and how many clients it is to have."""

    url: str
    clients: int


@dataclass(frozen=True)
class Habits:
    """How every client behaves."""

    seed: str  # of all that is left to chance
    think_seconds: float  # mean of an exponential distribution
    timeout_seconds: float  # a client who has waited so long for an answer gives up, and its session ends


@dataclass(frozen=True)
class Order:
    """The applications and their clients from now on; an application that isn't named keeps what it has.

    With other habits than before, all clients end first, and new ones start from the seed, each with its own
    sequence: the same order gives the same visits, however long the process has run.
    """

    habits: Habits
    applications: dict[str, Application]


def encode(message: Order | dict[str, int]) -> str:
    """One line, with its end."""
    return json.dumps(asdict(message) if isinstance(message, Order) else message) + "\n"


def decode_order(line: str) -> Order:
    """What `encode` made of an order."""
    given = json.loads(line)
    applications = {name: Application(**fields) for name, fields in given["applications"].items()}
    return Order(Habits(**given["habits"]), applications)


def decode_numbers(line: str) -> dict[str, int]:
    """What `encode` made of an answer."""
    answer: dict[str, int] = json.loads(line)
    return answer
