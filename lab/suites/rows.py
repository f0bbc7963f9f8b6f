"""The common form of all suites' output: a value for each test, with its unit and the better direction."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from lab import LabError

MICROSECONDS, MEGABYTES, INDEX = "microseconds", "megabytes_per_second", "index"  # a megabyte is 1,000,000 bytes
Better = Literal["lower", "higher"]
LOWER: Better = "lower"
HIGHER: Better = "higher"
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{0,12})?(?:e[+-]?\d{1,2})?", re.ASCII)
TESTS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("tests.yml").read_text())
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


def measured(text: str, line: int, content: str) -> float:
    """A number of an output; raises `OutputError` if it is none."""
    if (value := number(text)) is None:
        raise OutputError(line, content, f"{text} is not a number")
    return value


def keep(found: dict[Test, float], test: Test, value: float, line: int, content: str) -> None:
    """Add a test's value; raises `OutputError` if it has one already."""
    if test in found:
        raise OutputError(line, content, f"{test.name} is there twice: give one run at a time")
    found[test] = value


def rows(found: dict[Test, float]) -> tuple[Row, ...]:
    return tuple(Row(test, value) for test, value in found.items())
