"""Parses the output of `xl` and `xm` about the host, CPU pools, schedulers' shares and caches.

`xl info` and `xm info` are "key : value" lines; memory is in MiB, rounded down.

`xl cpupool-list`, `sched-credit`, `sched-credit2` and `sched-rtds` show CPU pools and domains' shares. A scheduler's
command prints only the pools that use it, possibly nothing. xl 4.1 and xm print no line for the pool; credit2 has caps
since Xen 4.10.

    Cpupool Pool-0: tslice=30ms ratelimit=1000us migration-delay=0us
    Name                                ID Weight  Cap
    web01                                1    512   30

`xl cpupool-list -c` shows each pool's CPUs:

    Name               CPU list
    Pool-0             0,1,2,3

`xl psr-cmt-show` shows each domain's share of the last-level cache and of the memory's bandwidth, per socket. Bandwidth
is measured over 10 ms, in KB/s; a KB has 1024 bytes.

    Total RMID: 71
    Name                                        ID        Socket 0        Socket 1
    Total L3 Cache Size                                   30720 KB        30720 KB
    web01                                        1         2592 KB         4032 KB

Formats: xl_info.c, xl_sched.c, xl_cpupool.c and xl_psr.c in Xen's tools/xl (4.1 to 4.8: tools/libxl/xl_cmdimpl.c),
tools/python/xen/xend/XendNode.py and tools/python/xen/xm/main.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from virtscope.xen.model import Host, Pool, Share, Timing, decoded, number
from virtscope.xen.xl_domains import NUMBER, parse_rows, split_columns

SCHEDULER_COMMANDS = {"credit": "sched-credit", "credit2": "sched-credit2", "rtds": "sched-rtds"}
PSR_KINDS = ("cache-occupancy", "total-mem-bandwidth", "local-mem-bandwidth")

_MEGAHERTZ = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,3})?")

# A guest may be called Name ID, but its row has numbers.
_SHARE_TITLES = {b"Weight", b"Cap", b"Period", b"Budget", b"Slice", b"Latency", b"Extra", b"Extratime"}
_PARAMETER = re.compile(rb"[a-z-]+=[A-Za-z0-9]+")
_TIME = re.compile(rb"(tslice|ratelimit)=([0-9]{1,10})(ms|us)")
_IN_A_SECOND = {b"ms": 1000, b"us": 1_000_000}
_ANY = re.compile(rb".*", re.DOTALL)
_CPUS, _ACTIVE = re.compile(rb"[0-9]{1,4}"), re.compile(rb"[yn]")
_CPU_LIST = re.compile(r" *((?:[0-9]{1,4}(?:,[0-9]{1,4})*)?)")

_PSR_UNIT = re.compile(rb"KB(?:/s)?")
_PSR_PASSED_OVER = (b"Total RMID:", b"Total L3 Cache Size ")


def parse_info(output: bytes) -> Host:
    """Return the host's values; unknown keys are ignored."""
    facts = {}
    for line in output.split(b"\n"):
        key, colon, value = line.partition(b":")
        if colon:
            facts[decoded(key.strip())] = decoded(value.strip())
    megahertz = facts.get("cpu_mhz", "")

    def numeric(key: str, unit: int = 1) -> int | None:
        value = number(facts.get(key, "").encode())
        return None if value is None else value * unit

    return Host(
        xen_version=facts["xen_major"] + "." + facts["xen_minor"] + facts.get("xen_extra", "")
        if {"xen_major", "xen_minor"} <= facts.keys()
        else None,
        scheduler=facts.get("xen_scheduler", ""),
        cpus=numeric("nr_cpus"),
        cpu_hertz=round(float(megahertz) * 1_000_000) if _MEGAHERTZ.fullmatch(megahertz) else None,
        memory_bytes=numeric("total_memory", 1 << 20),
        memory_free_bytes=numeric("free_memory", 1 << 20),
    )


