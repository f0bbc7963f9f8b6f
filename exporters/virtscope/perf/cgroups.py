"""The cgroups to be counted, found as they come and go, in the hierarchy that perf_event counts by.

In version 2's counting needs no controller to be turned on: Documentation/admin-guide/cgroup-v2.rst, "perf_event".

By hand: `find /sys/fs/cgroup -type d` for the paths, and for one of them `perf stat -a -e cycles -G machine.slice/web`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from virtscope.toolkit.hierarchy import Folders, hierarchy, label

CONTROLLER = "perf_event"


class Cgroup(NamedTuple):
    """A cgroup in its lifetime: another one made later under the same path has another inode.

    The inode stays its own for as long as a counter of the cgroup is open, whatever happens to its folder.
    """

    path: str  # below the mount point, such as "/machine.slice/web.scope"; as label() makes it
    inode: int


class Cgroups:
    """Finds the chosen cgroups, and opens their folders: the kernel is given a cgroup as a descriptor of its folder."""

    def __init__(self, procfs: Path, include: Sequence[str], exclude: Sequence[str]) -> None:
        """`include` and `exclude` are globs over paths, as Folders takes them; raises GlobError."""
        self._procfs = procfs
        self._any = bool(include)
        self._chosen = Folders(include, exclude)
        self._folders: dict[Cgroup, str] = {}  # of the last find()

    def find(self) -> list[Cgroup]:
        """Return the chosen cgroups that are there now, in the order of their paths.

        Raises SourceUnavailable where no hierarchy is mounted that perf_event could count by.
        """
        if not self._any:
            return []
        found = self._chosen.walk(hierarchy(self._procfs, CONTROLLER).root)
        self._folders = {Cgroup(label(each.path), each.inode): each.folder for each in found}
        # A name may be what another one, which isn't UTF-8, is escaped to. Their series would be the same.
        first: dict[str, Cgroup] = {}
        for cgroup in sorted(self._folders):
            first.setdefault(cgroup.path, cgroup)
        return list(first.values())

    def open(self, cgroup: Cgroup) -> int:
        """Return a descriptor, for the caller to close, of the folder of a cgroup that the last find() returned.

        Raises FileNotFoundError where it has gone meanwhile, also if another one has its name now.
        """
        folder = self._folders[cgroup]
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if os.fstat(descriptor).st_ino != cgroup.inode:
            os.close(descriptor)
            raise FileNotFoundError(errno.ENOENT, "another cgroup has its name", folder)
        return descriptor
