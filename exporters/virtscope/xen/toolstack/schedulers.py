"""`xl cpupool-list`, `sched-credit`, `sched-credit2` and `sched-rtds`: CPU pools, and what their schedulers give whom.

    Cpupool Pool-0: tslice=30ms ratelimit=1000us migration-delay=0us
    Name                                ID Weight  Cap
    web01                                1    512   30

The format is that of tools/xl/xl_sched.c and xl_cpupool.c in Xen's source (4.1 to 4.8: tools/libxl/xl_cmdimpl.c), and
of tools/python/xen/xm/main.py. A scheduler's command prints those pools that use it: nothing where none does. xl 4.1
and xm print no line for the pool; credit2 has caps since Xen 4.10.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from virtscope.xen.toolstack import columns

COMMANDS = {"credit": "sched-credit", "credit2": "sched-credit2", "rtds": "sched-rtds"}

# A guest may be called Name ID, but its row has numbers.
_TITLES = {b"Weight", b"Cap", b"Period", b"Budget", b"Slice", b"Latency", b"Extra", b"Extratime"}
_PARAMETER = re.compile(rb"[a-z-]+=[A-Za-z0-9]+")
_TIME = re.compile(rb"(tslice|ratelimit)=([0-9]{1,10})(ms|us)")
_UNITS = {b"ms": 1000, b"us": 1_000_000}  # in a second
_MOST_CPUS = 4  # digits


class Pool(NamedTuple):
    """A CPU pool."""

    name: str
    cpus: int
    scheduler: str


class Timing(NamedTuple):
    """How long a scheduler lets a vCPU run, in seconds; None: it has no such limit or doesn't tell."""

    timeslice: float | None
    ratelimit: float | None


class Share(NamedTuple):
    """What a scheduler grants a domain. None: this scheduler has no such thing, or doesn't tell."""

    weight: int | None = None
    cap: int | None = None  # percent of a CPU; 0: no cap
    period: float | None = None  # seconds; each vCPU may run `budget` of each `period`
    budget: float | None = None
    cpupool: str = ""  # the CPU pool under which it is listed; "" before Xen 4.2


def parse_pools(output: bytes) -> tuple[list[Pool], list[bytes]]:
    """Return the CPU pools, and the lines that are not understood."""
    pools, unknown = [], []
    for line in filter(None, output.split(b"\n")):
        if line.split()[:2] == [b"Name", b"CPUs"]:
            continue
        row = columns.split(line, 4)
        cpus = columns.number(row[1][0]) if row and len(row[1][0]) <= _MOST_CPUS else None
        if row is None or cpus is None or row[1][2] not in {b"y", b"n"}:
            unknown.append(line)
        else:
            pools.append(Pool(row[0], cpus, columns.text(row[1][1])))
    return pools, unknown


def parse_shares(output: bytes) -> tuple[dict[int, Share], dict[str, Timing], list[bytes]]:
    """Return the domains' shares by domid, the pools' timings by name, and the lines that are not understood."""
    shares: dict[int, Share] = {}
    timings: dict[str, Timing] = {}
    unknown = []
    header: list[bytes] = []
    cpupool = ""
    for line in filter(None, output.split(b"\n")):
        pool = _pool(line)
        if pool:
            cpupool, timings[pool[0]] = pool[0], pool[1]
        elif (words := line.split())[:2] == [b"Name", b"ID"] and _TITLES.issuperset(words[2:]):
            header = words
        elif share := _share(line, header):
            shares[share[0]] = share[1]._replace(cpupool=cpupool)
        else:
            unknown.append(line)
    return shares, timings, unknown


def _pool(line: bytes) -> tuple[str, Timing] | None:
    head, colon, tail = line.partition(b"Cpupool ")[2].rpartition(b":")
    parameters = [] if tail == b" [sched params unavailable]" else tail.split()
    if not line.startswith(b"Cpupool ") or not colon or not all(map(_PARAMETER.fullmatch, parameters)):
        return None  # a guest's row ends in a number, whatever the guest is called
    times = {found[1]: int(found[2]) / _UNITS[found[3]] for found in map(_TIME.fullmatch, parameters) if found}
    return columns.text(head), Timing(times.get(b"tslice"), times.get(b"ratelimit") or None)


def _share(line: bytes, header: list[bytes]) -> tuple[int, Share] | None:
    row = columns.split(line, len(header) - 1) if header else None
    if row is None:
        return None
    cells = dict(zip(header[1:], row[1]))
    domid = columns.number(cells[b"ID"])
    if domid is None:
        return None
    known = {
        title: columns.number(cells[title])
        for title in (b"Weight", b"Cap", b"Period", b"Budget")
        # xm prints -1 where it doesn't know.
        if title in cells and cells[title] != b"-1"
    }
    if None in known.values():
        return None
    return domid, Share(
        known.get(b"Weight"), known.get(b"Cap"), _seconds(known.get(b"Period")), _seconds(known.get(b"Budget"))
    )


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / 1_000_000
