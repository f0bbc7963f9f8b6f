"""What the processor measures of its last-level caches for each resctrl group: occupancy and memory traffic.

Layout and meaning: Documentation/arch/x86/resctrl.rst. A group with tasks or CPUs of its own is a folder below the
mount point, a monitoring group one below its mon_groups/; each has mon_data/mon_L3_<id>/ with a file per figure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from virtscope.shell.sources import SourceRubbish, SourceUnavailable

FIGURES = ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")

# What the kernel prints in place of a figure: the processor has none at this moment, or for this group.
_NO_FIGURE = {"Unavailable", "Error", "Unassigned"}

_NO_GROUPS = {"info", "mon_data", "mon_groups"}


class Monitored(NamedTuple):
    """A group's figures at one cache, in bytes; None: the processor doesn't give this one, or not now."""

    group: str  # "" for what is in no group, "web", or "web/mon_groups/db" for a monitoring group
    cache: str  # the cache's id
    llc_occupancy: int | None
    mbm_total_bytes: int | None
    mbm_local_bytes: int | None


class Resctrl:
    """Reads resctrl where it is mounted."""

    def __init__(self, sysfs: Path) -> None:
        self._mount = sysfs / "fs/resctrl"

    def read(self) -> list[Monitored]:
        """Return every group's figures at every cache.

        Raises SourceUnavailable where resctrl isn't mounted or monitors nothing, SourceRubbish where a file holds
        neither a number nor one of the kernel's words for none.
        """
        if not (self._mount / "mon_data").is_dir():
            raise SourceUnavailable(
                f"resctrl is not mounted at {self._mount}, or its processor monitors no cache; "
                f"mount -t resctrl resctrl {self._mount}"
            )
        return [
            _monitored(name, cache)
            for name, folder in self._groups()
            for cache in _folders(folder / "mon_data")
            if cache.name.startswith("mon_L3_")
        ]

    def _groups(self) -> Iterator[tuple[str, Path]]:
        for control in [self._mount, *(path for path in _folders(self._mount) if path.name not in _NO_GROUPS)]:
            yield _name(self._mount, control), control
            for monitoring in _folders(control / "mon_groups"):
                yield _name(self._mount, monitoring), monitoring


def _name(mount: Path, folder: Path) -> str:
    return "" if folder == mount else os.fsencode(folder.relative_to(mount)).decode(errors="backslashreplace")


def _folders(folder: Path) -> list[Path]:
    """Return the folders in this one, by name; none where it has gone meanwhile."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []


def _monitored(group: str, cache: Path) -> Monitored:
    return Monitored(group, cache.name[len("mon_L3_") :], *(_figure(cache / name) for name in FIGURES))


def _figure(path: Path) -> int | None:
    try:
        text = path.read_text(errors="backslashreplace").strip()
    except FileNotFoundError:  # this processor doesn't have it, or the group has gone
        return None
    if text in _NO_FIGURE:
        return None
    if not text.isascii() or not text.isdigit():
        raise SourceRubbish(f"{path} says {text[:80]!r}")
    return int(text)
