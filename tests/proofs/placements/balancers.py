"""Where balancers would put a guest: by the formulas of VMware's and OpenStack's balancers and their like. Pure.

They look at what is used, or at who waits, and know no response time. A tie is no reason to move.
"""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Host:
    """What a host's metrics say before a move.

    Attributes:
        cpu_usage: in CPUs, as `memory` and its capacity in bytes.
        wait: seconds per second that its guests waited for a CPU, of all of them.
        pressure: the share of the time in which a task of one guest at least waited (PSI, some).
    """

    cpus: float
    cpu_usage: float
    memory: float
    memory_capacity: float
    wait: float
    guests: int
    pressure: float


@dataclass(frozen=True)
class Guest:
    """What the moving one uses."""

    cpu_usage: float
    memory: float


_Score = Callable[[Mapping[str, Host], Guest, str, str], float]


def _cpu(hosts: Mapping[str, Host], guest: Guest, now: str, to: str) -> float:
    """Variation of CPU utilisation after the move."""
    moved = _moved(now, to, guest.cpu_usage)
    return _variation([(each.cpu_usage + moved.get(name, 0)) / each.cpus for name, each in hosts.items()])


def _memory(hosts: Mapping[str, Host], guest: Guest, now: str, to: str) -> float:
    moved = _moved(now, to, guest.memory)
    return _variation([(each.memory + moved.get(name, 0)) / each.memory_capacity for name, each in hosts.items()])


def _pressure(hosts: Mapping[str, Host], _guest: Guest, _now: str, to: str) -> float:
    return hosts[to].pressure


def _ready_time(hosts: Mapping[str, Host], _guest: Guest, _now: str, to: str) -> float:
    """Of a guest on average; nobody waits on an empty host."""
    return hosts[to].wait / max(hosts[to].guests, 1)


FORMULAS: Mapping[str, _Score] = {
    "variation of CPU use": _cpu,
    "variation of memory use": _memory,
    "CPU pressure": _pressure,
    "ready time per guest": _ready_time,
}


def choices(hosts: Mapping[str, Host], guest: Guest, now: str) -> dict[str, str]:
    """The host that each formula chooses for a guest that is on host `now`: the one with the lowest value."""
    return {
        name: min(hosts, key=lambda to: (score(hosts, guest, now, to), to != now)) for name, score in FORMULAS.items()
    }


def _moved(now: str, to: str, amount: float) -> dict[str, float]:
    return {} if now == to else {now: -amount, to: amount}


def _variation(values: list[float]) -> float:
    """The coefficient of variation."""
    mean = statistics.fmean(values)
    return statistics.pstdev(values) / mean if mean else 0.0
