"""The cgroups of a guest: effective cap, weight, and throttled time.

    machine.slice/machine-qemu\\x2d1\\x2dweb.scope/            shares: cpu.weight; or machine/qemu-1-web.libvirt-qemu/
        libvirt/          global_quota: cpu.max
            vcpu0/        quota: cpu.max of each
            emulator/     emulator_quota
    qemu.slice/100.scope/                                     Proxmox: cpulimit is cpu.max, cpuunits cpu.weight

The level libvirt exists with systemd, since libvirt 7.1 or with version 2; otherwise its groups are directly in the
guest's. Files of version 1 are cpu.cfs_quota_us, cpu.cfs_period_us and cpu.shares. Throttling is counted in the cgroup
with the quota, not in its parents. Formats: Documentation/admin-guide/cgroup-v2.rst,
Documentation/scheduler/sched-bwc.rst. By hand: `systemd-cgls`, `virsh schedinfo GUEST`.

Guests' names are never taken from cgroups: systemd's scope names lack characters.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from typing import NamedTuple

from virtscope.kvm.host_files import Files
from virtscope.kvm.model import Limits, Throttling
from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.hierarchy import Hierarchy, label, own_names, parse_mounts
from virtscope.toolkit.layouts import GUEST, pod_of

_ROOT = "sys/fs/cgroup"
_PART = re.compile(r"(vcpu|iothread)[0-9]+|emulator")


class Found(NamedTuple):
    """The CPU limits of a guest."""

    limits: Limits
    throttles: tuple[tuple[str, str], ...]  # its cgroups with a quota: part of the guest, folder
    cgroup: str  # its path, or its pod's, as in labels; "" if shared
    folder: str  # with its io.stat; "" if shared, or of version 1


NOTHING = Found(Limits(), (), "", "")


def parse_path(cgroup: bytes) -> tuple[str, bool] | None:
    """Return the CPU controller's path in /proc/PID/cgroup, and whether it is version 1's; None if absent.

    The root of a hierarchy is "". In a container, paths are relative to its own cgroup; those outside begin with "..".
    """
    version_2 = None
    for line in cgroup.decode("utf-8", "surrogateescape").split("\n"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "cpu" in controllers.split(","):
            return path.strip("/"), True
        if line.startswith("0::"):
            version_2 = path.strip("/")
    return None if version_2 is None else (version_2, False)


def parse_quota(text: bytes) -> float | None:
    """Return the CPUs of a cpu.max, or of version 1's "quota period"; None without a quota."""
    words = text.split()
    if len(words) == 2 and all(word.isdigit() and len(word) < 20 for word in words) and int(words[1]):
        return int(words[0]) / int(words[1])
    return None


def parse_stat(text: bytes) -> tuple[int, int, float] | None:
    """Return periods, throttled periods and throttled seconds of a cpu.stat; None if absent."""
    lines = (line.partition(b" ") for line in text.split(b"\n"))
    found = {key: int(value) for key, _, value in lines if value.isdigit() and len(value) < 21}
    if not {b"nr_periods", b"nr_throttled"} <= found.keys():
        return None
    microseconds = found.get(b"throttled_usec")
    seconds = found.get(b"throttled_time", 0) / 1e9 if microseconds is None else microseconds / 1e6
    return found[b"nr_periods"], found[b"nr_throttled"], seconds


