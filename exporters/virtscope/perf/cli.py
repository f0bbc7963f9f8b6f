"""Exposes to Prometheus what the processor and the kernel count: cycles, instructions, cache and TLB misses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import Metric

from virtscope.perf import groups, metrics, support
from virtscope.perf.counters import Counters
from virtscope.perf.events import Event, parse_cpus
from virtscope.perf.groups import GroupsError
from virtscope.perf.source.cgroups import Cgroups, GlobError
from virtscope.perf.source.kernel import Linux
from virtscope.shell import flags, program
from virtscope.shell.exporter import Exporter, Source
from virtscope.shell.sources import SourceUnavailable

DEFAULT_PORT = 10292


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter until it is told to stop; exits with 1 and one line when it can't start."""
    known_flags = flags.parser("perf-exporter", __doc__, DEFAULT_PORT)
    known_flags.add_argument(
        "--events", type=Path, default=groups.DEFAULT, metavar="FILE", help="YAML with the groups of events to count"
    )
    known_flags.add_argument(
        "--cgroup.include",
        dest="include",
        action="append",
        default=[],
        metavar="GLOB",
        help="count these cgroups one by one, such as '/machine.slice/*'; ** stands for any levels; may be repeated",
    )
    known_flags.add_argument(
        "--cgroup.exclude", dest="exclude", action="append", default=[], metavar="GLOB", help="but not these"
    )
    given = program.start(known_flags, arguments)
    procfs, sysfs = Path(given.procfs), Path(given.sysfs)
    try:
        planned, unknown = groups.plan(groups.load(given.events), sysfs)
        cgroups = Cgroups(procfs, given.include, given.exclude)
        kernel = Linux()
    except (GroupsError, GlobError, SourceUnavailable) as error:
        sys.exit(f"perf-exporter: {error}")
    machine = support.machine(procfs, sysfs)

    def online() -> tuple[int, ...]:
        return parse_cpus((sysfs / "devices/system/cpu/online").read_text())

    def explain(error: OSError, event: Event) -> support.Refusal:
        return support.refusal(error, machine, hardware=event.hardware)

    counters = Counters(kernel, planned, online, explain, open_folder=cgroups.open, most_files=4096)

    def read() -> list[Metric]:
        return metrics.families(counters.read(cgroups.find()), unknown)

    source = Source("perf_event", read, lambda: "perf_event_open")
    program.serve(Exporter("perf", [source], given.procfs), given)
