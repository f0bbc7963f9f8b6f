"""Finds the cgroups to count, in the hierarchy of perf_event.

With version 2 no controller needs to be enabled: Documentation/admin-guide/cgroup-v2.rst, "perf_event".

By hand: `find /sys/fs/cgroup -type d` for the paths, and for one of them `perf stat -a -e cycles -G machine.slice/web`.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from virtscope.toolkit.hierarchy import Folders, hierarchy, label

CONTROLLER = "perf_event"


class Cgroup(NamedTuple):
    """A cgroup; a later one at the same path has another inode.

    The inode isn't reused while a counter of the cgroup is open, even if its folder is deleted.
    """

    path: str  # below the mount point, such as "/machine.slice/web.scope"; as label() makes it
    inode: int


class Cgroups:
    """Finds the chosen cgroups, and opens their folders: perf_event_open() takes a folder's descriptor."""

    def __init__(self, procfs: Path, include: Sequence[str], exclude: Sequence[str]) -> None:
        """`include` and `exclude` are globs over paths, as for Folders; raises GlobError."""
        self._procfs = procfs
        self._any = bool(include)
        self._chosen = Folders(include, exclude)
        self._folders: dict[Cgroup, str] = {}  # of the last find()

    def find(self) -> list[Cgroup]:
        """Return the existing chosen cgroups, ordered by path.

        Raises SourceUnavailable if no hierarchy for perf_event is mounted.
        """
        if not self._any:
            return []
        found = self._chosen.walk(hierarchy(self._procfs, CONTROLLER).root)
        self._folders = {Cgroup(label(each.path), each.inode): each.folder for each in found}
        # A name may equal the escaped form of another one, so that their series would collide.
        first: dict[str, Cgroup] = {}
        for cgroup in sorted(self._folders):
            first.setdefault(cgroup.path, cgroup)
        return list(first.values())

    def open(self, cgroup: Cgroup) -> int:
        """Open the folder of a cgroup of the last find(); the caller closes the descriptor.

        Raises FileNotFoundError if it has gone, even if another one has its name now.
        """
        folder = self._folders[cgroup]
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if os.fstat(descriptor).st_ino != cgroup.inode:
            os.close(descriptor)
            raise FileNotFoundError(errno.ENOENT, "another cgroup has its name", folder)
        return descriptor
