"""Maps cgroup ids to names: the container, the chosen cgroup or the systemd unit of its tasks.

The BPF program knows only ids: the inodes of cgroups' folders, which are never reused. By hand: `find /sys/fs/cgroup
-type d -printf '%i %P\\n'`.
"""

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

# A systemd unit, but no slice; everything of a user is one unit.
_UNIT = re.compile(
    r"/user[.]slice/user-[^/]+[.]slice|/(?:[^/]+[.]slice/)*[^/]+[.](?:service|scope|socket|mount|swap)", re.DOTALL
)

# Users may create any number of cgroups that look like containers. Each exposed one has up to 52 series, and 14 for
# each disk that it uses: with one disk at most 132,000, below Prometheus's sample_limit.
MAX_SHOWN = 2_000
MAX_NAMES_BYTES = 500_000


class Name(NamedTuple):
    """The names of a cgroup."""

    # As a victim: the path of a container or chosen cgroup, HOST, or REST if there are too many.
    waiting: str
    running: str  # as a cause: the same, or the path of a systemd unit


class Found(NamedTuple):
    """All existing cgroups."""

    names: dict[int, Name]  # by id
    shown: frozenset[str]  # containers and chosen cgroups, HOST, and REST if some are omitted
    running: frozenset[str]  # all names of causes


_OF_HOST = Name(HOST, HOST)
NONE = Found({}, frozenset(), frozenset())


class Names:
    """Finds the cgroups at each scrape."""

    def __init__(self, root: Path, folders: Folders, *, vcpus_alone: bool) -> None:
        """`root` is the mount point; all `folders` are walked, and their globs choose cgroups besides containers.

        `vcpus_alone`: only guests' vCPUs wait for them; their other threads wait as the host's.
        """
        self._root = root
        self._folders = folders
        self._vcpus_alone = vcpus_alone
        self._crowded = False  # as logged

    def find(self) -> Found:
        """Return all cgroups; raises SourceUnavailable if the hierarchy is no longer mounted."""
        try:
            names = {self._root.stat().st_ino: _OF_HOST}
        except OSError as error:
            raise SourceUnavailable(f"{error.filename}: {error.strerror}") from None
        containers: dict[str, list[Name]] = {}  # containers, by unit or first name of the path
        vcpus: dict[str, set[int]] = {}  # by guest
        for path, inode, above, _, chosen in self._folders.walk(self._root):
            name = names[above]  # parents come first
            if name.waiting is HOST:  # otherwise it is inside a container
                if chosen or begins(path):
                    unit = path.split("/", 2)[1] if name.running is HOST else name.running
                    name = Name(label(path), label(path))
                    containers.setdefault(unit, []).append(name)
                elif name.running is HOST and _UNIT.fullmatch(path):
                    name = Name(HOST, label(path))
            elif "/vcpu" in path and (vcpu := VCPU.fullmatch(path)) and label(vcpu[1]) == name.waiting:
                vcpus.setdefault(name.waiting, set()).add(inode)
            names[inode] = name
        if self._vcpus_alone and vcpus:
            _count_vcpus_alone(names, vcpus)
        self._leave_out(names, _too_many(containers))
        there = set(names.values())
        return Found(names, frozenset(name.waiting for name in there), frozenset(name.running for name in there))

    def _leave_out(self, names: dict[int, Name], left_out: set[str]) -> None:
        if left_out and not self._crowded:
            log.warning(
                "too many containers: some are in (rest); a user may have made cgroups that look like containers",
                extra={"fields": {"left_out": len(left_out), "shown": MAX_SHOWN}},
            )
        self._crowded = bool(left_out)
        if left_out:
            for inode, name in names.items():
                if name.running in left_out:
                    names[inode] = Name(REST, REST)


def _too_many(containers: dict[str, list[Name]]) -> set[str]:
    """Return the containers over the limit. All units get an equal share, so that none displaces others."""
    left_out = set()
    names, size = 0, 0
    for of_each in zip_longest(*containers.values()):
        for name in filter(None, of_each):
            names += 1
            size += len(name.running.encode())
            if names > MAX_SHOWN or size > MAX_NAMES_BYTES:
                left_out.add(name.running)
    return left_out


def _count_vcpus_alone(names: dict[int, Name], vcpus: dict[str, set[int]]) -> None:
    """Count only the wait of guests' vCPUs, which is steal to the guests; other QEMU threads count as the host's."""
    for inode, name in names.items():
        if name.waiting in vcpus and inode not in vcpus[name.waiting]:
            names[inode] = Name(HOST, name.running)
