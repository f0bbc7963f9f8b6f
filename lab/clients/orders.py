"""The protocol between the lab and the clients' process: one JSON object per line, with an answer to each.

    <- {"port": 40123}                                             first: the port of its metrics
    -> {"habits": {"seed": "2007/1x800-1", "think_seconds": 7.0, "timeout_seconds": 10.0},
        "applications": {"auction-1": {"url": "http://127.0.0.1:40080", "clients": 210}}}
    <- {}                                                          after they have started, and earlier ones ended

The process ends with its standard input, and so with its parent process.
"""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Application:
    url: str
    clients: int


@dataclass(frozen=True)
class Habits:
    seed: str  # for everything random
    think_seconds: float  # mean of an exponential distribution
    timeout_seconds: float  # after this a client stops waiting for an answer, and its session ends


@dataclass(frozen=True)
class Order:
    """The applications and their clients from now on, each with its own random sequence from the seed.

    The same order gives the same visits, however long the process has run.
    """

    habits: Habits
    applications: dict[str, Application]


def encode(message: Order | dict[str, int]) -> str:
    return json.dumps(asdict(message) if isinstance(message, Order) else message) + "\n"


def decode_order(line: str) -> Order:
    given = json.loads(line)
    applications = {name: Application(**fields) for name, fields in given["applications"].items()}
    return Order(Habits(**given["habits"]), applications)
