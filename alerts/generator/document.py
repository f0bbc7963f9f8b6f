"""YAML files in which every value knows its place, so that errors name file, line and key."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NoReturn

import yaml


class FileError(Exception):
    """A file can't be used. The message is one line for the user: `FILE:LINE: KEY: what is wrong and what to do`."""


@dataclass(frozen=True)
class Value:
    """A value of a YAML file: the file's name as shown to the user, its line, its key such as "objectives.latency"."""

    node: yaml.Node
    file: str
    line: int
    key: str = ""

    @property
    def place(self) -> str:
        """Its place, FILE:LINE."""
        return f"{self.file}:{self.line}"

    def said(self, what: str) -> str:
        """A message about this value, preceded by its place and key."""
        return f"{self.place}: {self.key}: {what}" if self.key else f"{self.place}: {what}"

    def refuse(self, problem: str) -> NoReturn:
        """Raises `FileError` with the place of this value."""
        raise FileError(self.said(problem))

    def text(self) -> str:
        """A string that is not blank."""
        if not isinstance(self.node, yaml.ScalarNode) or not self.node.value.strip():
            self.refuse("must be a string")
        if not self.node.tag.endswith(":str"):
            self.refuse(f"must be a string: write '{self.node.value}' in quotes")
        return str(self.node.value)

    def number(self) -> float:
        """A finite number."""
        # YAML has numbers such as .inf, 0x10 and 1:30 too.
        if not isinstance(self.node, yaml.ScalarNode) or not re.fullmatch(r"[-+]?[0-9]*\.?[0-9]+", self.node.value):
            self.refuse("must be a number, such as 0.5")
        number = float(self.node.value)
        if not math.isfinite(number):
            self.refuse("is too large for a number")
        return number

    def scalar(self, kind: str) -> str:
        """A scalar as it is written, for the caller to parse; `kind` says what it must be."""
        if not isinstance(self.node, yaml.ScalarNode):
            self.refuse(f"must be {kind}")
        return str(self.node.value)

    def one_or_more(self) -> list[Value]:
        """The entries of a list, or only this value if it isn't a list."""
        return self.items() if isinstance(self.node, yaml.SequenceNode) else [self]

    def items(self) -> list[Value]:
        """The entries of a list; their keys are the list's with a number, such as `histograms[1]` for the first."""
        if not isinstance(self.node, yaml.SequenceNode):
            self.refuse("must be a list")
        return [Value(node, self.file, _line(node), f"{self.key}[{n}]") for n, node in enumerate(self.node.value, 1)]

    def entries(self) -> dict[str, Value]:
        """The values of a mapping with arbitrary keys, by key."""
        if not isinstance(self.node, yaml.MappingNode):
            self.refuse("must be a mapping, such as `key: value`")
        found: dict[str, Value] = {}
        for key_node, node in self.node.value:
            line = _line(key_node)
            key = _key(Value(key_node, self.file, line, self.key))
            entry = Value(node, self.file, line, f"{self.key}.{key}" if self.key else key)
            if key in found:
                entry.refuse("is there twice")
            found[key] = entry
        return found

    def fields(self, required: Mapping[str, str], optional: Collection[str] = ()) -> dict[str, Value]:
        """The values of a mapping that may have only these keys; `required` has an example for each key."""
        found = self.entries()
        known = [*required, *optional]
        for key, value in found.items():
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                value.refuse(
                    "no such key; " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}")
                )
        for key, example in required.items():
            if key not in found:
                self.refuse(f"{key} is missing, for example `{key}: {example}`")
        return found


def parse(text: str, file: str) -> Value | None:
    """A file's content, None if it is empty; raises `FileError` if it isn't YAML."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        written = text.splitlines()[line] if line < len(text.splitlines()) else ""
        if r"'\t'" in (error.problem or ""):
            hint = "; indent with spaces, not tabs"
        elif re.search(r"[:-]\s+[{[]", written):
            hint = "; a string that begins with { or [ needs quotes"
        else:
            hint = ""
        raise FileError(f"{file}:{line + 1}: is not YAML: {error.problem}{hint}") from error
    except yaml.reader.ReaderError as error:  # characters that YAML doesn't allow
        line = text[: error.position].count("\n")
        raise FileError(f"{file}:{line + 1}: is not YAML: {str(error).splitlines()[0]}") from error
    except RecursionError:
        raise FileError(f"{file}:1: is not usable: its lists or mappings are nested too deeply") from None
    return Value(node, file, _line(node)) if node else None


def _key(key: Value) -> str:
    if isinstance(key.node, yaml.ScalarNode) and not key.node.tag.endswith(":str"):
        if key.node.tag.endswith(":merge"):
            key.refuse("<< is not supported: write the keys out")
        decimals = "; decimals need a point, as in 0.5" if key.node.value.isdecimal() else ""
        key.refuse(f"{key.node.value} is not a key{decimals}")
    return key.text()


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
