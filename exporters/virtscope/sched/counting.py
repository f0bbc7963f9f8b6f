"""Waits by name: the kernel's programs, the cgroups' names and the pairs of them."""

from __future__ import annotations

import argparse
import contextlib
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Callable

from virtscope.sched import cpu, disk, irq, memory, privileges, usage
from virtscope.sched.names import Found, Names
from virtscope.sched.pairs import Pairs, Row
from virtscope.sched.privileges import CAP_BPF, CAP_SYS_ADMIN
from virtscope.sched.reasons import Machine, before_loading
from virtscope.sched.stacked import is_above_a_disk
from virtscope.sched.stalls import Interval, Stalls
from virtscope.toolkit import cli
from virtscope.toolkit.bounded import read_text
from virtscope.toolkit.collect import SourceError, SourceUnavailable
from virtscope.toolkit.hierarchy import Folders, hierarchy


def add_flags(flags: argparse.ArgumentParser) -> None:
    """Add the flags that choose cgroups."""
    include = (
        "show these cgroups besides containers and guests, such as '/system.slice/shop.service'; ** stands for any "
        "levels; may be repeated"
    )
    for name, text in (("include", include), ("exclude", "but not these")):
        cli.add(flags, f"--cgroup.{name}", "GLOB", text, dest=name, action="append", default=[])


class CpuWaits:
    """Waiting for a CPU, since the program was loaded."""

    def __init__(self, given: argparse.Namespace) -> None:
        """Load the program, by these flags. Raises GlobError for a flag, and SourceError like Object."""
        machine = _machine(given)
        self._names, version, self._where = _names(given, "cpu", vcpus_alone=True)
        self._waits = cpu.Waits(version, machine)
        self._pairs = Pairs(cpu.NOBODY, cpu.MAX_PAIRS)

    def read(self) -> tuple[Mapping[str, Row], cpu.Totals]:
        """Return each container's waits by its name, and the totals; raises SourceError."""
        waited, totals = self._waits.pairs(), self._waits.totals()
        unneeded = self._pairs.add(waited, self._names.find(), time.monotonic())
        self._waits.forget(unneeded)
        self._pairs.forget(unneeded)
        return self._pairs.rows, totals

    def origin(self) -> str:
        """Return the library and the hierarchy."""
        return f"{self._waits.loaded.library}, {self._where}"

    def needed(self) -> int:
        """Return the capability needed to read on (a bit)."""
        return _needed(self._waits.totals)


class DiskDelays:
    """Delays of disk requests, since the programs were loaded."""

    def __init__(self, given: argparse.Namespace) -> None:
        """Load the programs, by these flags. Raises GlobError for a flag, and SourceError like Object."""
        machine = _machine(given)
        self._names, version, self._where = _names(given, "blkio", vcpus_alone=False)
        self._delays = disk.Delays(version, machine)
        self._sysfs, self._mountinfo = Path(given.sysfs), Path(given.procfs, "self/mountinfo")
        self._ledger = disk.Ledger()

    def read(self) -> tuple[Mapping[str, Mapping[str, Row]], Mapping[str, disk.Device]]:
        """Return delays by device and container, and each device's totals; raises SourceError.

        Devices on top of another disk are left out.
        """
        delayed, devices = self._delays.pairs(), self._delays.devices()
        unneeded = self._ledger.add(delayed, self._names.find(), time.monotonic())
        for number, pairs in unneeded.items():
            self._delays.forget(number, pairs)
        mountinfo = read_text(self._mountinfo, "surrogateescape")
        folders = [(self._folder(device), device) for device in devices]
        named = {folder.name: device for folder, device in folders if folder and not is_above_a_disk(folder, mountinfo)}
        known = self._ledger.devices
        return {name: known[each.number].rows for name, each in named.items() if each.number in known}, named

    def _folder(self, device: disk.Device) -> Path | None:
        """Return the device's folder in /sys, such as sda, or nothing if it is gone."""
        try:
            return (self._sysfs / "dev/block" / device.numbers).resolve(strict=True)
        except OSError:
            return None

    def origin(self) -> str:
        """Return the library and the hierarchy, and what isn't seen."""
        unseen = "" if self._delays.sees_io_max else "; the wait for io.max isn't seen: this kernel refuses fexit"
        return f"{self._delays.loaded.library}, {self._where}{unseen}"

    def needed(self) -> int:
        """Return the capability needed to read on (a bit)."""
        return _needed(self._delays.devices)


class InterruptDelays:
    """CPU time that interrupts took from tasks, since the programs were loaded."""

    def __init__(self, given: argparse.Namespace) -> None:
        """Load the programs, by these flags. Raises GlobError for a flag, and SourceError like Object."""
        machine = _machine(given)
        self._names, version, self._where = _names(given, "cpu", vcpus_alone=True)
        self._disks: Names | None = None
        if version == 1:
            with contextlib.suppress(SourceUnavailable):
                self._disks, _, _ = _names(given, "blkio", vcpus_alone=False)
        self._interrupts = irq.Interrupts(version, machine)
        self._pairs = Pairs(irq.NOBODY, irq.MAX_PAIRS)

    def read(self) -> tuple[Mapping[str, Row], irq.Totals]:
        """Return what interrupts took from each container by its name, and the totals; raises SourceError."""
        taken, totals = self._interrupts.pairs(), self._interrupts.totals()
        found = self._names.find()
        if self._disks:
            found = irq.with_disks(found, self._disks.find().names)
        unneeded = self._pairs.add(taken, found, time.monotonic())
        self._interrupts.forget(unneeded)
        self._pairs.forget(unneeded)
        return self._pairs.rows, totals

    def origin(self) -> str:
        """Return the library and the hierarchy."""
        return f"{self._interrupts.loaded.library}, {self._where}"

    def needed(self) -> int:
        """Return the capability needed to read on (a bit)."""
        return _needed(self._interrupts.totals)


