"""Reads scenario files: a table of keys, each with a reader that returns a typed value or refuses it with its place."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from alerts.generator.document import FileError, Value, parse
from lab import LabError

T = TypeVar("T")
Keys = Mapping[str, Callable[[Value], Any]]


class ScenarioError(LabError):
    """A scenario that can't be run. The message begins with the file's name and the line, if there is one."""


def scenario(
    text: str,
    file_name: str,
    keys: Keys,
    required: Mapping[str, str],
    make: Callable[[dict[str, Any], Mapping[str, Value]], T],
) -> T:
    """The scenario in a text.

    keys: all that there may be besides `study` and `about`, and how each is read.
    required: those that there must be, with an example for each.
    make: of the values by key, with the scenario's `name` and `digest`, and of what the file has; raises `FileError`.
    Raises `ScenarioError`.
    """
    readers: Keys = {**_COMMON, **keys}
    try:
        document = parse(text, file_name)
        if document is None:
            raise FileError(f"{file_name}:1: is empty; see docs/lab.md for what belongs there")
        known = [key for key in readers if key != "study" or "study" in required]
        fields = document.fields(required, optional=[key for key in known if key not in required])
        values = {key: readers[key](value) for key, value in fields.items() if key != "study"}
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return make({**values, "name": file_name.rpartition(".")[0], "digest": digest}, fields)
    except FileError as error:
        raise ScenarioError(str(error)) from None


def whole(least: int, most: int) -> Callable[[Value], int]:
    """A whole number in this range."""

    def read(value: Value) -> int:
        kind = f"a whole number from {least} to {most}"
        text = value.scalar(kind)
        if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or not least <= int(text) <= most:
            value.refuse(f"{text!r} is not {kind}")
        return int(text)

    return read


def seconds(least: float, most: float) -> Callable[[Value], float]:
    """A time in this range, in seconds."""

    def read(value: Value) -> float:
        kind = f"a time from {least:g}s to {most:g}s, such as 90s or 2m"
        text = value.scalar(kind)
        match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|h)", text, re.ASCII)
        seconds = float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]] if match else -1.0
        if not least <= seconds <= most:
            value.refuse(f"{text!r} is not {kind}")
        return seconds

    return read


def whole_seconds(least: int, most: int) -> Callable[[Value], int]:
    """A time in this range, in seconds and without a fraction."""
    read_any = seconds(least, most)

    def read(value: Value) -> int:
        if (number := read_any(value)) != int(number):
            value.refuse("must be whole seconds")
        return int(number)

    return read


def one_of(there_are: Sequence[str]) -> Callable[[Value], str]:
    """One of these words; on and off are words too, which YAML takes for true and false."""

    def read(value: Value) -> str:
        if (text := value.scalar(f"one of {', '.join(there_are)}")) not in there_are:
            value.refuse(f"{text!r} is none{nearest(text, there_are)}")
        return text

    return read


def yes(value: Value) -> bool:
    """True or false."""
    if (text := value.scalar("true or false")) not in {"true", "false"}:
        value.refuse(f"{text!r} is neither true nor false")
    return text == "true"


def one_or_more(read: Callable[[Value], T]) -> Callable[[Value], tuple[T, ...]]:
    """A value or a list of different values."""

    def read_all(value: Value) -> tuple[T, ...]:
        found: list[T] = []
        for each in value.one_or_more():
            if (one := read(each)) in found:
                each.refuse(f"{one!r} is there twice; to run it again, use repetitions")
            found.append(one)
        return tuple(found) or value.refuse("the list is empty")

    return read_all


def nearest(given: str, there_are: Sequence[str]) -> str:
    """The end of an error message: the nearest valid one, else all of them."""
    if near := difflib.get_close_matches(given, there_are, n=1, cutoff=0.6):
        return f"; did you mean {near[0]}?"
    return f"; there are {', '.join(there_are)}"


_COMMON: Keys = {
    "study": lambda value: value.text(),
    "about": lambda value: value.text().strip(),
    "repetitions": whole(1, 100),
}