class Cgroups:
    """Reads guests' cgroups below `files`."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._mounted: Hierarchy | None = None
        self._own: list[str] | None = None  # names from the mount to the root of this process's cgroup namespace
        self.unseen = ""  # why some guests' cgroups are hidden

    def find(self, pid: int) -> Found:
        """Return the CPU limits of the guest with this process."""
        parsed = parse_path(self._files.content(f"proc/{pid}/cgroup") or b"")
        if parsed is None:
            return NOTHING
        path, version_1 = parsed
        hierarchy = self._hierarchy(version_1=version_1)
        names = self._names(path)
        if names is None:
            return NOTHING
        divided = bool(names) and _PART.fullmatch(names[-1]) is not None  # libvirt gave it a cgroup
        if divided:
            del names[-1]
        if names and names[-1] == "libvirt":
            del names[-1]
        top, path = "/".join([hierarchy, *names]), "".join([f"/{name}" for name in names])
        # A manually started guest may have its own cgroup, such as a systemd unit.
        alone = (self._files.content(f"{top}/cgroup.procs") or b"").split() == [b"%d" % pid]
        own = bool(names) and (divided or GUEST.fullmatch(path) is not None or alone)
        quotas = [self._quota("/".join([hierarchy, *names[:depth]]), version_1) for depth in range(1, len(names) + 1)]
        throttles = [("all", top)] if own and quotas[-1] is not None else []
        if own:
            below, groups = self._below(top, version_1)
            quotas.append(below)
            throttles += groups
        standing = [quota for quota in quotas if quota is not None]
        text = (self._files.content(f"{top}/{'cpu.shares' if version_1 else 'cpu.weight'}") or b"").strip()
        weight = int(text) if own and text.isdigit() and len(text) < 20 else None
        cgroup = pod_of(path) or (path if own else "")  # KubeVirt has a pod for each guest
        folder = top if own and not version_1 else ""
        return Found(Limits(min(standing, default=None), weight), tuple(throttles), label(cgroup), folder)

    def _names(self, path: str) -> list[str] | None:
        """Return the names below the mount of a path in /proc/PID/cgroup; None if it is hidden."""
        names = [name for name in path.split("/") if name]
        levels = names.count("..")
        del names[:levels]
        mounted = self._hierarchy_seen()
        if mounted is None or levels == mounted.above:
            return names
        if self._own is None and levels < mounted.above:
            own = parse_path(self._files.content("proc/self/cgroup") or b"")
            self._own = own_names(mounted, own[0] if own else "")
        if levels < mounted.above and self._own:
            return self._own[: mounted.above - levels] + names
        self.unseen = (
            "cgroups of guests can't be seen: the exporter is in a cgroup namespace of its own; give its container the "
            "host's (--cgroupns=host) and the host's /sys/fs/cgroup"
        )
        return None

    def _hierarchy_seen(self) -> Hierarchy | None:
        """Return the mounted hierarchy; None in a recording, which has no mounts."""
        if self._mounted is None and (mountinfo := self._files.content("proc/self/mountinfo")) is not None:
            with contextlib.suppress(SourceError):
                self._mounted = parse_mounts(mountinfo.decode("utf-8", "surrogateescape"), "cpu")
        return self._mounted

    def throttling(self, cgroups: Iterable[tuple[str, str]]) -> tuple[Throttling, ...]:
        """Return the throttled time of each part so far."""
        sums: dict[str, tuple[int, int, float]] = {}
        for part, folder in cgroups:
            if counted := parse_stat(self._files.content(f"{folder}/cpu.stat") or b""):
                before = sums.get(part, (0, 0, 0.0))
                sums[part] = (before[0] + counted[0], before[1] + counted[1], before[2] + counted[2])
        return tuple(Throttling(part, *counted) for part, counted in sums.items())

    def _below(self, top: str, version_1: bool) -> tuple[float | None, list[tuple[str, str]]]:
        """Return the combined cap of libvirt's cgroups below the guest's, and those with a quota."""
        groups = [("all", f"{top}/libvirt")]
        for level in (top, f"{top}/libvirt"):
            parts = filter(None, map(_PART.fullmatch, sorted(self._files.names(level))))
            groups += [(part[1] or part[0], f"{level}/{part[0]}") for part in parts]
        quotas = [self._quota(folder, version_1) for _, folder in groups]
        caps = [quota for quota in quotas[:1] if quota is not None]
        vcpus = [quota for (part, _), quota in zip(groups, quotas) if part == "vcpu"]
        with_quotas = [quota for quota in vcpus if quota is not None]
        if vcpus and len(with_quotas) == len(vcpus):
            caps.append(sum(with_quotas))
        return min(caps, default=None), [group for group, quota in zip(groups, quotas) if quota is not None]

    def _quota(self, folder: str, version_1: bool) -> float | None:
        if not version_1:
            return parse_quota(self._files.content(f"{folder}/cpu.max") or b"")
        quota = self._files.content(f"{folder}/cpu.cfs_quota_us") or b""
        return parse_quota(quota + b" " + (self._files.content(f"{folder}/cpu.cfs_period_us") or b""))

    def _hierarchy(self, *, version_1: bool) -> str:
        if version_1:
            return f"{_ROOT}/cpu"
        # In hybrid mode systemd mounts version 2 here, without the CPU controller.
        return f"{_ROOT}/unified" if self._files.content(f"{_ROOT}/cgroup.controllers") is None else _ROOT
