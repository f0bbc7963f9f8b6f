"""Scenarios: which applications are consolidated, how, and how many clients each has, as small YAML files.

    about: One application, then two, then four of them on one CPU.
    instances: [1, 2, 4]
    clients: [500, 600, 700, 800]
    duration: 60s

Each combination of a placement, a number of instances and a number of clients is a step, held for `duration` after
`warm_up`; docs/lab.md has all keys. What a file must not hold is refused with its line, its key and the nearest right
one.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from lab import LabError

FOLDER = Path(__file__).with_name("scenarios")

PLACEMENTS = ("one node", "two nodes")

T = TypeVar("T")


class ScenarioError(LabError):
    """A scenario that can't be run. The message begins with the file's name and, where there is one, the line."""


@dataclass(frozen=True)
class Limit:
    """What virtual servers may use of their CPU; see lab.cgroups.TierLimits."""

    weight: int = 10_000  # the most there is: nothing else that runs on this CPU comes between the applications
    cap: float | None = None


@dataclass(frozen=True)
class Step:
    """A load held for a while: so many instances with so many clients each, in the study's numbers."""

    instances: int
    clients: int
    placement: str
    repetition: int

    @property
    def name(self) -> str:
        """Unique in its run, such as "4x700-2"."""
        two_nodes = "two-nodes-" if self.placement == "two nodes" else ""
        return f"{two_nodes}{self.instances}x{self.clients}-{self.repetition}"


@dataclass(frozen=True)
class Scenario:
    """A valid scenario; times in seconds."""

    name: str
    digest: str  # of the file: a run goes on only with the scenario that it began with
    about: str
    instances: tuple[int, ...]
    clients: tuple[int, ...]  # of each instance; one after the other, each for `duration`
    duration: float
    warm_up: float = 20.0
    repetitions: int = 1
    placement: tuple[str, ...] = ("one node",)
    think_time: float = 7.0
    timeout: float = 10.0
    seed: int = 1
    calibration: float = 30.0  # 0: `clients` are taken as they are
    limits: Mapping[str, Limit] = field(default_factory=dict)  # by tier ("web"), or virtual server ("auction-2-web")

    @property
    def steps(self) -> tuple[Step, ...]:
        """All of them, in the order in which they run. Repetitions follow each other last, so that drift shows."""
        return tuple(
            Step(instances, clients, placement, repetition)
            for repetition, placement, instances, clients in itertools.product(
                range(1, self.repetitions + 1), self.placement, self.instances, self.clients
            )
        )

    def limit(self, instance: str, tier: str) -> Limit:
        """What a tier of an instance may use: what is said of this very one, else of all of its tier."""
        return self.limits.get(f"{instance}-{tier}") or self.limits.get(tier) or Limit()


def find(name: str) -> Path:
    """The file of a scenario given by name, or by the path of a file of one's own; raises `ScenarioError`."""
    if name.endswith((".yml", ".yaml")):
        if not Path(name).is_file():
            raise ScenarioError(f"{name}: there is no such file")
        return Path(name)
    shipped = sorted(file.stem for file in FOLDER.glob("*.yml"))
    if name not in shipped:
        raise ScenarioError(f"there is no scenario {name!r} (a file of your own ends in .yml){_nearest(name, shipped)}")
    return FOLDER / f"{name}.yml"


def load(file: Path) -> Scenario:
    """Read a scenario; raises `ScenarioError`."""
    try:
        return parse(file.read_text(), file.name)
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{file}: can't be read: {error}") from None


def parse(text: str, file_name: str) -> Scenario:
    """What a scenario's text says; raises `ScenarioError`."""
    try:
        document = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ScenarioError(f"{file_name}:{line}: this is not YAML: {error.problem}") from None
    except yaml.YAMLError as error:  # such as a control character, which has a position but no line
        raise ScenarioError(f"{file_name}: this is not YAML: {' '.join(str(error).split())}") from None
    reader = _Reader(file_name)
    if document is None:
        raise ScenarioError(f"{file_name}:1: the scenario is empty: it must have {_listed(_REQUIRED)}")
    values = reader.mapping(document, _KEYS, "the scenario")
    if absent := [key for key in _REQUIRED if key not in values]:
        raise ScenarioError(f"{file_name}:1: the scenario lacks {_listed(absent)}")
    values["limits"] = _checked_limits(reader, document, values)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Scenario(name=file_name.rpartition(".")[0], digest=digest, **values)


