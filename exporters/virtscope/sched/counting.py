"""Waits by name: the kernel's program, the cgroups' names and the pairs of them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path

from virtscope.sched import privileges
from virtscope.sched.names import Names
from virtscope.sched.pairs import Pairs, Row
from virtscope.sched.privileges import CAP_BPF, CAP_SYS_ADMIN
from virtscope.sched.program import Program, Totals
from virtscope.sched.reasons import Machine, before_loading
from virtscope.toolkit import cli
from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.hierarchy import Folders, hierarchy

CONTROLLER = "cpu"


def add_flags(flags: argparse.ArgumentParser) -> None:
    """Add the flags that choose cgroups."""
    include = (
        "show these cgroups besides containers and guests, such as '/system.slice/shop.service'; ** stands for any "
        "levels; may be repeated"
    )
    for name, text in (("include", include), ("exclude", "but not these")):
        cli.add(flags, f"--cgroup.{name}", "GLOB", text, dest=name, action="append", default=[])


class Counting:
    """The loaded program, and what it has counted since."""

    def __init__(self, given: argparse.Namespace) -> None:
        """Load the program, by these flags. Raises GlobError for a flag, and SourceError like Program."""
        folders = Folders(given.include, given.exclude, all_of_them=True)
        procfs = Path(given.procfs)
        machine = Machine.read(procfs, Path(given.sysfs))
        reason = before_loading(machine)
        if reason:
            raise reason
        self._root, self._version, _ = hierarchy(procfs, CONTROLLER)
        self._names = Names(self._root, folders)
        privileges.raise_memory_lock()
        self._program = Program(self._version, machine)
        self._pairs = Pairs()

    def read(self) -> tuple[Mapping[str, Row], Totals]:
        """Return each container's waits by its name, and the totals; raises SourceError."""
        waited, totals = self._program.pairs(), self._program.totals()
        unneeded = self._pairs.add(waited, self._names.find(), time.monotonic())
        self._program.forget(unneeded)
        self._pairs.forget(unneeded)
        return self._pairs.rows, totals

    def origin(self) -> str:
        """Return the library and the hierarchy."""
        return f"{self._program.library}, cgroup v{self._version} at {self._root}"

    def needed(self) -> int:
        """Return the capability needed to read on (a bit).

        Mostly none. Before Linux 5.19 every bpf(2) call needs one if kernel.unprivileged_bpf_disabled is set.
        """
        try:
            with privileges.none_in_use():
                self._program.totals()
        except SourceError:
            has = privileges.effective()
            return has & 1 << CAP_BPF or has & 1 << CAP_SYS_ADMIN
        return 0
