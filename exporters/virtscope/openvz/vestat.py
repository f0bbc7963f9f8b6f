"""/proc/vz/vestat: CPU time and scheduling latency of every running container, and their unit.

Format: vestat_seq_show() in kernel/ve/vecalls.c of OpenVZ's kernels, 2.6.9 to Virtuozzo 7. A version line padded with
blanks, a header, and a row for each container; the host itself (container 0) has none. Columns have 10 or 20 characters
on 32-bit kernels and 20 on 64-bit ones, but an id may be a UUID that is wider, so rows are split at blanks.

The version line doesn't give the unit. Kernels up to 2.6.2x count CPU cycles, those of RHEL 6 (2.6.32) and later
nanoseconds. /proc/vz/stats gives the unit if it exists. Otherwise it is derived from the rows: each has the container's
uptime in jiffies and in that unit, so their quotient is the units per jiffy. An ambiguous quotient is an error:
4,000,000 may be nanoseconds at 250 Hz or a clock of 4.0 GHz at 1000 Hz.

By hand: `cat /proc/vz/vestat /proc/vz/version`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.openvz.procfs import Procfs, read_optional, read_text, with_end
from virtscope.toolkit.collect import SourceMalformed
from virtscope.toolkit.families import family, info, scalar
from virtscope.toolkit.totals import CPU, Counter, Counters, Totals

log = logging.getLogger(__name__)

# --- The file ---------------------------------------------------------------------------------------------------------

# Two columns are called uptime: the first is in jiffies, the second in the unit of its neighbours.
COLUMNS = ["VEID", "user", "nice", "system", "uptime", "idle", "strv", "uptime", "used", "maxlat", "totlat", "numsched"]


class Row(NamedTuple):
    """A container. `user` to `uptime_jiffies` are jiffies, `idle` to `totlat` nanoseconds or CPU cycles."""

    ctid: str
    user: int
    nice: int
    system: int
    uptime_jiffies: int
    idle: int
    strv: int  # not used by any kernel
    uptime: int
    used: int
    maxlat: int  # longest recent wait
    totlat: int  # sum of all waits
    numsched: int  # number of waits


class Vestat(NamedTuple):
    """The file: version, such as "2.2", rows, number of refused rows, and number of unknown columns."""

    version: str
    rows: tuple[Row, ...]
    refused: int
    unknown_columns: int


def parse(text: str) -> Vestat:
    """Parse the file.

    In any version, unknown columns between or after the known twelve are skipped and counted. Rows that are truncated,
    not numeric or repeat an id are counted. Raises SourceMalformed if version line, header or a known column are
    missing, or if all rows are malformed.
    """
    version_line, _, rest = text.partition("\n")
    word, _, version = version_line.strip().partition(": ")
    if word != "Version" or not version:
        raise SourceMalformed(f"/proc/vz/vestat begins with {version_line[:80]!r}, not with its version")
    header, _, body = rest.partition("\n")
    columns = header.split()
    places = _places(columns)
    if not places:
        raise SourceMalformed(f"/proc/vz/vestat, version {version[:20]}, has the columns {header[:300]!r}")
    *lines, unended = with_end(body, header).split("\n")
    rows: dict[str, Row] = {}
    refused = int(bool(unended.strip()))
    for line in lines:
        row = _row(line, places, len(columns))
        if row is None or row.ctid in rows:
            refused += bool(line.strip())
        else:
            rows[row.ctid] = row
    if refused and not rows:
        raise SourceMalformed(f"every row of /proc/vz/vestat is malformed, the first is {body.lstrip()[:300]!r}")
    return Vestat(version, tuple(rows.values()), refused, len(columns) - len(COLUMNS))


def _places(columns: Sequence[str]) -> list[int]:
    """Return the positions of the known columns; none if one is missing, repeated or out of order."""
    places = [place for place, name in enumerate(columns) if name in COLUMNS]
    return places if columns[:1] == COLUMNS[:1] and [columns[place] for place in places] == COLUMNS else []


def _row(line: str, places: Sequence[int], columns: int) -> Row | None:
    fields = line.split()
    if len(fields) != columns:
        return None
    ctid, *values = fields if columns == len(places) else [fields[place] for place in places]
    # At most 20 digits: the kernel's numbers have 64 bits. bytes.isdigit() accepts only ASCII.
    if not "".join(values).encode().isdigit() or max(map(len, values)) > 20:
        return None
    return Row(ctid, *map(int, values))


# --- Units ------------------------------------------------------------------------------------------------------------

NANOSECONDS = 1_000_000_000

# Jiffies in a second, as OpenVZ's kernels were built.
_HZ = (100, 250, 1000)

# CPU clocks of machines with kernels that count cycles, in hertz; distinguishes a jiffy of 1 ms from 4 or 10 ms.
_SLOWEST, _FASTEST = 1_000_000_000, 5_000_000_000

# Minimum uptime in jiffies, for a precision of 0.01 %.
_LONG_ENOUGH = 10_000

# The kernel prints a negative difference as an unsigned number, which would be centuries.
_NEGATIVE = 1 << 63

# Tolerance of a quotient for nanoseconds, besides that jiffy. Narrow, because otherwise 2.4999 GHz at 250 Hz looks like
# nanoseconds at 100 Hz.
_TOLERANCE = 1e-5


class Units(NamedTuple):
    """Units and jiffies per second; `unit` is "nanoseconds" or "cycles"."""

    unit: str
    per_second: int
    hz: int
    decided_by: str  # the file

    def seconds(self, ticks: int) -> float | None:
        """Convert nanoseconds or cycles; None for a negative difference."""
        return ticks / self.per_second if ticks < _NEGATIVE else None


class Stats(NamedTuple):
    """Units in /proc/vz/stats. `cycles_per_jiffy` are nanoseconds on kernels that count these."""

    cycles_per_jiffy: int
    jiffies_per_second: int


def parse_stats(text: str) -> Stats | None:
    """Parse the units in /proc/vz/stats; None if a value is missing, truncated or 0."""
    found = dict(re.findall(r"(?m)^[ \t]*(cycles_per_jiffy|jiffies_per_second):[ \t]*([0-9]{1,20})[ \t]*\n", text))
    stats = Stats(int(found.get("cycles_per_jiffy", 0)), int(found.get("jiffies_per_second", 0)))
    return stats if all(stats) else None


def decide(rows: Sequence[Row], stats: Stats | None) -> Units | None:
    """Return the units of these rows; None without rows and `stats`.

    Raises SourceMalformed if neither file determines them, or they contradict each other, so that no value is reliable.
    """
    settled = [row for row in rows if row.uptime_jiffies >= _LONG_ENOUGH]
    if stats:
        return _by_stats(settled, stats)
    if not rows:
        return None
    if not settled:
        longest = max(row.uptime_jiffies for row in rows)
        raise SourceMalformed(
            "too early to determine the unit of /proc/vz/vestat: no /proc/vz/stats says it, and no container is up for "
            f"more than {longest} jiffies; it takes {_LONG_ENOUGH}"
        )
    row = _typical(settled)
    per_jiffy = row.uptime / row.uptime_jiffies
    nanosecond_hz = _nanosecond_hz(row)
    clocks = [hz for hz in _HZ if _SLOWEST <= per_jiffy * hz <= _FASTEST]
    if nanosecond_hz and not set(clocks) - {nanosecond_hz}:  # at the same HZ, cycles at 1.0 GHz equal nanoseconds
        return Units("nanoseconds", NANOSECONDS, nanosecond_hz, "/proc/vz/vestat")
    if nanosecond_hz or len(clocks) != 1:
        raise SourceMalformed(
            f"can't determine the unit of /proc/vz/vestat: {per_jiffy:.1f} to a jiffy is "
            + (f"nanoseconds at {nanosecond_hz} Hz or " if nanosecond_hz else "")
            + "a clock of "
            + " or ".join(f"{per_jiffy * hz / 1e9:.2f} GHz at {hz} Hz" for hz in _HZ if hz != nanosecond_hz)
            + "; load the module that makes /proc/vz/stats (vzstat or vzmon), which says"
        )
    (hz,) = clocks
    # To 0.1 MHz, the precision of uptimes. A restarted exporter must find the same clock, or counters would decrease.
    return Units("cycles", int(round(per_jiffy * hz, -5)), hz, "/proc/vz/vestat")


def _by_stats(settled: Sequence[Row], stats: Stats) -> Units:
    per_second, hz = stats.cycles_per_jiffy * stats.jiffies_per_second, stats.jiffies_per_second
    # Kernels that count nanoseconds round it to microseconds, jiffies_to_usecs(1) * 1000: 3333000 at 300 Hz.
    nanoseconds = stats.cycles_per_jiffy == 1_000_000 // hz * 1000
    if settled:
        row = _typical(settled)
        quotient = row.uptime / row.uptime_jiffies * hz
        # Single rows may differ in cycles: a migrated container keeps its uptime in cycles of another clock.
        if nanoseconds != (_nanosecond_hz(row) == hz) and not 0.9 < quotient / per_second < 1.1:
            raise SourceMalformed(
                f"/proc/vz/stats says {stats.cycles_per_jiffy} to a jiffy and {hz} jiffies to a second, but "
                f"/proc/vz/vestat has {row.uptime} to {row.uptime_jiffies} jiffies"
            )
    if nanoseconds:
        return Units("nanoseconds", NANOSECONDS, hz, "/proc/vz/stats")
    return Units("cycles", per_second, hz, "/proc/vz/stats")


def _typical(rows: Sequence[Row]) -> Row:
    """Return the median row, so that a single migrated container doesn't decide."""
    return sorted(rows, key=lambda row: row.uptime / row.uptime_jiffies)[(len(rows) - 1) // 2]


def _nanosecond_hz(row: Row) -> int | None:
    """Return the HZ at which this row's quotient equals a jiffy's nanoseconds; None if there is none."""
    tolerance = _TOLERANCE + 1 / row.uptime_jiffies
    per_jiffy = row.uptime / row.uptime_jiffies
    return next((hz for hz in _HZ if abs(per_jiffy * hz / NANOSECONDS - 1) <= tolerance), None)


# --- Reading ----------------------------------------------------------------------------------------------------------


class VestatReader:
    """Reads /proc/vz/vestat below `procfs` repeatedly.

    The units are determined once: they don't change with a running kernel, and a clock derived slightly differently at
    each read would make counters decrease.
    """

    def __init__(self, procfs: Procfs) -> None:
        self.units: Units | None = None  # None until there are rows
        self._procfs = procfs

    def read(self) -> Vestat:
        """Return the current file; determines the units.

        Raises SourceUnavailable if this isn't OpenVZ or the file isn't readable, SourceMalformed if it is malformed or
        its units can't be determined.
        """
        read = parse(read_text(self._procfs, "vz/vestat"))
        if self.units is None:
            self.units = self._decide(read.rows)
        return read

    def origin(self) -> str:
        """Return the path of the file."""
        return f"{self._procfs}/vz/vestat"

    def _decide(self, rows: Sequence[Row]) -> Units | None:
        text = read_optional(self._procfs, "vz/stats")
        stats = None if text is None else parse_stats(text)
        decided = decide(rows, stats)
        if decided:
            log.info("units decided", extra={"fields": {**decided._asdict(), **(stats._asdict() if stats else {})}})
        return decided


# --- Metrics ----------------------------------------------------------------------------------------------------------

_WAIT: Counter = ("wait", None)
_MODES = ("user", "nice", "system")


def families(vestat: Vestat, units: Units | None, totals: Totals, kernel: str | None, unread: int) -> list[Metric]:
    """Return the families of the host's containers; without times if the units are unknown.

    `totals` include this read. `kernel` is the content of /proc/vz/version, None if absent; `unread` is the number of
    other files that exist but are unreadable.
    """
    made = [
        info(
            "openvz_host_info",
            "Version of the OpenVZ kernel.",
            [] if kernel is None else [{"version": kernel.strip()}],
        ),
        scalar("openvz_host_containers", "Running containers.", len(vestat.rows)),
        info("openvz_vestat_info", "Version of /proc/vz/vestat.", [{"version": vestat.version}]),
        scalar(
            "openvz_vestat_refused_rows",
            "Containers skipped because their row of /proc/vz/vestat was malformed.",
            vestat.refused,
        ),
        scalar(
            "openvz_vestat_unknown_columns",
            "Unknown columns of /proc/vz/vestat, which are skipped.",
            vestat.unknown_columns,
        ),
        scalar(
            "openvz_vestat_unread_files",
            "Existing files of /proc/vz (version, veinfo, latency) that could not be read; the log has the reason.",
            unread,
        ),
    ]
    return made if units is None else [*made, *_totals(vestat, units, totals), *_times(vestat, units)]


def _totals(vestat: Vestat, units: Units, totals: Totals) -> Iterator[Metric]:
    yield info(
        "openvz_vestat_units_info",
        "Unit of /proc/vz/vestat, jiffies per second, and the file that they were derived from.",
        [{"unit": units.unit, "hz": str(units.hz), "decided_by": units.decided_by}],
    )
    yield scalar(
        "openvz_host_containers_cpu_seconds_total",
        "CPU time used by all containers since the exporter's start, in seconds, ended ones included; what these used "
        "after their last read is estimated.",
        totals.with_ends("cpu"),
    )
    waited = totals.with_ends("wait")
    if waited or any(row.totlat for row in vestat.rows):
        yield scalar(
            "openvz_host_containers_scheduling_latency_seconds_total",
            "Time that processes of all containers were runnable without a CPU since the exporter's start, in seconds, "
            "ended containers included; absent if the kernel doesn't count it.",
            waited,
        )


def _times(vestat: Vestat, units: Units) -> Iterator[Metric]:
    rows = [({"ctid": row.ctid}, row) for row in vestat.rows]
    yield family(
        "openvz_container_cpu_seconds_total",
        "CPU time used by the container by mode, in seconds, with the resolution of a jiffy.",
        [
            ({**labels, "mode": mode}, jiffies / units.hz)
            for labels, row in rows
            for mode, jiffies in zip(_MODES, (row.user, row.nice, row.system))
        ],
    )
    yield family(
        "openvz_container_uptime_seconds",
        "Time since the container's start, in seconds.",
        [(labels, row.uptime_jiffies / units.hz) for labels, row in rows],
    )
    yield family(
        "openvz_container_cpu_used_seconds_total",
        "CPU time used by the container, in seconds, with the kernel's finest resolution.",
        [(labels, units.seconds(row.used)) for labels, row in rows],
    )
    yield family(
        "openvz_container_cpu_idle_seconds_total",
        "Idle time of the container's virtual CPUs, in seconds.",
        [(labels, units.seconds(row.idle)) for labels, row in rows],
    )
    # If the kernel counts waits: every container waits at least once within seconds.
    if any(row.maxlat or row.totlat or row.numsched for _, row in rows):
        yield family(
            "openvz_container_scheduling_latency_seconds_total",
            "Time that the container's processes were runnable without a CPU, in seconds; absent if the kernel doesn't "
            "count it.",
            [(labels, units.seconds(row.totlat)) for labels, row in rows],
        )
        yield family(
            "openvz_container_scheduling_latency_max_seconds",
            "Longest recent wait of a process of the container for a CPU, in seconds; absent if the kernel doesn't "
            "count it.",
            [(labels, units.seconds(row.maxlat)) for labels, row in rows],
        )
        yield family(
            "openvz_container_schedulings_total",
            "Context switches to processes of the container; absent if the kernel doesn't count them.",
            [(labels, row.numsched) for labels, row in rows],
        )


def counted(vestat: Vestat, units: Units) -> tuple[dict[str, Counters], dict[str, float]]:
    """Return the containers' counters of which there are totals of the host, and their uptimes in seconds, by ctid."""
    counters: dict[str, Counters] = {}
    uptimes: dict[str, float] = {}
    for row in vestat.rows:
        uptime = units.seconds(row.uptime)
        if uptime is not None:
            uptimes[row.ctid] = uptime
            counters[row.ctid] = {CPU: units.seconds(row.used), _WAIT: units.seconds(row.totlat)}
    return counters, uptimes