@dataclass(frozen=True)
class _Reader:
    """Reads YAML nodes, and says where one is wrong."""

    file_name: str

    def error(self, node: yaml.Node, message: str) -> ScenarioError:
        return ScenarioError(f"{self.file_name}:{node.start_mark.line + 1}: {message}")

    def mapping(
        self, node: yaml.Node, keys: Mapping[str, Callable[[_Reader, yaml.Node, str], Any]], what: str
    ) -> dict[str, Any]:
        """The values of a mapping that may have these keys."""
        if not isinstance(node, yaml.MappingNode):
            raise self.error(node, f"{what} must be keys with values, such as `{next(iter(keys))}: ...`")
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in values:
                raise self.error(key_node, f"{key}: is there twice")
            if key not in keys:
                raise self.error(key_node, f"{key}: there is no such key{_nearest(key, keys)}")
            values[key] = keys[key](self, value_node, key)
        return values

    def scalar(self, node: yaml.Node, key: str, kind: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(node, f"{key}: must be {kind}")
        return str(node.value)


def _text(reader: _Reader, node: yaml.Node, key: str) -> str:
    text = reader.scalar(node, key, "a sentence").strip()
    if not text:
        raise reader.error(node, f"{key}: must be a sentence that says what this is to show")
    return text


def _whole(least: int, most: int) -> Callable[[_Reader, yaml.Node, str], int]:
    def read(reader: _Reader, node: yaml.Node, key: str) -> int:
        kind = f"a whole number from {least} to {most}"
        text = reader.scalar(node, key, kind)
        if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or not least <= int(text) <= most:
            raise reader.error(node, f"{key}: {text!r} is not {kind}")
        return int(text)

    return read


def _seconds(least: float, most: float) -> Callable[[_Reader, yaml.Node, str], float]:
    def read(reader: _Reader, node: yaml.Node, key: str) -> float:
        kind = f"a time from {least:g}s to {most:g}s, such as 90s or 2m"
        text = reader.scalar(node, key, kind)
        match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|h)", text, re.ASCII)
        seconds = float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]] if match else -1.0
        if not least <= seconds <= most:
            raise reader.error(node, f"{key}: {text!r} is not {kind}")
        return seconds

    return read


def _cap(reader: _Reader, node: yaml.Node, key: str) -> float:
    kind = "a number of CPUs from 0.05, such as 0.2"
    text = reader.scalar(node, key, kind)
    if not re.fullmatch(r"\d{1,3}(\.\d{1,3})?", text, re.ASCII) or float(text) < 0.05:  # lab.cgroups.SMALLEST_CAP
        raise reader.error(node, f"{key}: {text!r} is not {kind}")
    return float(text)


def _placement(reader: _Reader, node: yaml.Node, key: str) -> str:
    text = reader.scalar(node, key, _listed(PLACEMENTS, "or"))
    if text not in PLACEMENTS:
        raise reader.error(node, f"{key}: there is no placement {text!r}{_nearest(text, PLACEMENTS)}")
    return text


def _one_or_more(
    read: Callable[[_Reader, yaml.Node, str], T],
) -> Callable[[_Reader, yaml.Node, str], tuple[T, ...]]:
    """A value or a list of values, none twice."""

    def read_all(reader: _Reader, node: yaml.Node, key: str) -> tuple[T, ...]:
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if not nodes:
            raise reader.error(node, f"{key}: the list is empty")
        values: list[T] = []
        for one in nodes:
            value = read(reader, one, key)
            if value in values:
                raise reader.error(one, f"{key}: {value!r} is there twice; to run it again, use repetitions")
            values.append(value)
        return tuple(values)

    return read_all


def _limits(reader: _Reader, node: yaml.Node, key: str) -> dict[str, Limit]:
    if not isinstance(node, yaml.MappingNode):
        raise reader.error(node, f"{key}: must be tiers with their limits, such as `web: {{cap: 0.5}}`")
    names = {str(name.value): _limit for name, _ in node.value if _VSERVER.fullmatch(str(name.value))}
    return reader.mapping(node, {**dict.fromkeys(("web", "db", "auction-1-web"), _limit), **names}, key)


def _limit(reader: _Reader, node: yaml.Node, key: str) -> Limit:
    return Limit(**reader.mapping(node, {"weight": _whole(1, 10_000), "cap": _cap}, key))


def _checked_limits(reader: _Reader, document: yaml.Node, values: Mapping[str, Any]) -> dict[str, Limit]:
    """The limits; raises `ScenarioError` for one of an instance that never runs."""
    limits: dict[str, Limit] = values.get("limits", {})
    most = max(values["instances"])
    for name in limits:
        if (match := _VSERVER.fullmatch(name)) and int(match[1]) > most:
            [node] = [value for key, value in document.value if key.value == "limits"]
            [at] = [key for key, _ in node.value if key.value == name]
            raise reader.error(at, f"{name}: no such instance runs: there are at most {most}")
    return limits


def _nearest(given: str, there_are: Mapping[str, Any] | tuple[str, ...] | list[str]) -> str:
    """The end of a complaint: what may have been meant, else all there is."""
    if near := difflib.get_close_matches(given, there_are, n=1, cutoff=0.6):
        return f"; did you mean {near[0]}?"
    return f"; there are {_listed(there_are)}"


def _listed(names: Mapping[str, Any] | tuple[str, ...] | list[str], last: str = "and") -> str:
    *before, end = names
    return f"{', '.join(before)} {last} {end}" if before else end


_VSERVER = re.compile(r"auction-([1-9]\d?)-(?:web|db)")
_KEYS: Mapping[str, Callable[[_Reader, yaml.Node, str], Any]] = {
    "about": _text,
    "instances": _one_or_more(_whole(1, 32)),
    "clients": _one_or_more(_whole(1, 100_000)),
    "duration": _seconds(1, 86_400),
    "warm_up": _seconds(0, 3_600),
    "repetitions": _whole(1, 100),
    "placement": _one_or_more(_placement),
    "think_time": _seconds(0.1, 600),
    "timeout": _seconds(0.1, 600),
    "seed": _whole(0, 999_999_999),
    "calibration": _seconds(0, 600),
    "limits": _limits,
}
_REQUIRED = ["about", "instances", "clients", "duration"]