class MemoryStalls:
    """Stalls for memory and evicted pages, since the programs were loaded."""

    def __init__(self, given: argparse.Namespace) -> None:
        """Load the programs, by these flags. Raises GlobError for a flag, and SourceError like Object."""
        machine = _machine(given)
        procfs = Path(given.procfs)
        root, version, _ = hierarchy(procfs, "memory")
        if reason := usage.without_controller(root, version):
            raise reason
        self._names, _, self._where = _names(given, "memory", vcpus_alone=False)
        self._evictions = memory.Evictions(version, machine)
        self._folders = usage.Folders(procfs, root, version)
        self._evicted = Pairs(memory.NOBODY, memory.MAX_PAIRS, memory.MIN_PAGES)
        self._reclaimed = Pairs(memory.RECLAIM, memory.MAX_RECLAIMS)
        self._stalls = Stalls()
        self._usage: dict[str, int] | None = None  # bytes by name, when kswapd last evicted

    def read(self) -> tuple[memory.Rows, memory.Totals]:
        """Return stalls, evicted pages and reclaim by container, and the totals; raises SourceError."""
        evicted, reclaimed, totals = self._evictions.pairs(), self._evictions.reclaims(), self._evictions.totals()
        found, now = self._names.find(), time.monotonic()
        unneeded = self._evicted.add(evicted, found, now)
        self._evictions.forget(unneeded)
        self._evicted.forget(unneeded)
        unneeded = self._reclaimed.add(reclaimed, found, now)
        self._reclaimed.forget(self._evictions.forget_reclaims(unneeded))
        self._stalls.add(self._interval(found), found, now)
        return memory.Rows(self._stalls.rows, self._evicted.rows, self._reclaimed.rows), totals

    def _interval(self, found: Found) -> Interval:
        """Return what happened since the last call; reads cgroups' folders only where something did."""
        pages = self._evicted.grown
        stalled = {name: sum(ns.values()) for name, ns in self._reclaimed.grown.items()}
        stalled.update(self._folders.stalled(name for name in found.shown if name.startswith("/")))
        own = [name for name, evicted in pages.items() if evicted.get(name) and name.startswith("/")]
        return Interval(pages, stalled, self._grown(found), self._folders.full(own))

    def _grown(self, found: Found) -> dict[str, float]:
        """Return the pages by which each cgroup grew since kswapd last evicted; nothing if it doesn't."""
        evicts = any(memory.BY_KSWAPD in evicted for evicted in self._evicted.grown.values())
        if not evicts and self._usage is not None:
            return {}
        cgroups = [name for name in found.running if name.startswith("/")]
        before, self._usage = self._usage, usage.own(self._folders.usage(cgroups))
        if before is None:
            return {}
        return {name: used / resource.getpagesize() for name, used in usage.grown(before, self._usage).items()}

    def origin(self) -> str:
        """Return the library and the hierarchy, how stalls are measured, and what isn't seen."""
        stalls = "PSI, or direct reclaim without it" if self._folders.has_pressure else "direct reclaim: no PSI"
        unseen = "" if self._evictions.sees_swap else "; pages written to swap aren't seen"
        return f"{self._evictions.loaded.library}, {self._where}; stalls by {stalls}{unseen}"

    def needed(self) -> int:
        """Return the capability needed to read on (a bit)."""
        return _needed(self._evictions.totals)


def _machine(given: argparse.Namespace) -> Machine:
    machine = Machine.read(Path(given.procfs), Path(given.sysfs))
    reason = before_loading(machine)
    if reason:
        raise reason
    privileges.raise_memory_lock()
    return machine


def _names(given: argparse.Namespace, controller: str, *, vcpus_alone: bool) -> tuple[Names, int, str]:
    """Return the names of the controller's cgroups, their version, and where they are."""
    folders = Folders(given.include, given.exclude, all_of_them=True)
    root, version, _ = hierarchy(Path(given.procfs), controller)
    return Names(root, folders, vcpus_alone=vcpus_alone), version, f"cgroup v{version} at {root}"


def _needed(read: Callable[[], object]) -> int:
    """Return the capability needed to read (a bit).

    Mostly none. Before Linux 5.19 every bpf(2) call needs one if kernel.unprivileged_bpf_disabled is set.
    """
    try:
        with privileges.none_in_use():
            read()
    except SourceError:
        has = privileges.effective()
        return has & 1 << CAP_BPF or has & 1 << CAP_SYS_ADMIN
    return 0
