"""fleet.yml: how many of which parts, where they run, and what the store keeps."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from deploy import durations
from deploy.fleet import FleetError

CHECKOUT = Path(__file__).resolve().parents[2]
FILE = CHECKOUT / "deploy" / "fleet" / "fleet.yml"

REPLICAS = ("a", "b")  # of each shard's Prometheus, and of what evaluates the central rules
REPLICATION = 3  # of each sample among the receivers
MOST = {"shards": 100, "receivers": 40, "queries": 10, "alertmanagers": 10}  # what the ports have room for
_LEAST = {"receivers": REPLICATION}
_PORTS = 400  # from first_port on

_PLACES = {
    "prometheus": {"shard", "replica"},
    "receive": {"number"},
    "query": {"number"},
    "rule": {"replica"},
    "alertmanager": {"number"},
}


@dataclass(frozen=True)
class Settings:
    """What fleet.yml says. Intervals and `retention` are Prometheus's durations, such as "15s"; `raw` holds regular
    expressions for whole names of metrics, `machines` a pattern for the host name of each kind of part.
    """

    shards: int
    store: str
    receivers: int
    queries: int
    alertmanagers: int
    scrape_interval: str
    evaluation_interval: str
    retention: str
    targets: Path
    machines: Mapping[str, str]
    listen: str
    first_port: int
    raw: tuple[str, ...]

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            _require_number(name, getattr(self, name), _LEAST.get(name, 1), most)
        _require_number("first_port", self.first_port, 1024, 65535 - _PORTS)
        if self.store != "thanos":
            raise FleetError(f"store: {self.store!r} is not a store that is known here: thanos")
        # Rates are over a minute, and need two scrapes in it, of which one may fail; rules look two minutes back.
        for name, longest in (("scrape_interval", 20), ("evaluation_interval", 60), ("retention", math.inf)):
            value = getattr(self, name)
            try:
                found = durations.parse(str(value))
            except ValueError:
                raise FleetError(f"{name}: {value!r} is not a duration such as 15s") from None
            if found < 1:
                raise FleetError(f"{name}: {value!r} is less than 1s")
            if found > longest:
                raise FleetError(f"{name}: {value!r} is more than {longest}s")
        if set(self.machines) != set(_PLACES):
            raise FleetError(f"machines: {', '.join(self.machines)} is not {', '.join(_PLACES)}")
        for kind, pattern in self.machines.items():
            _require_pattern(kind, pattern)
        if not re.fullmatch(r"[0-9a-zA-Z.:-]+", self.listen):
            raise FleetError(f"listen: {self.listen!r} is not an address to listen on, such as 127.0.0.1")
        for pattern in self.raw:
            _require_expression(pattern)

    def machine(self, kind: str, **place: str | int) -> str:
        """The host name of a part of a kind, such as "receive", by its `number`, or its `shard` and `replica`."""
        return self.machines[kind].format(**place)


def read(file: Path = FILE) -> Settings:
    """The settings in a file; raises FleetError with the file and what is wrong in it."""
    try:
        document: Any = yaml.safe_load(file.read_text())  # whatever YAML can hold
    except OSError as error:
        raise FleetError(f"{file}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FleetError(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    try:
        return _settings(document)
    except FleetError as error:
        raise FleetError(f"{file}: {error}") from None


def _settings(document: Any) -> Settings:
    names = {field.name for field in fields(Settings)}
    if not isinstance(document, dict):
        raise FleetError(f"{document!r} is not a mapping of settings")
    if unknown := sorted(map(str, document.keys() - names)):
        raise FleetError(f"unknown setting: {', '.join(unknown)}")
    if missing := sorted(names - document.keys()):
        raise FleetError(f"missing setting: {', '.join(missing)}")
    for name, kind in (("raw", list), ("machines", dict), ("targets", str), ("listen", str)):
        if not isinstance(document[name], kind):
            raise FleetError(f"{name}: {document[name]!r} is not a {kind.__name__}")
    return Settings(**{**document, "targets": CHECKOUT / document["targets"], "raw": tuple(document["raw"])})


def _require_number(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise FleetError(f"{name}: {value!r} is not a number from {least} to {most}")


def _require_pattern(kind: str, pattern: object) -> None:
    """Refuse a pattern of host names that isn't one, or that is the same for several machines and not loopback."""
    if not isinstance(pattern, str) or not re.fullmatch(r"[0-9a-zA-Z.-]+", re.sub(r"{\w+}", "0", pattern)):
        raise FleetError(f"machines: {kind}: {pattern!r} is not a host name, or a pattern of one")
    if unknown := set(re.findall(r"{(\w+)}", pattern)) - _PLACES[kind]:
        known = " and ".join(f"{{{name}}}" for name in sorted(_PLACES[kind]))
        raise FleetError(f"machines: {kind}: {pattern!r} has {{{unknown.pop()}}}, and {kind} only {known}")


def _require_expression(pattern: object) -> None:
    if not isinstance(pattern, str):
        raise FleetError(f"raw: {pattern!r} is not a regular expression")
    try:
        re.compile(pattern)
    except re.error as error:
        raise FleetError(f"raw: {pattern!r} is not a regular expression: {error}") from None
