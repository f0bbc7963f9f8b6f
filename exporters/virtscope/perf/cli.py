"""Exposes to Prometheus what the processor and the kernel count: cycles, instructions, cache and TLB misses."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import Metric

from virtscope.perf import groups, importing, resctrl_metrics
from virtscope.perf.counters import Counters
from virtscope.perf.groups import Group, GroupsError
from virtscope.perf.metrics import Families
from virtscope.perf.profile.profiler import Profiler
from virtscope.perf.source.cgroups import Cgroup, Cgroups, GlobError, hierarchy
from virtscope.perf.source.kernel import Linux, raise_file_limit
from virtscope.perf.source.machine import Machine
from virtscope.perf.source.perf_record import PerfRecord, Sampled
from virtscope.perf.source.resctrl import Resctrl
from virtscope.perf.support import ABSENT_PMU
from virtscope.shell import flags, program
from virtscope.shell.durations import duration, interval_or_never
from virtscope.shell.exporter import Exporter, Source
from virtscope.shell.sources import SourceError, SourceUnavailable

DEFAULT_PORT = 10292
SPARE_FILES = 200  # descriptors that are kept for the rest: connections, /proc, perf record

log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter until it is told to stop, or its `import`; exits with 1 and one line when it can't."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["import"]:
        importing.main(words[1:])
        return
    known_flags = flags.parser("perf-exporter", __doc__, DEFAULT_PORT)
    known_flags.epilog = "To make a profile of old into OpenMetrics: perf-exporter import --help"
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
    known_flags.add_argument(
        "--perf.max-counters",
        dest="most_counters",
        type=_count,
        default="16384",
        metavar="NUMBER",
        help="open no more counters than this; each takes a file descriptor: one for every event of every group, on "
        "every CPU, for the host and again for each cgroup",
    )
    _add_profile(known_flags)
    given = program.start(known_flags, words)
    procfs, sysfs = Path(given.procfs), Path(given.sysfs)
    machine = Machine(procfs, sysfs)
    try:
        plan = groups.load(given.events, sysfs)
        cgroups = Cgroups(procfs, given.include, given.exclude)
        kernel = Linux()
    except (GroupsError, GlobError, SourceUnavailable) as error:
        sys.exit(f"perf-exporter: {error}")
    counters = Counters(
        kernel,
        _without_guests(plan.groups) if machine.mediated_pmu else plan.groups,
        machine,
        open_folder=cgroups.open,
        most_files=min(given.most_counters, raise_file_limit() - SPARE_FILES),
    )
    for absent in plan.absent:
        fields = {"reason": ABSENT_PMU, "advice": absent.problem, "events": f"{absent.group}/{absent.event}"}
        log.warning("events can't be counted", extra={"fields": fields})

    def find() -> list[Cgroup]:
        try:
            return cgroups.find()
        except SourceUnavailable:  # which the source "cgroups" says: the host is counted all the same
            return []

    with contextlib.suppress(SourceError):  # each scrape says it again
        counters.read(find())  # counting begins now, not with the first scrape
    families = Families(plan.absent)

    def read() -> list[Metric]:
        return families.of(counters.read(find()))

    def read_hierarchy() -> list[Metric]:
        hierarchy(procfs)
        return []

    resctrl = Resctrl(sysfs)

    def read_resctrl() -> list[Metric]:
        return resctrl_metrics.families(resctrl.read())

    sources = [
        Source("perf_event", read, lambda: "perf_event_open"),
        Source("resctrl", read_resctrl, lambda: str(sysfs / "fs/resctrl"), required=False),
    ]
    if given.include:
        sources.append(Source("cgroups", read_hierarchy, lambda: str(hierarchy(procfs))))
    with contextlib.ExitStack() as at_end:
        if profiler := _profiler(given, "cache-misses" if machine.core_pmu else "cpu-clock", at_end):
            sources.append(
                Source("profile", profiler.read, profiler.origin, required=False, background=profiler.background)
            )
        program.serve(Exporter("perf", sources), given)


def _without_guests(planned: list[Group]) -> list[Group]:
    log.warning(
        "guests' events are not counted: KVM gives its guests the counters themselves (enable_mediated_pmu), and would "
        "start no guest while they are in use for one; run the exporter in the guests"
    )
    return groups.without_guests(planned)


def _add_profile(known_flags: argparse.ArgumentParser) -> None:
    known_flags.add_argument(
        "--profile.interval",
        dest="profile_interval",
        type=interval_or_never,
        default="60s",
        metavar="DURATION",
        help="time from one profile by perf record to the next; 0: never",
    )
    known_flags.add_argument(
        "--profile.seconds",
        dest="profile_seconds",
        type=duration,
        default="5s",
        metavar="DURATION",
        help="how long each profile samples",
    )
    known_flags.add_argument(
        "--profile.frequency",
        dest="profile_frequency",
        type=_count,
        default="99",
        metavar="HZ",
        help="samples a second and CPU of events that are given without a period",
    )
    known_flags.add_argument(
        "--profile.event",
        dest="profile_events",
        type=Sampled.parse,
        action="append",
        default=argparse.SUPPRESS,
        metavar="EVENT[@PERIOD]",
        help="event to sample, such as instructions, or each 10000th: cache-misses@10000; may be repeated (default: "
        "cache-misses, or cpu-clock where the processor counts no events)",
    )
    known_flags.add_argument(
        "--profile.symbols",
        dest="profile_symbols",
        type=_count,
        default="100",
        metavar="NUMBER",
        help="symbols of each event that get series of their own",
    )


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text) <= 100_000:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 100000")


def _profiler(given: argparse.Namespace, default: str, at_end: contextlib.ExitStack) -> Profiler | None:
    """Return what profiles the machine, started, if it is to be profiled; `at_end` ends it."""
    if not given.profile_interval:
        return None
    events = getattr(given, "profile_events", [Sampled(default, None)])
    if len({each.event for each in events}) < len(events):
        sys.exit("perf-exporter: --profile.event names an event twice: it would be counted twice")
    source = PerfRecord(events, given.profile_seconds, given.profile_frequency, given.procfs, given.sysfs)
    profiler = Profiler(source, given.profile_interval, given.profile_symbols)
    profiler.start()
    at_end.callback(profiler.close)
    return profiler
