"""Last-level cache occupancy and memory traffic of each resctrl group, measured by the processor.

Layout and meaning: Documentation/filesystems/resctrl.rst; the same for Intel's RDT, AMD's QoS and Arm's MPAM. A control
group is the mount point itself or a folder in it, a monitoring group a folder in a control group's mon_groups/. Each
has mon_data/mon_L3_<cache id>/ with a file for each value. Where a cache's nodes have folders of their own in there
(Sub-NUMA Clusters), the files next to these folders hold their sum.

By hand: `grep . /sys/fs/resctrl/mon_data/mon_L3_*/*`
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.toolkit.bounded import read_text
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable
from virtscope.toolkit.families import family

# Exposed values by file.
_METRICS = {
    "llc_occupancy": (
        "resctrl_llc_occupancy_bytes",
        "Last-level cache occupied by the group's tasks, in bytes, its monitoring groups included.",
    ),
    "mbm_total_bytes": (
        "resctrl_memory_bytes_total",
        "Bytes moved between this cache and memory for the group's tasks, its monitoring groups included.",
    ),
    "mbm_local_bytes": (
        "resctrl_local_memory_bytes_total",
        "Part of resctrl_memory_bytes_total moved to or from memory of the cache's own node, in bytes.",
    ),
}

_NO_GROUPS = {"info", "mon_data", "mon_groups"}
_CACHE = re.compile(r"mon_L3_([0-9]+)")


class NoValue(Enum):
    """A word of the kernel instead of a value."""

    UNAVAILABLE = "Unavailable"  # temporarily
    ERROR = "Error"  # unsupported by the hardware
    UNASSIGNED = "Unassigned"  # no counter left for this group


class Monitored(NamedTuple):
    """A group's values at one cache, in bytes by file name, without unsupported ones.

    A control group's values include those of its monitoring groups.
    """

    group: str  # "/" for everything in no other control group, "/web", "/web/mon_groups/db"
    cache: str  # the cache's id, as in /sys/devices/system/cpu/cpu*/cache/index3/id
    values: dict[str, int | NoValue]


class Resctrl:
    """Reads the mounted resctrl."""

    def __init__(self, sysfs: Path) -> None:
        self._mount = sysfs / "fs/resctrl"

    def read(self) -> list[Monitored]:
        """Return the values of every group at every cache.

        Raises SourceUnavailable if resctrl isn't mounted or can't monitor, SourceMalformed if a file has neither a
        number nor a known word.
        """
        if not self._mount.is_dir():
            raise SourceUnavailable(f"{self._mount} is absent: this processor or kernel has no resctrl")
        if not (self._mount / "info").is_dir():
            raise SourceUnavailable(f"resctrl is not mounted: mount -t resctrl resctrl {self._mount}")
        if not (self._mount / "mon_data").is_dir():
            raise SourceUnavailable(f"{self._mount} has no mon_data: this processor can limit its caches, not measure")
        monitored = []
        for group, folder in self._groups():
            for cache in _folders(folder / "mon_data"):
                numbered = _CACHE.fullmatch(cache.name)
                values = _values(cache) if numbered else {}
                if numbered and values:
                    monitored.append(Monitored(group, str(int(numbered[1])), values))
        return monitored

    def _groups(self) -> Iterator[tuple[str, Path]]:
        for control in [self._mount, *(path for path in _folders(self._mount) if path.name not in _NO_GROUPS)]:
            yield self._name(control), control
            for monitoring in _folders(control / "mon_groups"):
                yield self._name(monitoring), monitoring

    def _name(self, folder: Path) -> str:
        path = folder.relative_to(self._mount)
        return "/" + os.fsencode(path).decode(errors="backslashreplace") if path.name else "/"


def parse(text: str) -> int | NoValue:
    """Parse a value; raises ValueError if it is neither a number nor a known word."""
    word = text.strip()
    return int(word) if word.isascii() and word.isdigit() else NoValue(word)


def _folders(folder: Path) -> list[Path]:
    """Return the subfolders, by name; none if the folder has gone."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []


def _values(cache: Path) -> dict[str, int | NoValue]:
    values = {}
    for name in _METRICS:
        try:
            text = read_text(cache / name, "backslashreplace")
            values[name] = parse(text)
        except ValueError:
            raise SourceMalformed(f"{cache / name} says {text[:80]!r}") from None
        except OSError as error:
            # Absent: unsupported by this processor, or the group has gone, possibly while its file was open.
            if error.errno not in {errno.ENOENT, errno.ENODEV}:
                raise
    return values


def families(monitored: Sequence[Monitored]) -> list[Metric]:
    """Return the families of each resctrl group, and of missing values."""
    of_each = [({"group": each.group, "cache": each.cache}, each.values) for each in monitored]
    read = [value for each in monitored for value in each.values.values()]
    return [
        *(
            family(*about, [(labels, _number(values.get(file))) for labels, values in of_each])
            for file, about in _METRICS.items()
        ),
        family(
            "resctrl_missing_values",
            "Values that the kernel reported as Unavailable (now), Error (not measurable here) or Unassigned (no "
            "counter for the group).",
            [({"reason": word.value.lower()}, read.count(word)) for word in NoValue],
        ),
    ]


def _number(value: int | NoValue | None) -> int | None:
    return value if isinstance(value, int) else None
