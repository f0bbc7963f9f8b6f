"""Numbers for readers."""

import math
from collections.abc import Callable
from dataclasses import dataclass

MISSING = "no data"


def significant(value: float, digits: int = 3) -> str:
    """A number with this many digits, without an exponent for usual magnitudes.

    >>> significant(1234.5), significant(999.7), significant(0.031415), significant(0)
    ('1234', '1000', '0.0314', '0')
    """
    if abs(float(f"{value:.{digits - 1}e}")) >= 10**digits:
        return f"{value:.0f}"
    return f"{value:.{digits}g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.{digits - 1}e}"


def percent(value: float) -> str:
    """A percentage; close to 100 with enough digits to show the distance from it.

    >>> percent(7.25), percent(92.14), percent(95), percent(99.852), percent(100)
    ('7.25', '92.1', '95', '99.85', '100')
    """
    lacking = 100 - value
    if not 0 < lacking < 10:
        return significant(value)
    return f"{value:.{1 - math.floor(math.log10(lacking))}f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class Unit:
    """How to draw and write a quantity: `factor` converts base units to the axis's unit `axis`."""

    axis: str
    factor: float = 1
    short: str = ""
    """The unit in a sentence, if it differs from the axis's."""
    digits: Callable[[float], str] = significant
    logarithmic: bool = False
    """Use a logarithmic axis, for values that vary by orders of magnitude."""

    def number(self, value: float) -> str:
        return self.digits(value * self.factor)

    def write(self, value: float | None) -> str:
        """The value with its unit, or `MISSING`.

        >>> unit_of("bytes/s").write(1.5e9), unit_of("s").write(0.0031), unit_of("events/s").write(5021.66)
        ('1500 MB/s', '3.1 ms', '5022 events/s')
        """
        if value is None:
            return MISSING
        short = self.short or self.axis
        return f"{self.digits(value)} s" if short == "ms" and abs(value) >= 1 else f"{self.number(value)} {short}"


RESPONSE = Unit("ms", 1000, logarithmic=True)
DURATION = Unit("ms", 1000)
RATE = Unit("per second")
CPUS = Unit("CPUs", short="CPU")
CPU_TIME = Unit("ms of CPU", 1000, "ms")
WAITING = Unit("s/s")
SHARE = Unit("%", 100, digits=percent)
PER_THOUSAND = Unit("per 1,000 instructions", 1000, "per 1,000")
_OF_MEASUREMENTS = {
    "bytes/s": Unit("MB/s", 1e-6),
    "s/byte": Unit("ns/byte", 1e9),
    "s/request": Unit("µs/request", 1e6),
    "CPUs": CPUS,
    "s": DURATION,
}


def unit_of(name: str) -> Unit:
    return _OF_MEASUREMENTS.get(name, Unit(name))
