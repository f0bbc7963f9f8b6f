"""The common form of all suites' output: a value for each test, with its unit and the better direction."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from lab import LabError
from lab.metrics import Measurement

MICROSECONDS, MEGABYTES, INDEX = "microseconds", "megabytes_per_second", "index"  # a megabyte is 1,000,000 bytes
Better = Literal["lower", "higher"]
LOWER: Better = "lower"
HIGHER: Better = "higher"
TESTS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("tests.yml").read_text())


class OutputError(LabError):
    """Output that isn't a suite's, or isn't of a single run."""


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

    def measured(
        self, environment: str, repetition: int, virtualization: str = "", *, emulated: bool = False
    ) -> Measurement:
        of = self.test
        return Measurement(environment, virtualization, emulated, of.key, of.unit, of.better, repetition, self.value)


def number(text: str) -> float:
    """The number at the end of a line of output; raises `OutputError` if it is none."""
    try:
        if math.isfinite(value := float(text.rsplit(maxsplit=1)[-1])):
            return value
    except ValueError:
        pass
    raise OutputError(f"{text!r} does not end with a number")


def once(found: Iterable[Row]) -> tuple[Row, ...]:
    """The rows without those of 0, which a suite couldn't measure; raises `OutputError` if a test is there twice."""
    values: dict[Test, float] = {}
    for test, value in found:
        if test in values:
            raise OutputError(f"{test.name} is there twice: give one run at a time")
        values[test] = value
    return tuple(Row(test, value) for test, value in values.items() if value > 0)
