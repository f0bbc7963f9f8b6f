"""A cgroup's memory as the kernel reports it in its folder: its stall (PSI), its usage and its limit.

By hand: `grep . /sys/fs/cgroup/system.slice/memory.{pressure,current,high,max}`; in version 1 memory.usage_in_bytes and
memory.limit_in_bytes, and memory.pressure in the hierarchy of version 2 that systemd mounts besides
(/sys/fs/cgroup/unified).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from virtscope.toolkit.collect import SourceUnavailable
from virtscope.toolkit.hierarchy import hierarchy

FULL = 0.95  # of its limit: reclaim keeps the usage below it by some batches of charges

_USAGE = {1: "memory.usage_in_bytes", 2: "memory.current"}
_LIMITS = {1: ("memory.limit_in_bytes",), 2: ("memory.max", "memory.high")}


def parse_stall(text: str) -> int | None:
    """Return ns in which at least one task of a cgroup waited for memory, by its memory.pressure (kernel's psi.rst).

    None if the text has no such total.
    """
    for line in text.splitlines():
        kind, *fields = line.split()
        total = dict(field.partition("=")[::2] for field in fields).get("total", "") if kind == "some" else ""
        if total.isdecimal():
            return int(total) * 1000
    return None


def parse_bytes(text: str) -> float | None:
    """Return the bytes of a file of one number; "max" is infinite. None if the text is neither."""
    text = text.strip()
    return math.inf if text == "max" else int(text) if text.isdecimal() else None


def without_controller(root: Path, version: int) -> SourceUnavailable | None:
    """Return why version 2's hierarchy charges no memory to cgroups; None if it does."""
    if version == 1 or "memory" in _read(root / "cgroup.controllers").split():
        return None
    return SourceUnavailable(
        f"{root}/cgroup.controllers lacks memory: the kernel was started with cgroup_disable=memory, or built without "
        "CONFIG_MEMCG"
    )


class Folders:
    """The folders of cgroups by their names, which are paths below the mount."""

    def __init__(self, procfs: Path, root: Path, version: int) -> None:
        """`root` is the mount of the memory controller's hierarchy, of this version."""
        self._whole = procfs / "pressure/memory"
        self._root, self._version = root, version
        self._pressures = root if version == 2 else _unified(procfs)
        self._last_whole = ""
        self._stalls: dict[str, int | None] = {}  # as last read

    @property
    def has_pressure(self) -> bool:
        """Whether this kernel measures stalls."""
        return self._pressures is not None and parse_stall(_read(self._whole)) is not None

    def stalled(self, names: Iterable[str]) -> dict[str, int]:
        """Return ns that each of these cgroups has stalled since the last call; those without PSI are left out.

        As long as the whole machine doesn't stall, only new ones are read.
        """
        whole = _read(self._whole)
        changed = not whole or whole.partition("\n")[0] != self._last_whole
        self._last_whole = whole.partition("\n")[0]
        grown, stalls = {}, {}
        for name in names:
            before = self._stalls.get(name)
            now = self._stall(name) if changed or name not in self._stalls else before
            stalls[name] = now
            if now is not None:
                grown[name] = max(0, now - before) if before is not None else 0
        self._stalls = stalls
        return grown

    def _stall(self, name: str) -> int | None:
        if self._pressures is None:
            return None
        folder = Path(f"{self._pressures}{name}")
        # Not every container of version 1 has its tasks in version 2's hierarchy, too.
        if self._version == 1 and "populated 1" not in _read(folder / "cgroup.events"):
            return None
        return parse_stall(_read(folder / "memory.pressure"))

    def usage(self, names: Iterable[str]) -> dict[str, int]:
        """Return the memory of each of these cgroups in bytes, its page cache included; unreadable ones left out."""
        each = {name: parse_bytes(_read(self._folder(name) / _USAGE[self._version])) for name in names}
        return {name: int(used) for name, used in each.items() if used is not None}

    def full(self, names: Iterable[str]) -> frozenset[str]:
        """Return those of these cgroups that are at their own limit."""
        return frozenset(name for name, used in self.usage(names).items() if used >= FULL * self._limit(name))

    def _limit(self, name: str) -> float:
        limits = (parse_bytes(_read(self._folder(name) / file)) for file in _LIMITS[self._version])
        return min((limit for limit in limits if limit is not None), default=math.inf)

    def _folder(self, name: str) -> Path:
        return Path(f"{self._root}{name}")


def own(usage: Mapping[str, int]) -> dict[str, int]:
    """Return each cgroup's usage without that of the given cgroups inside it, which is part of it."""
    found = dict(usage)
    for name, used in usage.items():
        above = next((each for each in map(str, PurePosixPath(name).parents) if each in usage), None)
        if above is not None:
            found[above] -= used
    return found


def grown(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """Return the growth of each usage in bytes, below 0 if it shrank; a new cgroup's is all of its usage."""
    return {name: used - before.get(name, 0) for name, used in now.items()}


def _unified(procfs: Path) -> Path | None:
    """Return the mount of version 2's hierarchy next to version 1's."""
    try:
        found = hierarchy(procfs, "memory_pressure")  # no controller of version 1
    except SourceUnavailable:
        return None
    return found.root


def _read(file: Path) -> str:
    """Return a file's text; nothing if the cgroup has gone, or the kernel refuses (psi=0)."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