def parse_pools(output: bytes) -> tuple[list[Pool], list[bytes]]:
    """Return the CPU pools, and lines that can't be parsed."""
    lines = [line for line in output.split(b"\n") if line.split()[:2] != [b"Name", b"CPUs"]]
    return parse_rows(lines, _pool_row)


def _pool_row(line: bytes) -> Pool | None:
    row = split_columns(line, [_CPUS, _ANY, _ACTIVE, _ANY])
    return Pool(row[0], decoded(row[1][1]), int(row[1][0])) if row else None


def parse_pool_cpus(output: bytes, names: Sequence[str]) -> dict[str, frozenset[int]]:
    """Return the physical CPUs of the CPU pools of these names, from `xl cpupool-list -c`.

    The names are needed, as a long one has no blank before the first CPU.
    """
    pools = {}
    for line in output.split(b"\n"):
        text = decoded(line)
        for name in names:
            found = _CPU_LIST.fullmatch(text[len(name) :]) if text.startswith(name) else None
            if found:
                pools[name] = frozenset(map(int, filter(None, found[1].split(","))))
    return pools


def parse_shares(output: bytes) -> tuple[dict[int, Share], dict[str, Timing], list[bytes]]:
    """Return the domains' shares by domid, the pools' timings by name, and lines that can't be parsed."""
    shares: dict[int, Share] = {}
    timings: dict[str, Timing] = {}
    unknown = []
    header: list[bytes] = []
    cpupool = ""
    for line in filter(None, output.split(b"\n")):
        pool = _pool(line)
        if pool:
            cpupool, timings[pool[0]] = pool[0], pool[1]
        elif (words := line.split())[:2] == [b"Name", b"ID"] and _SHARE_TITLES.issuperset(words[2:]):
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
    times = {found[1]: int(found[2]) / _IN_A_SECOND[found[3]] for found in map(_TIME.fullmatch, parameters) if found}
    return decoded(head), Timing(times.get(b"tslice"), times.get(b"ratelimit") or None)


def _share(line: bytes, header: list[bytes]) -> tuple[int, Share] | None:
    row = split_columns(line, [_ANY] * (len(header) - 1)) if header else None
    if row is None:
        return None
    cells = dict(zip(header[1:], row[1]))
    domid = number(cells[b"ID"])
    if domid is None:
        return None
    known = {
        title: number(cells[title])
        for title in (b"Weight", b"Cap", b"Period", b"Budget")
        # xm prints -1 for unknown.
        if title in cells and cells[title] != b"-1"
    }
    if None in known.values():
        return None
    period, budget = (None if (time := known.get(title)) is None else time / 1e6 for title in (b"Period", b"Budget"))
    return domid, Share(known.get(b"Weight"), known.get(b"Cap"), period, budget)


def parse_psr(output: bytes) -> tuple[dict[int, dict[int, int]], list[bytes]]:
    """Return bytes, or bytes per second, by domid and socket, and lines that can't be parsed.

    xl silently omits sockets that it can't read, so the sockets of the others are unknown then.
    """
    sizes: dict[int, dict[int, int]] = {}
    unknown = []
    sockets: list[int] = []
    for line in filter(None, output.split(b"\n")):
        words = line.split()
        if words[:2] == [b"Name", b"ID"] and words[-2:-1] == [b"Socket"]:  # a row ends in a unit, whatever its name
            sockets = [int(each) for each in words[3::2]] if all(map(NUMBER.fullmatch, words[3::2])) else []
        elif sockets and (row := _psr_row(line, len(sockets))):
            sizes[row[0]] = dict(zip(sockets, row[1]))
        elif not line.startswith(_PSR_PASSED_OVER):
            unknown.append(line)
    return sizes, unknown


def _psr_row(line: bytes, sockets: int) -> tuple[int, list[int]] | None:
    row = split_columns(line, [NUMBER, *([NUMBER, _PSR_UNIT] * sockets)])
    return (int(row[1][0]), [int(value) * 1024 for value in row[1][1::2]]) if row else None
