"""Exposes to Prometheus what the processor and the kernel count: cycles, instructions, cache and TLB misses."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from virtscope.perf import groups, importing
from virtscope.perf.groups import GroupsError
from virtscope.perf.profile.profiler import Profiler
from virtscope.perf.source.cgroups import Cgroups, GlobError
from virtscope.perf.source.kernel import Linux, raise_file_limit
from virtscope.perf.source.machine import Machine
from virtscope.perf.source.perf_record import PerfRecord, Sampled
from virtscope.perf.wiring import caches, counted, found, profiled
from virtscope.toolkit import flags, program
from virtscope.toolkit.durations import duration, interval_or_never
from virtscope.toolkit.exporter import Exporter
from virtscope.toolkit.sources import SourceUnavailable

DEFAULT_PORT = 10292
SPARE_FILES = 200  # descriptors that are kept for the rest: connections, /proc, perf record


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter until it is told to stop, or its `import`; exits with 1 and one line when it can't."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["import"]:
        importing.main(words[1:])
    else:
        _serve(words)


def _serve(words: Sequence[str]) -> None:
    known_flags = flags.parser("perf-exporter", __doc__, DEFAULT_PORT)
    known_flags.epilog = "To make a profile of old into OpenMetrics: perf-exporter import --help"
    _add_counters(known_flags)
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
    profiler = _profiler(given, words, "cache-misses" if machine.core_pmu else "cpu-clock")
    most_files = min(given.most_counters, raise_file_limit() - SPARE_FILES)
    with contextlib.ExitStack() as at_end:
        sources = [counted(kernel, plan, machine, cgroups, most_files), caches(sysfs)]
        if given.include:
            sources.append(found(procfs))
        if profiler:
            sources.append(profiled(profiler, at_end))
        program.serve(Exporter("perf", sources), given)


def _add_counters(known_flags: argparse.ArgumentParser) -> None:
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


def _add_profile(known_flags: argparse.ArgumentParser) -> None:
    known_flags.add_argument(
        "--profile.interval",
        dest="profile_interval",
        type=interval_or_never,
        default=argparse.SUPPRESS,
        metavar="DURATION",
        help="profile the machine by perf record, with this time from one profile to the next, such as 60s; 0: never "
        "(default: 0)",
    )
    known_flags.add_argument(
        "--profile.seconds",
        dest="profile_seconds",
        type=duration,
        default="5s",
        metavar="DURATION",
        help="how long each profile samples; at most --profile.interval",
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


def _profiler(given: argparse.Namespace, words: Sequence[str], default: str) -> Profiler | None:
    """Return what profiles the machine, if it is to be profiled: by this event unless others are given.

    Exits with 1 and one line where flags contradict each other.
    """
    if "profile_interval" not in given:
        useless = next((word.partition("=")[0] for word in words if word.startswith("--profile.")), None)
        if useless:
            sys.exit(
                f"perf-exporter: {useless} without --profile.interval: add --profile.interval=60s to take profiles"
            )
        return None
    interval, seconds = given.profile_interval, given.profile_seconds
    if not interval:
        return None
    if seconds > interval:
        sys.exit(
            f"perf-exporter: --profile.seconds ({seconds:g} s) exceeds --profile.interval ({interval:g} s): a profile "
            "has to end before the next one begins"
        )
    events = getattr(given, "profile_events", [Sampled(default, None)])
    if len({each.event for each in events}) < len(events):
        sys.exit("perf-exporter: --profile.event names an event twice: it would be counted twice")
    source = PerfRecord(events, seconds, given.profile_frequency, given.procfs, given.sysfs)
    return Profiler(source, interval, given.profile_symbols)
