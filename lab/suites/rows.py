"""The common form of all suites' output: a value for each test, with its unit and the better direction."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from lab import LabError

MICROSECONDS, MEGABYTES, INDEX = "microseconds", "megabytes_per_second", "index"  # a megabyte is 1,000,000 bytes
Better = Literal["lower", "higher"]
LOWER: Better = "lower"
HIGHER: Better = "higher"
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{0,12})?(?:e[+-]?\d{1,2})?", re.ASCII)
_LONGEST = 80  # characters of a line in an error message


class OutputError(LabError):
    """Unknown output of a suite; the message has the line's number and its text."""

    def __init__(self, line: int, text: str, problem: str) -> None:
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        super().__init__(f"line {line}: {shown!r}: {problem}")


class Test(NamedTuple):
    """A test of a suite, as named in the suite's own summary; `group` is the summary's table."""

    suite: str
    group: str
    name: str
    unit: str
    better: Better

    @property
    def key(self) -> str:
        """Unique among all suites, unlike names: lmbench has a latency and a bandwidth of "Pipe"."""
        return f"{self.suite}/{self.group}/{self.name}"


class Row(NamedTuple):
    """A test's value in its unit, finite and above 0."""

    test: Test
    value: float


def lines(text: str) -> Iterator[tuple[int, str]]:
    return enumerate((line.rstrip() for line in text.split("\n")), 1)


def number(text: str) -> float | None:
    """A plain number with at most 15 digits before its point; None otherwise."""
    return float(text) if _NUMBER.fullmatch(text) else None
