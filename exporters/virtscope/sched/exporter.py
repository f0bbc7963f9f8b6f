"""Exposes run-queue wait by victim and by what ran meanwhile: containers, KVM guests, systemd units."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Callable

from prometheus_client import Metric

from virtscope.sched import privileges
from virtscope.sched.metrics import families
from virtscope.sched.names import Names
from virtscope.sched.pairs import Pairs
from virtscope.sched.privileges import CAP_BPF, CAP_SYS_ADMIN, PrivilegesError
from virtscope.sched.program import Program
from virtscope.sched.reasons import Machine, before_loading
from virtscope.toolkit import cli
from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.hierarchy import Folders, GlobError, hierarchy
from virtscope.toolkit.scrape import Exporter, Source

DEFAULT_PORT = 10298
CONTROLLER = "cpu"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter until it is stopped; exits with 1 and one line on error."""
    known_flags = cli.parser("sched-exporter", __doc__, DEFAULT_PORT)
    known_flags.epilog = None  # no `record` here
    _add_flags(known_flags)
    given = cli.start(known_flags, sys.argv[1:] if arguments is None else arguments)
    try:
        source = _source(given, Folders(given.include, given.exclude, all_of_them=True))
    except (GlobError, PrivilegesError) as error:
        sys.exit(f"sched-exporter: {error}")
    cli.serve(Exporter("sched", [source]), given)


def _source(given: argparse.Namespace, folders: Folders) -> Source:
    """Load the program, or return why that failed; then drop all capabilities that aren't needed any more.

    The program is loaded once, before other threads start; without the capabilities it can't be loaded later.
    """
    needed = 0
    try:
        read, origin, needed = _counting(Path(given.procfs), Path(given.sysfs), folders)
    except SourceError as error:
        read, origin = _failing(error), str
    privileges.keep_only(needed)
    return Source("sched_switch", read, origin, required=False)


def _counting(procfs: Path, sysfs: Path, folders: Folders) -> tuple[Callable[[], list[Metric]], Callable[[], str], int]:
    """Load the program; return its reader, its origin and the capabilities needed to read it (a bit each).

    Raises SourceError like Program.
    """
    machine = Machine.read(procfs, sysfs)
    reason = before_loading(machine)
    if reason:
        raise reason
    root, version, _ = hierarchy(procfs, CONTROLLER)
    names = Names(root, folders)
    privileges.raise_memory_lock()
    program = Program(version, machine)
    pairs = Pairs()

    def read() -> list[Metric]:
        waited, totals = program.pairs(), program.totals()
        unneeded = pairs.add(waited, names.find(), time.monotonic())
        program.forget(unneeded)
        pairs.forget(unneeded)
        return families(pairs.rows, totals)

    return read, lambda: f"{program.library}, cgroup v{version} at {root}", _needed(program)


def _needed(program: Program) -> int:
    """Return the capability needed to read maps.

    Mostly none. Before Linux 5.19 every bpf(2) call needs one if kernel.unprivileged_bpf_disabled is set.
    """
    try:
        with privileges.none_in_use():
            program.totals()
    except SourceError:
        has = privileges.effective()
        return has & 1 << CAP_BPF or has & 1 << CAP_SYS_ADMIN
    return 0


def _failing(error: SourceError) -> Callable[[], list[Metric]]:
    def read() -> list[Metric]:
        raise error.with_traceback(None)  # raising the same exception again would accumulate tracebacks

    return read


def _add_flags(known_flags: argparse.ArgumentParser) -> None:
    include = (
        "show these cgroups besides containers and guests, such as '/system.slice/shop.service'; ** stands for any "
        "levels; may be repeated"
    )
    for name, text in (("include", include), ("exclude", "but not these")):
        cli.add(known_flags, f"--cgroup.{name}", "GLOB", text, dest=name, action="append", default=[])
