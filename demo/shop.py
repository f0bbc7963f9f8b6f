"""demo-kvm's hour in phases: when the batch job runs, when the shop is at its cap (shop.yml)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

HOST = "demo-kvm"
CHOSEN: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("shop.yml").read_text(encoding="utf-8"))
GUESTS: Mapping[str, Mapping[str, Any]] = CHOSEN["guests"]
APP = "shop"


class Phase(NamedTuple):
    """A part of the hour, in seconds; guests' values are by name."""

    begin: int
    end: int
    clients: int
    mean: float  # response, in seconds
    requests: float  # per second
    cpus: Mapping[str, float]
    waits: Mapping[str, float]  # per CPU second
    caps: Mapping[str, float]
    throttled: Mapping[str, float]
    misses: float  # last-level cache misses, relative to the usual number


def _phases() -> Iterator[Phase]:
    usual = {name: guest["cpus"] for name, guest in GUESTS.items() if "cpus" in guest}
    waits = dict.fromkeys(GUESTS, CHOSEN["quiet"]["waits"])
    caps = {name: guest["cap"] for name, guest in GUESTS.items() if "cap" in guest}
    begin = 0
    for row in CHOSEN["phases"]:
        given = {**CHOSEN["quiet"], **row}
        mean = given["mean_response_seconds"]
        requests = given["clients"] / (CHOSEN["think_seconds"] + mean)
        tiers = {f"{APP}-{tier}": requests * cpus for tier, cpus in CHOSEN["cpu_per_request"].items()}
        yield Phase(
            begin=begin,
            end=begin + 60 * row["minutes"],
            clients=given["clients"],
            mean=mean,
            requests=requests,
            cpus={**usual, **tiers, **row.get("cpus", {})},
            waits={**waits, **row.get("waits", {})},
            caps={**caps, **row.get("caps", {})},
            throttled=row.get("throttled", {}),
            misses=row.get("misses", 1.0),
        )
        begin += 60 * row["minutes"]


PHASES = list(_phases())


def phase_at(seconds: float) -> Phase:
    """The phase at this Unix time."""
    second = seconds % PHASES[-1].end
    return next(phase for phase in PHASES if second < phase.end)
