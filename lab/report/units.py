"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MISSING = "no data"


@dataclass(frozen=True)
class Unit:
    """How a quantity is drawn and written: `factor` takes it from base units to those of its axis, named `axis`."""

    axis: str
    factor: float
    text: Callable[[float], str]
    logarithmic: bool = False
    """Drawn on a logarithmic axis, as what grows by orders of magnitude."""

    def number(self, value: float) -> str:
        """The value in the axis's unit, for a column that has the unit above it."""
        return significant(value * self.factor)

    def write(self, value: float | None) -> str:
        """The value with its unit, or a dash where there is none."""
        return MISSING if value is None else self.text(value)


def significant(value: float, digits: int = 3) -> str:
    """A number to this many digits, without exponent for what a table holds.

    >>> significant(1234.5), significant(0.031415), significant(0)
    ('1234', '0.0314', '0')
    """
    if abs(value) >= 10**digits:
        return f"{value:.0f}"
    return f"{value:.{digits}g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.{digits - 1}e}"


def _duration(seconds: float) -> str:
    return f"{significant(seconds)} s" if abs(seconds) >= 1 else f"{significant(seconds * 1000)} ms"


def _percent(ratio: float) -> str:
    return f"{significant(ratio * 100)} %"


RESPONSE = Unit("ms", 1000, _duration, logarithmic=True)
DURATION = Unit("ms", 1000, _duration)
RATE = Unit("per second", 1, lambda value: f"{significant(value)} /s")
CPUS = Unit("CPUs", 1, lambda value: f"{significant(value)} CPU")
CPU_TIME = Unit("ms of CPU", 1000, _duration)
WAITING = Unit("s/s", 1, lambda value: f"{significant(value)} s/s")
SHARE = Unit("%", 100, _percent)
PER_THOUSAND = Unit("per 1,000 instructions", 1000, lambda value: f"{significant(value * 1000)} ‰")
