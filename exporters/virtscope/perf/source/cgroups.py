"""The cgroups to be counted, found as they come and go, in the hierarchy that perf_event counts by.

That is the version 1 hierarchy with the controller perf_event where one is mounted, else version 2's, where counting
needs no controller to be turned on: Documentation/admin-guide/cgroup-v2.rst, "perf_event".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from pathlib import Path
from typing import NamedTuple

from virtscope.shell.sources import SourceUnavailable

_DEEPEST = 16  # levels; systemd with nested containers has about eight


class Cgroup(NamedTuple):
    """A cgroup in its lifetime: another one made later under the same path has another inode."""

    path: str  # from the hierarchy's root, such as "/machine.slice/web.scope"
    inode: int


class Cgroups:
    """Keeps the folders of the chosen cgroups open: their descriptors are how the kernel is told which one is meant."""

    def __init__(self, procfs: Path, include: Sequence[str], exclude: Sequence[str]) -> None:
        """`include` and `exclude` are globs over whole paths, in which * also stands for /."""
        self._procfs = procfs
        self._include = _any_of(include)
        self._exclude = _any_of(exclude)
        self._folders: dict[Cgroup, int] = {}

    def find(self) -> dict[Cgroup, int]:
        """Return the chosen cgroups that are there now, in the order of their paths, with their folders' descriptors.

        The descriptors are closed by a later find(), once their cgroup is gone. Raises SourceUnavailable where no
        hierarchy is mounted that perf_event could count by.
        """
        if not self._include:
            return {}
        found: dict[Cgroup, int] = {}
        for path, folder in self._chosen(hierarchy(self._procfs)):
            try:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # it has gone meanwhile
            cgroup = Cgroup(path, os.fstat(descriptor).st_ino)
            kept = self._folders.pop(cgroup, None)
            if kept is not None:
                os.close(descriptor)
            found[cgroup] = descriptor if kept is None else kept
        self.close()
        self._folders = dict(found)
        return found

    def close(self) -> None:
        """Close every folder."""
        while self._folders:
            os.close(self._folders.popitem()[1])

    def _chosen(self, root: Path) -> Iterator[tuple[str, str]]:
        assert self._include
        waiting = [("", os.fspath(root))]
        while waiting:
            path, folder = waiting.pop()
            try:
                with os.scandir(folder) as entries:
                    below = sorted(
                        (entry.name for entry in entries if entry.is_dir(follow_symlinks=False)), reverse=True
                    )
            except FileNotFoundError:
                continue
            if path and self._include.fullmatch(path) and not (self._exclude and self._exclude.fullmatch(path)):
                yield path, folder
            if path.count("/") < _DEEPEST:
                waiting += [(f"{path}/{name}", f"{folder}/{name}") for name in below]


def hierarchy(procfs: Path) -> Path:
    """Return where the hierarchy is mounted that perf_event counts by; raises SourceUnavailable where none is."""
    versions: dict[str, Path] = {}
    for line in (procfs / "self/mountinfo").read_text(errors="surrogateescape").splitlines():
        # ID parent major:minor root mount-point options optional... - type source super-options
        before, _, after = line.partition(" - ")
        words, kind = before.split(" "), after.split(" ")
        mounted = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), words[4]))
        if kind[0] == "cgroup" and "perf_event" in kind[-1].split(","):
            versions["v1"] = mounted
        elif kind[0] == "cgroup2":
            versions.setdefault("v2", mounted)
    for version in ("v1", "v2"):
        if version in versions:
            return versions[version]
    raise SourceUnavailable(
        "no cgroup2 is mounted, nor the perf_event controller of version 1: no cgroup can be counted"
    )


def _any_of(globs: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(translate(glob) for glob in globs)) if globs else None
