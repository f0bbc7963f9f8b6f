"""`xl info` and `xm info`: "key : value" lines about the host.

The keys are those of tools/xl/xl_info.c in Xen's source (4.1 to 4.8: tools/libxl/xl_cmdimpl.c) and of
tools/python/xen/xend/XendNode.py. Memory is in MiB, cut off.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from virtscope.xen.toolstack import columns

_MEGAHERTZ = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,3})?")


class Info(NamedTuple):
    """The host; "" and None: not told."""

    xen_version: str
    scheduler: str  # the one of Pool-0
    cpus: int | None
    cpu_hertz: int | None
    memory_bytes: int | None
    memory_free_bytes: int | None


def parse(output: bytes) -> Info:
    """Return what is known of the host; keys that are not known are passed over."""
    facts = {}
    for line in output.split(b"\n"):
        key, colon, value = line.partition(b":")
        if colon:
            facts[columns.text(key.strip())] = columns.text(value.strip())
    megahertz = facts.get("cpu_mhz", "")
    return Info(
        xen_version="{xen_major}.{xen_minor}{xen_extra}".format_map({"xen_extra": "", **facts})
        if {"xen_major", "xen_minor"} <= facts.keys()
        else "",
        scheduler=facts.get("xen_scheduler", ""),
        cpus=_number(facts, "nr_cpus"),
        cpu_hertz=round(float(megahertz) * 1_000_000) if _MEGAHERTZ.fullmatch(megahertz) else None,
        memory_bytes=_mebibytes(facts, "total_memory"),
        memory_free_bytes=_mebibytes(facts, "free_memory"),
    )


def _number(facts: dict[str, str], key: str) -> int | None:
    return columns.number(facts.get(key, "").encode())


def _mebibytes(facts: dict[str, str], key: str) -> int | None:
    mebibytes = _number(facts, key)
    return None if mebibytes is None else mebibytes << 20
