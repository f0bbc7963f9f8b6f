"""What the numbers in /proc/vz/vestat are: its version line is the same for cycles and for nanoseconds.

Kernels up to 2.6.2x count cycles of the CPU, those of RHEL 6 (2.6.32) and later nanoseconds. Where the kernel
says what it counts in (/proc/vz/stats), it is believed. Elsewhere the file itself tells: each row has the container's
uptime twice, in jiffies and in that unit, so their quotient is the unit's number in a jiffy. Where that is the same for
several units that are possible, none is chosen: 4,000,000 are nanoseconds at 250 Hz or a clock of 4.0 GHz at 1000 Hz.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median_low
from typing import NamedTuple

from virtscope.openvz.vestat import Row
from virtscope.toolkit.sources import SourceRubbish

NANOSECONDS = 1_000_000_000

# Jiffies in a second, as OpenVZ's kernels were built.
_HZ = (100, 250, 1000)

# Clocks of the machines that ran kernels counting cycles, in hertz. They tell a jiffy of 1 ms from one of 4 or 10 ms.
_SLOWEST, _FASTEST = 1_000_000_000, 5_000_000_000

# A shorter uptime, in jiffies, is too coarse: at this one a jiffy more or less is a ten-thousandth.
_LONG_ENOUGH = 10_000

# How far a quotient may be from a second's nanoseconds, beside that jiffy. So narrow, as 2.4999 GHz at 250 Hz looks
# like nanoseconds at 100 Hz otherwise.
_TOLERANCE = 1e-5


class Units(NamedTuple):
    """How many units, and how many jiffies, make a second; `unit` is "nanoseconds" or "cycles"."""

    unit: str
    per_second: int
    hz: int
    decided_by: str  # the file


class Stats(NamedTuple):
    """What /proc/vz/stats says of time. `cycles_per_jiffy` are nanoseconds on kernels that count these."""

    cycles_per_jiffy: int
    jiffies_per_second: int


def parse_stats(text: str) -> Stats | None:
    """Return what /proc/vz/stats says of time; None where it lacks either figure, is cut within, or says 0."""
    found = dict(re.findall(r"(?m)^[ \t]*(cycles_per_jiffy|jiffies_per_second):[ \t]*([0-9]{1,20})[ \t]*\n", text))
    stats = Stats(int(found.get("cycles_per_jiffy", 0)), int(found.get("jiffies_per_second", 0)))
    return stats if all(stats) else None


def decide(rows: Sequence[Row], stats: Stats | None) -> Units | None:
    """Return the units of these rows; None where there is no row and nothing to decide on.

    Raises SourceRubbish where neither file tells, or the two contradict each other: then no figure is right.
    """
    if stats:
        return _by_stats(rows, stats)
    if not rows:
        return None
    settled = _settled(rows)
    if not settled:
        longest = max(row.uptime_jiffies for row in rows)
        raise SourceRubbish(
            f"too early to tell the unit of /proc/vz/vestat: no /proc/vz/stats says it, and no container is up for "
            f"more than {longest} jiffies; it takes {_LONG_ENOUGH}"
        )
    row = _typical(settled)
    per_jiffy = row.uptime / row.uptime_jiffies
    nanosecond_hz = _nanosecond_hz(row)
    clocks = [hz for hz in _HZ if _SLOWEST <= per_jiffy * hz <= _FASTEST]
    if nanosecond_hz and not set(clocks) - {nanosecond_hz}:  # at the same HZ, cycles of 1.0 GHz are nanoseconds
        return Units("nanoseconds", NANOSECONDS, nanosecond_hz, "/proc/vz/vestat")
    if nanosecond_hz or len(clocks) != 1:
        raise SourceRubbish(
            f"can't tell the unit of /proc/vz/vestat: {per_jiffy:.1f} to a jiffy is "
            + (f"nanoseconds at {nanosecond_hz} Hz or " if nanosecond_hz else "")
            + "a clock of "
            + " or ".join(f"{per_jiffy * hz / 1e9:.2f} GHz at {hz} Hz" for hz in _HZ if hz != nanosecond_hz)
            + "; load the module that makes /proc/vz/stats (vzstat or vzmon), which says"
        )
    (hz,) = clocks
    # To 0.1 MHz: no uptime tells more, and a restarted exporter must find the same, or counters would go backwards.
    return Units("cycles", int(round(per_jiffy * hz, -5)), hz, "/proc/vz/vestat")


def _by_stats(rows: Sequence[Row], stats: Stats) -> Units:
    per_second, hz = stats.cycles_per_jiffy * stats.jiffies_per_second, stats.jiffies_per_second
    # Kernels that count nanoseconds make it of whole microseconds, jiffies_to_usecs(1) * 1000: at 300 Hz it is 3333000.
    nanoseconds = stats.cycles_per_jiffy == 1_000_000 // hz * 1000
    settled = _settled(rows)
    if settled:
        row = _typical(settled)
        quotient = row.uptime / row.uptime_jiffies * hz
        # Cycles may be off on their own: a container that was migrated brings its uptime in cycles of another clock.
        if nanoseconds != (_nanosecond_hz(row) == hz) and not 0.9 < quotient / per_second < 1.1:
            raise SourceRubbish(
                f"/proc/vz/stats says {stats.cycles_per_jiffy} to a jiffy and {hz} jiffies to a second, but "
                f"/proc/vz/vestat has {row.uptime} to {row.uptime_jiffies} jiffies"
            )
    if nanoseconds:
        return Units("nanoseconds", NANOSECONDS, hz, "/proc/vz/stats")
    return Units("cycles", per_second, hz, "/proc/vz/stats")


def _settled(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.uptime_jiffies >= _LONG_ENOUGH]


def _typical(rows: Sequence[Row]) -> Row:
    """Return the row in the middle, so that a migrated container, off on its own, doesn't decide."""
    middle = median_low(row.uptime / row.uptime_jiffies for row in rows)
    return next(row for row in rows if row.uptime / row.uptime_jiffies == middle)


def _nanosecond_hz(row: Row) -> int | None:
    """Return the HZ at which this row's quotient is exactly a jiffy's nanoseconds; None if it is at none."""
    tolerance = _TOLERANCE + 1 / row.uptime_jiffies
    per_jiffy = row.uptime / row.uptime_jiffies
    return next((hz for hz in _HZ if abs(per_jiffy * hz / NANOSECONDS - 1) <= tolerance), None)
