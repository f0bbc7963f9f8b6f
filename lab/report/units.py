"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

MISSING = "no data"


@dataclass(frozen=True)
class Unit:
    """How a quantity is drawn and written: `factor` takes it from base units to those of its axis, named `axis`."""

    axis: str
    factor: float
    text: Callable[[float], str]
    """A value in base units with its unit, as in a sentence."""
    digits: Callable[[float], str]
    """A value in the axis's unit, as in a column that has the unit above it."""
    logarithmic: bool = False
    """Drawn on a logarithmic axis, as what grows by orders of magnitude."""

    def number(self, value: float) -> str:
        """The value in the axis's unit, without it."""
        return self.digits(value * self.factor)

    def write(self, value: float | None) -> str:
        """The value with its unit, or that there is none."""
        return MISSING if value is None else self.text(value)


def significant(value: float, digits: int = 3) -> str:
    """A number to this many digits, without exponent for what a table holds.

    >>> significant(1234.5), significant(999.7), significant(0.031415), significant(0)
    ('1234', '1000', '0.0314', '0')
    """
    if abs(float(f"{value:.{digits - 1}e}")) >= 10**digits:
        return f"{value:.0f}"
    return f"{value:.{digits}g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.{digits - 1}e}"


def percent(value: float) -> str:
    """A percentage; close to 100 with as many digits as tell how far from it.

    >>> percent(7.25), percent(92.14), percent(95), percent(99.852), percent(100)
    ('7.25', '92.1', '95', '99.85', '100')
    """
    lacking = 100 - value
    if not 0 < lacking < 10:
        return significant(value)
    return f"{value:.{1 - math.floor(math.log10(lacking))}f}".rstrip("0").rstrip(".")


def _duration(seconds: float) -> str:
    return f"{significant(seconds)} s" if abs(seconds) >= 1 else f"{significant(seconds * 1000)} ms"


def _with(unit: str) -> Callable[[float], str]:
    return lambda value: f"{significant(value)} {unit}"


RESPONSE = Unit("ms", 1000, _duration, significant, logarithmic=True)
DURATION = Unit("ms", 1000, _duration, significant)
RATE = Unit("per second", 1, _with("per second"), significant)
CPUS = Unit("CPUs", 1, _with("CPU"), significant)
CPU_TIME = Unit("ms of CPU", 1000, _duration, significant)
WAITING = Unit("s/s", 1, _with("s/s"), significant)
SHARE = Unit("%", 100, lambda ratio: f"{percent(ratio * 100)} %", percent)
PER_THOUSAND = Unit("per 1,000 instructions", 1000, lambda ratio: f"{significant(ratio * 1000)} per 1,000", significant)


_SHOWN = {
    "bytes/s": (1e-6, "MB/s"),
    "s/byte": (1e9, "ns/byte"),
    "s/request": (1e6, "µs/request"),
    "CPUs": (1.0, "CPU"),
    "s/s": (1.0, "s/s"),
}


def write(value: float, unit: str) -> str:
    """A measurement as people read it.

    >>> write(1.5e9, "bytes/s"), write(7.2e-10, "s/byte"), write(0.0031, "s"), write(5021.66, "events/s")
    ('1500 MB/s', '0.72 ns/byte', '3.1 ms', '5022 events/s')
    """
    if unit == "s":
        return _duration(value)
    factor, shown = _SHOWN.get(unit, (1.0, unit))
    return f"{significant(value * factor)} {shown}"
