"""Disk quotas: /proc/vz/vzquota, used bytes and inodes of each container's private area, and their limits.

Format: vzquota_read_proc() in fs/quota/vzdquota/vzdq_mgmt.c of OpenVZ's kernels up to 2.6.32 (Virtuozzo 7 has no such
file). A header, and three lines for each quota: the container's id and the path, a row of 1k-blocks, and a row of
inodes.

By hand: `cat /proc/vz/vzquota`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.openvz.procfs import Procfs, is_number, read_text, with_end
from virtscope.toolkit.collect import SourceMalformed
from virtscope.toolkit.families import family, scalar

_BLOCK_BYTES = 1024
_COLUMNS = ("usage", "softlimit", "hardlimit", "time", "expire")
_ROWS = ("1k-blocks", "inodes")
_OFF = ("-- started --", "-- stopped --")  # instead of the path: not on yet, and not yet removed

# 0 means unlimited to the kernel. vzctl's "unlimited" is LONG_MAX, of 32 bits on 32-bit hosts. On 64-bit hosts it is
# cut to 32 bits for inodes; blocks are converted to bytes, of 63 or 64 bits.
_UNLIMITED = {0, 2**31 - 1, 2**32 - 1}
_MAX_BLOCKS = 2**53


class Usage(NamedTuple):
    """A container's use of bytes or inodes, and its limits; None: unlimited, or no such column.

    `grace_end` is the Unix time from which on the soft limit is enforced, None while it isn't exceeded; `grace_period`
    is the time in seconds that it may be exceeded.
    """

    used: int | None
    soft_limit: int | None
    hard_limit: int | None
    grace_end: int | None
    grace_period: int | None


class Quota(NamedTuple):
    """A container's quota, and whether it is on, i.e. counted and enforced."""

    ctid: str
    on: bool
    bytes: Usage
    inodes: Usage


class Quotas(NamedTuple):
    """The file: quotas, number of refused lines, and number of unknown columns."""

    quotas: tuple[Quota, ...]
    refused: int
    unknown_columns: int


def parse(text: str) -> Quotas:
    """Parse the file.

    Values are found by the names of their columns. Truncated or malformed lines and incomplete quotas are counted. An
    id may appear twice if others end while the file is read; the last one counts. Raises SourceMalformed if the header
    is missing, no column is known, or every quota is malformed.
    """
    header, _, body = text.partition("\n")
    words = header.split()
    columns = words[2:]
    places = {name: columns.index(name) for name in _COLUMNS if columns.count(name) == 1}
    if words[:2] != ["qid:", "path"] or not places:
        raise SourceMalformed(f"/proc/vz/vzquota begins with {header[:300]!r}")

    quotas: dict[str, Quota] = {}
    ctid, on, rows = "", False, dict[str, Usage]()
    *lines, unended = with_end(body, header).split("\n")
    refused = int(bool(unended.strip()))
    for line in lines:
        head = re.fullmatch(r"([0-9]+): (.*)", line)
        if head:
            refused += bool(ctid)  # the previous quota lacks a row
            ctid, on, rows = head[1], head[2] not in _OFF, {}
            continue
        name, *values = line.split() or [""]
        well_formed = len(values) == len(columns) and all(map(is_number, values))
        if not ctid or name not in _ROWS or name in rows or not well_formed:
            refused += bool(line.strip())
            continue
        size = _BLOCK_BYTES if name == "1k-blocks" else 1
        rows[name] = _usage({column: int(values[place]) for column, place in places.items()}, size)
        if len(rows) == len(_ROWS):
            quotas[ctid] = Quota(ctid, on, rows["1k-blocks"], rows["inodes"])
            ctid = ""
    refused += bool(ctid)
    if refused and not quotas:
        raise SourceMalformed(f"every quota of /proc/vz/vzquota is malformed, the first is {body.lstrip()[:300]!r}")
    return Quotas(tuple(quotas.values()), refused, len(columns) - len(places))


def _usage(values: dict[str, int], size: int) -> Usage:
    def limit(column: str) -> int | None:
        value = values.get(column, 0)
        return None if value in _UNLIMITED or value >= _MAX_BLOCKS else value * size

    used = values.get("usage")
    return Usage(
        None if used is None else used * size,
        limit("softlimit"),
        limit("hardlimit"),
        values.get("time") or None,
        values.get("expire"),
    )


def read(procfs: Procfs) -> Quotas:
    """Return the disk quotas of this procfs; raises like read_text() and parse().

    Without CAP_SYS_ADMIN and CAP_SYS_RESOURCE the file is readable but has no container's quota.
    """
    absence = "this kernel keeps no disk quotas, as that of Virtuozzo 7, or its module vzdquota is not loaded"
    return parse(read_text(procfs, "vz/vzquota", absence=absence))


def families(quotas: Quotas) -> list[Metric]:
    """Return the families of every container's disk quota."""
    of_each = [({"ctid": quota.ctid}, quota) for quota in quotas.quotas]
    made = [
        scalar(
            "openvz_quota_refused_rows", "Malformed lines of /proc/vz/vzquota, and incomplete quotas.", quotas.refused
        ),
        scalar(
            "openvz_quota_unknown_columns",
            "Unknown columns of /proc/vz/vzquota, which are skipped.",
            quotas.unknown_columns,
        ),
        family(
            "openvz_quota_on",
            "1 if the container's disk quota is enforced, 0 while it is set up or removed.",
            [(labels, quota.on) for labels, quota in of_each],
        ),
    ]
    for unit, what, in_unit in (("bytes", "disk space", ", in bytes"), ("inodes", "inodes", "")):
        for field, documentation in (
            ("used", f"{what.capitalize()} used by the container{in_unit}."),
            ("soft_limit", f"Soft limit of the container's {what}{in_unit}; absent if unlimited."),
            ("hard_limit", f"Hard limit of the container's {what}{in_unit}; absent if unlimited."),
        ):
            samples = [(labels, getattr(getattr(quota, unit), field)) for labels, quota in of_each]
            made.append(family(f"openvz_quota_{field}_{unit}", documentation, samples))
    of_both = [
        ({**labels, "limit": unit}, usage)
        for labels, quota in of_each
        for unit, usage in (("bytes", quota.bytes), ("inodes", quota.inodes))
    ]
    return [
        *made,
        family(
            "openvz_quota_grace_period_seconds",
            "Grace period of this soft limit, in seconds.",
            [(labels, usage.grace_period) for labels, usage in of_both],
        ),
        family(
            "openvz_quota_grace_end_timestamp_seconds",
            "Unix time at which the grace period of the exceeded soft limit ends; absent while the limit isn't "
            "exceeded.",
            [(labels, usage.grace_end) for labels, usage in of_both],
        ),
    ]
