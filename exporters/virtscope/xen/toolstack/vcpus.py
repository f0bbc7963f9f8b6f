"""`xl vcpu-list` and `xm vcpu-list`: where each vCPU may run, and where it ran last.

    Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)
    Domain-0                             0     1    -   --p       0.0  all / all

The format is that of tools/xl/xl_vcpu.c in Xen's source (4.1 to 4.8: tools/libxl/xl_cmdimpl.c), and of
tools/python/xen/xm/main.py. Before Xen 4.5 affinity is hard alone, and "any cpu" is its word for all.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from virtscope.xen.toolstack import columns

_STATE = re.compile(rb"[-r][-b][-p]")
_SECONDS = re.compile(rb"[0-9]{1,20}\.[0-9]")
_CPUS = re.compile(rb"all|none|[0-9]{1,5}(?:[-,^][0-9]{1,5})*")
_WORDS = {b"any cpu": b"all", b"no cpus": b"none"}


class Placement(NamedTuple):
    """Where a vCPU runs."""

    cpu: int | None  # the physical CPU it ran on last; None: the vCPU is offline
    hard: str  # CPUs it may run on: "all", "none" or such as "0-3,7"
    soft: str  # CPUs it is best run on; "" where that isn't told


def parse(output: bytes) -> tuple[dict[int, dict[int, Placement]], list[bytes]]:
    """Return the placements by domid and number of the vCPU, and the lines that are not understood."""
    placements: dict[int, dict[int, Placement]] = {}
    unknown = []
    soft_too = False
    for line in filter(None, output.split(b"\n")):
        if line.rstrip().endswith((b" Affinity", b"(Hard / Soft)")):  # no row ends so, whatever its name
            soft_too = line.rstrip().endswith(b"(Hard / Soft)")
        elif row := _row(line, soft_too):
            domid, vcpu, placement = row
            placements.setdefault(domid, {})[vcpu] = placement
        else:
            unknown.append(line)
    return placements, unknown


def _row(line: bytes, soft_too: bool) -> tuple[int, int, Placement] | None:
    line, _, soft = line.rpartition(b" / ") if soft_too else (line, b"", b"")
    for words, word in _WORDS.items():
        if line.endswith(b" " + words):
            line = line[: -len(words)] + word
    row = columns.split(line, 6)
    if row is None:
        return None
    domid, vcpu, cpu, state, seconds, hard = row[1]
    values = columns.numbers([domid, vcpu, *([] if cpu == b"-" else [cpu])])
    if (
        values is None
        or not _STATE.fullmatch(state)
        or not _SECONDS.fullmatch(seconds)
        or not _CPUS.fullmatch(hard)
        or not _CPUS.fullmatch(soft if soft_too else b"all")
    ):
        return None
    return values[0], values[1], Placement(values[2] if cpu != b"-" else None, hard.decode(), soft.decode())
