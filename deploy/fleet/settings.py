"""fleet.yml: the numbers of parts, their machines, and the store's retention."""

import math
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from deploy import documents, durations
from deploy.documents import KeyProblem, Model
from deploy.places import CHECKOUT

FILE = CHECKOUT / "deploy" / "fleet" / "fleet.yml"

REPLICAS = ("a", "b")  # of each shard's Prometheus, and of Thanos Rule
REPLICATION = 3  # of each sample among the receivers
MAX = {"shards": 100, "receivers": 40, "queries": 10, "alertmanagers": 10}  # limited by the ranges of ports
_PORTS = 400  # from first_port on

_PLACES = {
    "prometheus": {"shard", "replica"},
    "receive": {"number"},
    "query": {"number"},
    "rule": {"replica"},
    "alertmanager": {"number"},
}


def _duration(longest: float) -> AfterValidator:
    def check(text: str) -> str:
        seconds = durations.parse(text)
        if seconds < 1:
            raise ValueError(f"{text!r} is less than 1s")
        if seconds > longest:
            raise ValueError(f"{text!r} is more than {longest}s")
        return text

    return AfterValidator(check)


class Settings(Model):
    """The settings in fleet.yml. Intervals and `retention` are Prometheus's durations, such as "15s"; `raw` has regular
    expressions for whole names of metrics, `machines` a pattern for the host name of each kind of part.
    """

    shards: int = Field(ge=1, le=MAX["shards"])
    store: Literal["thanos"]
    receivers: int = Field(ge=REPLICATION, le=MAX["receivers"])
    queries: int = Field(ge=1, le=MAX["queries"])
    alertmanagers: int = Field(ge=1, le=MAX["alertmanagers"])
    # Rates are over a minute, and need two scrapes even if one fails; rules look back two minutes.
    scrape_interval: Annotated[str, _duration(20)]
    evaluation_interval: Annotated[str, _duration(60)]
    retention: Annotated[str, _duration(math.inf)]
    targets: Annotated[Path, AfterValidator(lambda targets: CHECKOUT / targets)]
    machines: dict[str, str]
    listen: str = Field(pattern="^[0-9a-zA-Z.:-]+$")
    first_port: int = Field(ge=1024, le=65535 - _PORTS)
    raw: tuple[re.Pattern[str], ...]

    @field_validator("machines")
    @classmethod
    def _check_machines(cls, machines: dict[str, str]) -> dict[str, str]:
        if machines.keys() != _PLACES.keys():
            raise ValueError(f"{', '.join(machines)} is not {', '.join(_PLACES)}")
        for kind, pattern in machines.items():
            if not re.fullmatch(r"[0-9a-zA-Z.-]+", re.sub(r"{\w+}", "0", pattern)):
                raise KeyProblem(f"{pattern!r} is not a host name, or a pattern of one", kind)
            if unknown := set(re.findall(r"{(\w+)}", pattern)) - _PLACES[kind]:
                known = " and ".join(f"{{{name}}}" for name in sorted(_PLACES[kind]))
                raise KeyProblem(f"{pattern!r} has {{{unknown.pop()}}}, and {kind} only {known}", kind)
        return machines

    def address(self, kind: str, port: int, **place: str | int) -> str:
        """The address by which others reach a part of a kind, such as "receive"; `port` counts from `first_port`.

        place: its `number`, or its `shard` and `replica`.
        """
        return f"{self.machines[kind].format(**place)}:{self.first_port + port}"

    def own(self, port: int) -> str:
        """The address at which a part itself listens."""
        return f"{self.listen}:{self.first_port + port}"


def read(file: Path = FILE) -> Settings:
    """The settings in a file; raises `documents.FileError` with file, line and problem."""
    return documents.load(file).read(Settings)
