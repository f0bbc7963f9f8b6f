"""/proc/vz/latency: how long the whole host's processes wait for a CPU, for memory, and for pages from disk.

Format: latency_seq_show() in kernel/ve/vzstat.c of OpenVZ's kernels, versions 2.5 and 2.6. Below "Latencies:" a header
and a row for each kind of wait: longest recent wait, total, and count. The rest is skipped: averages, and the parts of
alocirq. Times are in the unit of /proc/vz/vestat, given by /proc/vz/stats of the same kernel module.

By hand: `cat /proc/vz/latency`.
"""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import Metric

from virtscope.openvz.procfs import is_number
from virtscope.openvz.vestat import Units
from virtscope.toolkit.families import family, scalar

_COLUMNS = ["Type", "Lat", "Total_lat", "Calls"]

# Kernels that count nanoseconds still count these two in cycles (do_swap_page() and __do_fault() in mm/memory.c of
# 2.6.32), and no file has the cycles per second.
_CYCLES_ALWAYS = {"swap_in", "page_in"}


class Wait(NamedTuple):
    """A kind of wait: the recent `longest` and the `total` in nanoseconds or CPU cycles, and the number of `calls`."""

    kind: str
    longest: int
    total: int
    calls: int


class Latency(NamedTuple):
    """The file: its kinds of wait, and the number of malformed rows."""

    waits: tuple[Wait, ...]
    refused: int


def parse(text: str) -> Latency:
    """Parse the file; never fails. Columns after the known ones are skipped.

    Rows that are truncated, not numeric or repeat a kind are refused, as is a table without a known header.
    """
    _, found, rest = text.partition("\nLatencies:\n")
    header, _, body = rest.partition("\n")
    table, ended, _ = body.partition("\n\n")
    rows = table.split("\n")
    # Without a blank line after it, the last row may be truncated.
    refused = 0 if ended else int(bool(rows.pop().strip()))
    columns = header.split()
    if not found or columns[: len(_COLUMNS)] != _COLUMNS:
        return Latency((), 1)
    waits: dict[str, Wait] = {}
    for row in rows:
        kind, *values = row.split() or [""]
        well_formed = (
            kind.endswith(":") and kind not in waits and len(values) == len(columns) - 1 and all(map(is_number, values))
        )
        if well_formed:
            waits[kind] = Wait(kind[:-1], *map(int, values[:3]))
        else:
            refused += bool(row.strip())
    return Latency(tuple(waits.values()), refused)


def families(latency: Latency, units: Units | None) -> list[Metric]:
    """Return the families of the host's waits; without times if the unit is unknown."""
    waits = [({"type": wait.kind}, wait) for wait in latency.waits]
    in_seconds = [
        (labels, wait.total / units.per_second, wait.longest / units.per_second)
        for labels, wait in waits
        if units and (units.unit == "cycles" or wait.kind not in _CYCLES_ALWAYS)
    ]
    return [
        family(
            "openvz_host_latency_seconds_total",
            "Time that processes of the whole host waited, by type of wait, in seconds; absent if the unit is unknown.",
            [(labels, total) for labels, total, _ in in_seconds],
        ),
        family(
            "openvz_host_latency_max_seconds",
            "Longest recent wait of a process of the whole host, by type of wait, in seconds; absent if the unit is "
            "unknown.",
            [(labels, longest) for labels, _, longest in in_seconds],
        ),
        family(
            "openvz_host_latency_calls_total",
            "Waits of processes of the whole host, by type of wait.",
            [(labels, wait.calls) for labels, wait in waits],
        ),
        scalar("openvz_latency_refused_rows", "Malformed rows of /proc/vz/latency.", latency.refused),
    ]
