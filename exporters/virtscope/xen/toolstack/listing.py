"""`xl list -v -c`, `xl list -v`, `xl list` and `xm list`: which domains there are.

    Name                                        ID   Mem VCPUs State Time(s)   UUID  Reason-Code Security Label  Cpupool
    web01                                        1    96     1     -b----       7.8 586d02b6-...  -   -           Pool-0

The format is that of list_domains() in Xen's tools/xl/xl_info.c (4.1 to 4.8: tools/libxl/xl_cmdimpl.c) and, for xm, of
xm_brief_list() in tools/python/xen/xm/main.py.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from virtscope.toolkit.sources import SourceRubbish
from virtscope.xen.toolstack import columns

_UUID = re.compile(rb" ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?= )")
_SECONDS = re.compile(rb"[0-9]{1,20}\.[0-9]")
_LONGEST = 8192  # bytes of a line; XenStore's values, as names are, have up to 4096
_STATE = re.compile(rb"[-rbpscdwS?]{5,10}")


class Listed(NamedTuple):
    """A domain as it is listed."""

    domid: int
    name: str
    cpu_seconds: float
    uuid: str  # "" where it isn't listed: xm, and xl before 4.1
    cpupool: str  # "" likewise: before 4.6


def parse(output: bytes) -> tuple[list[Listed], list[bytes]]:
    """Return the domains, and the lines that are not understood.

    Raises SourceRubbish where there is no header: this is no listing at all.
    """
    lines = output.split(b"\n")
    headers = [number for number, line in enumerate(lines) if line.split()[:2] == [b"Name", b"ID"]]
    if not headers:
        raise SourceRubbish(f"no list of domains, but {output[:200]!r}")
    verbose, pools = b"UUID" in lines[headers[0]], b"Cpupool" in lines[headers[0]]
    domains, unknown = [], []
    for line in filter(None, lines[headers[0] + 1 :]):
        listed = None
        if len(line) <= _LONGEST:
            listed = _verbose_row(line, pools) if verbose else _row(line)
        if listed:
            domains.append(listed)
        else:
            unknown.append(line)
    return domains, unknown


def _row(line: bytes) -> Listed | None:
    row = columns.split(line, 5)
    if row is None:
        return None
    name, (domid, memory, vcpus, state, seconds) = row
    values = columns.numbers([domid, memory, vcpus])
    if values is None or not _STATE.fullmatch(state) or not _SECONDS.fullmatch(seconds):
        return None
    return Listed(values[0], name, float(seconds), "", "")


def _verbose_row(line: bytes, pools: bool) -> Listed | None:
    # From the right: a guest may be called like a row, a CPU pool is named by who runs the host.
    for found in reversed(list(_UUID.finditer(line))):
        listed = _row(line[: found.start()])
        if listed:
            pool = _pool(line[found.end() :]) if pools else b""
            return listed._replace(uuid=found[1].decode(), cpupool=columns.text(pool))
    return None


def _pool(rest: bytes) -> bytes:
    """Return the CPU pool out of "reason label pool", where nothing parts label and pool if the pool's name is long."""
    _, _, rest = rest.lstrip(b" ").partition(b" ")
    rest = rest.lstrip(b" ")
    label = b"-" if rest[:1] == b"-" else rest.split(b" ", 1)[0]  # "-" or, with XSM, such as system_u:object_r:domU_t
    return rest[len(label) :].strip(b" ")
