"""Whose each cgroup is: the container, the chosen cgroup or the systemd unit that its tasks run for, by its id.

The kernel's program has ids alone: the inodes of cgroups' folders, of which no two cgroups ever have the same one. By
hand: `find /sys/fs/cgroup -type d -printf '%i %P\\n'`.
"""

from __future__ import annotations

import logging
import re
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from virtscope.toolkit.collect import SourceUnavailable
from virtscope.toolkit.hierarchy import Folders, label
from virtscope.toolkit.layouts import VCPU, begins

log = logging.getLogger(__name__)

HOST = "(host)"
REST = "(rest)"

# A unit of systemd, all that a user runs being one; a slice is none.
_UNIT = re.compile(
    r"/user[.]slice/user-[^/]+[.]slice|/(?:[^/]+[.]slice/)*[^/]+[.](?:service|scope|socket|mount|swap)", re.DOTALL
)

# Whoever may make cgroups can make any number that look like containers. Each shown one has up to 15 series, most of
# them with its name and some with another's: at most 30,000 series, 15 MB.
MOST_SHOWN = 2_000
MOST_NAMES_BYTES = 500_000


class Name(NamedTuple):
    """Whose a cgroup is."""

    # To whom what its tasks wait is counted: the path of a container or chosen cgroup, HOST, or REST, for which there
    # are too many.
    waiting: str
    running: str  # as what it is named to those who wait meanwhile: these, or the path of a systemd unit


class Found(NamedTuple):
    """The cgroups that there are."""

    names: dict[int, Name]  # by id
    shown: frozenset[str]  # the containers and chosen cgroups, HOST, and REST if some of them are left out
    running: frozenset[str]  # all names of those that may run


_OF_HOST = Name(HOST, HOST)
NONE = Found({}, frozenset(), frozenset())


class Names:
    """Finds them again at each scrape."""

    def __init__(self, root: Path, folders: Folders) -> None:
        """`root` is where the hierarchy is mounted; all its `folders` are walked, and choose some beside containers."""
        self._root = root
        self._folders = folders
        self._crowded = False  # as it was logged

    def find(self) -> Found:
        """Return the cgroups that there are; raises SourceUnavailable where the hierarchy is no longer mounted."""
        try:
            names = {self._root.stat().st_ino: _OF_HOST}
        except OSError as error:
            raise SourceUnavailable(f"{error.filename}: {error.strerror}") from None
        beside: dict[str, list[Name]] = {}  # containers, by the unit that they are in or the first name of the path
        vcpus: dict[str, set[int]] = {}  # by guest
        for path, inode, above, _, chosen in self._folders.walk(self._root):
            name = names[above]  # which comes first
            if name.waiting is HOST:  # else it is inside of a container
                if chosen or begins(path):
                    unit = path.split("/", 2)[1] if name.running is HOST else name.running
                    name = Name(label(path), label(path))
                    beside.setdefault(unit, []).append(name)
                elif name.running is HOST and _UNIT.fullmatch(path):
                    name = Name(HOST, label(path))
            elif "/vcpu" in path and (vcpu := VCPU.fullmatch(path)) and label(vcpu[1]) == name.waiting:
                vcpus.setdefault(name.waiting, set()).add(inode)
            names[inode] = name
        if vcpus:
            _count_vcpus_alone(names, vcpus)
        self._leave_out(names, _too_many(beside))
        there = set(names.values())
        return Found(names, frozenset(name.waiting for name in there), frozenset(name.running for name in there))

    def _leave_out(self, names: dict[int, Name], left_out: set[str]) -> None:
        if left_out and not self._crowded:
            log.warning(
                "too many containers: some are in (rest); a user may have made cgroups that look like containers",
                extra={"fields": {"left_out": len(left_out), "shown": MOST_SHOWN}},
            )
        self._crowded = bool(left_out)
        if left_out:
            for inode, name in names.items():
                if name.running in left_out:
                    names[inode] = Name(REST, REST)


def _too_many(beside: dict[str, list[Name]]) -> set[str]:
    """Return those for which there is no room. All units have the same room, so that none takes that of others."""
    left_out = set()
    names, size = 0, 0
    for of_each in zip_longest(*beside.values()):
        for name in filter(None, of_each):
            names += 1
            size += len(name.running.encode())
            if names > MOST_SHOWN or size > MOST_NAMES_BYTES:
                left_out.add(name.running)
    return left_out


def _count_vcpus_alone(names: dict[int, Name], vcpus: dict[str, set[int]]) -> None:
    """Let only vCPUs of these guests wait, which is steal to them: the rest of QEMU is the host's work for them."""
    for inode, name in names.items():
        if name.waiting in vcpus and inode not in vcpus[name.waiting]:
            names[inode] = Name(HOST, name.running)
