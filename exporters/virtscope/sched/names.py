"""Whose each cgroup is: the container, the chosen cgroup or the systemd unit that its tasks run for, by its id.

The kernel's program has ids alone: the inodes of cgroups' folders, of which no two cgroups ever have the same one. By
hand: `find /sys/fs/cgroup -type d -printf '%i %P\\n'`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from virtscope.toolkit.collect import SourceUnavailable
from virtscope.toolkit.hierarchy import Folders

HOST = "(host)"

# The outermost container, as container:cgroup:info in prometheus/rules/cgroup.yml knows it, and Proxmox's guests.
_CONTAINER = re.compile(
    r"/(?:.*/)?(?:"
    r"(?:(?:docker|libpod|nerdctl|cri-containerd|crio)-)?[0-9a-f]{64}(?:[.]scope)?|"
    r"lxc/[^/]+|lxc[.]payload[./][^/]+|"
    r"machine[.]slice/(?:machine-[^/]+[.]scope|systemd-nspawn@[^/]+[.]service)|machine/[^/]+[.]libvirt-[a-z]+|"
    r"kubepods(?:[.]slice)?/(?:[^/]+/)?(?:kubepods-(?:[a-z]+-)?)?pod[^/]+|"
    r"virtscope/[^/]+|"
    r"qemu[.]slice/[^/]+[.]scope"
    r")",
    re.DOTALL,
)
# A unit of systemd, all that a user runs being one; a slice is none.
_UNIT = re.compile(
    r"/user[.]slice/user-[^/]+[.]slice|/(?:[^/]+[.]slice/)*[^/]+[.](?:service|scope|socket|mount|swap)", re.DOTALL
)
# A vCPU of a KVM guest of libvirt's, which has a cgroup for each thread that is one.
_VCPU = re.compile(r"(/.*(?:/machine-qemu[^/]+[.]scope|[.]libvirt-qemu))(?:/libvirt)?/vcpu[0-9]+", re.DOTALL)


class Name(NamedTuple):
    """Whose a cgroup is."""

    waiting: str  # to whom what its tasks wait is counted: the path of a container or chosen cgroup, or HOST
    running: str  # as what it is named to those who wait meanwhile: these, or the path of a systemd unit


class Found(NamedTuple):
    """The cgroups that there are."""

    names: dict[int, Name]  # by id
    shown: frozenset[str]  # the containers and chosen cgroups, and HOST
    running: frozenset[str]  # all names of those that may run


_OF_HOST = Name(HOST, HOST)
NONE = Found({}, frozenset(), frozenset())


class Names:
    """Finds them again at each scrape."""

    def __init__(self, root: Path, folders: Folders) -> None:
        """`root` is where the hierarchy is mounted; all its `folders` are walked, and choose some beside containers."""
        self._root = root
        self._folders = folders

    def find(self) -> Found:
        """Return the cgroups that there are; raises SourceUnavailable where the hierarchy is no longer mounted."""
        try:
            names = {self._root.stat().st_ino: _OF_HOST}
        except OSError as error:
            raise SourceUnavailable(f"{error.filename}: {error.strerror}") from None
        by_path = {"": _OF_HOST}
        vcpus: dict[str, set[int]] = {}  # by guest
        for path, inode, _, chosen in self._folders.walk(self._root):
            name = by_path[path[: path.rindex("/")]]  # of the cgroup above, which comes first
            if name.waiting is HOST:  # else it is inside of a container
                if chosen or _CONTAINER.fullmatch(path):
                    name = Name(path, path)
                elif name.running is HOST and _UNIT.fullmatch(path):
                    name = Name(HOST, path)
            elif "/vcpu" in path and (vcpu := _VCPU.fullmatch(path)) and vcpu[1] == name.waiting:
                vcpus.setdefault(name.waiting, set()).add(inode)
            by_path[path] = names[inode] = name
        if vcpus:
            _count_vcpus_alone(names, vcpus)
        return Found(
            names,
            frozenset(name.waiting for name in by_path.values()),
            frozenset(name.running for name in by_path.values()),
        )


def _count_vcpus_alone(names: dict[int, Name], vcpus: dict[str, set[int]]) -> None:
    """Let only vCPUs of these guests wait, which is steal to them: the rest of QEMU is the host's work for them."""
    for inode, name in names.items():
        if name.waiting in vcpus and inode not in vcpus[name.waiting]:
            names[inode] = Name(HOST, name.running)
