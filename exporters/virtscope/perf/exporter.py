"""Exposes hardware and software events to Prometheus: cycles, instructions, cache and TLB misses."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client import Metric

from virtscope.perf import groups, resctrl
from virtscope.perf.cgroups import CONTROLLER, Cgroup, Cgroups
from virtscope.perf.counters import Counters
from virtscope.perf.groups import Plan
from virtscope.perf.kernel import Kernel, raise_file_limit
from virtscope.perf.machine import Machine
from virtscope.perf.metrics import families
from virtscope.perf.perf_record import PerfRecord, Profiler, Sampled
from virtscope.perf.resctrl import Resctrl
from virtscope.perf.support import ABSENT_PMU, Refusal, log_refusal
from virtscope.toolkit import cli
from virtscope.toolkit.cli import duration
from virtscope.toolkit.collect import SourceError, SourceUnavailable
from virtscope.toolkit.document import DocumentError
from virtscope.toolkit.hierarchy import GlobError, hierarchy
from virtscope.toolkit.scrape import Exporter, Source

log = logging.getLogger(__name__)

DEFAULT_PORT = 10292
SPARE_FILES = 200  # descriptors reserved for connections, /proc and perf record


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter until it is stopped; exits with 1 and one line on error."""
    words = sys.argv[1:] if arguments is None else arguments
    known_flags = cli.parser("perf-exporter", __doc__, DEFAULT_PORT)
    known_flags.epilog = None  # no `record` here
    _add_flags(known_flags)
    given = cli.start(known_flags, words)
    procfs, sysfs = Path(given.procfs), Path(given.sysfs)
    machine = Machine(procfs, sysfs)
    try:
        plan = groups.load(given.events, sysfs)
        chosen = Cgroups(procfs, given.include, given.exclude)
        kernel = Kernel()
    except (DocumentError, GlobError, SourceUnavailable) as error:
        sys.exit(f"perf-exporter: {error}")
    profiler = _profiler(given, words, "cache-misses" if machine.core_pmu else "cpu-clock")
    most_files = min(given.most_counters, raise_file_limit() - SPARE_FILES)
    with contextlib.ExitStack() as at_end:
        sources = [_counters(kernel, plan, machine, chosen, most_files), _caches(sysfs)]
        if given.include:
            sources.append(_hierarchy(procfs))
        if profiler:
            sources.append(_profile(profiler, at_end))
        cli.serve(Exporter("perf", sources), given)


# --- Sources ----------------------------------------------------------------------------------------------------------


def _counters(kernel: Kernel, plan: Plan, machine: Machine, chosen: Cgroups, most_files: int) -> Source:
    """Start counting the plan's groups, for the host and the chosen cgroups."""
    planned = plan.groups
    if machine.mediated_pmu:
        planned = groups.without_guests(planned)
        log.warning(
            "guests' events are not counted: KVM gives its guests the counters themselves (enable_mediated_pmu), and "
            "would start no guest while they are in use for one; run the exporter in the guests"
        )
    counters = Counters(kernel, planned, machine, open_folder=chosen.open, most_files=most_files)
    for absent in plan.absent:
        log_refusal(Refusal(ABSENT_PMU, absent.problem), f"{absent.group}/{absent.event}")

    def find() -> list[Cgroup]:
        try:
            return chosen.find()
        except SourceUnavailable:  # reported by _hierarchy(); the host is counted anyway
            return []

    def read() -> list[Metric]:
        return families(counters.read(find()), plan.absent)

    with contextlib.suppress(SourceError):  # each scrape says it again
        counters.read(find())  # start counting now instead of at the first scrape
    return Source("perf_event", read, lambda: "perf_event_open")


def _hierarchy(procfs: Path) -> Source:
    """Return the source for the state of the cgroup hierarchy; cgroups' counts are among the counters'."""

    root = ""

    def read() -> list[Metric]:
        nonlocal root
        root = str(hierarchy(procfs, CONTROLLER).root)
        return []

    return Source("cgroups", read, lambda: root)


def _caches(sysfs: Path) -> Source:
    """Return the source for resctrl."""
    mounted = Resctrl(sysfs)
    return Source(
        "resctrl", lambda: resctrl.families(mounted.read()), lambda: str(sysfs / "fs/resctrl"), required=False
    )


def _profile(profiler: Profiler, at_end: contextlib.ExitStack) -> Source:
    """Start taking profiles; `at_end` stops that."""
    at_end.enter_context(profiler.background)
    return Source("profile", profiler.read, profiler.origin, required=False, background=profiler.background)


# --- Flags ------------------------------------------------------------------------------------------------------------


def _add_flags(known_flags: argparse.ArgumentParser) -> None:
    add = partial(cli.add, known_flags)
    several: dict[str, Any] = {"action": "append", "default": []}
    add("--events", "FILE", "YAML with the groups of events to count", type=Path, default=groups.DEFAULT)
    add(
        "--cgroup.include",
        "GLOB",
        "count these cgroups one by one, such as '/machine.slice/*'; ** stands for any levels; may be repeated",
        dest="include",
        **several,
    )
    add("--cgroup.exclude", "GLOB", "but not these", dest="exclude", **several)
    add(
        "--perf.max-counters",
        "NUMBER",
        "open no more counters than this; each takes a file descriptor: one for every event of every group, on every "
        "CPU, for the host and again for each cgroup",
        dest="most_counters",
        type=_count,
        default="16384",
    )
    each = "profile the machine by perf record, with this time from one profile to the next, such as 60s; 0: never "
    cli.add_interval(known_flags, "profile", f"{each}(default: 0)", default=argparse.SUPPRESS)
    seconds = "how long each profile samples; at most --profile.interval"
    add("--profile.seconds", "DURATION", seconds, dest="profile_seconds", type=duration, default="5s")
    frequency = "samples a second and CPU of events that are given without a period"
    add("--profile.frequency", "HZ", frequency, dest="profile_frequency", type=_count, default="99")
    add(
        "--profile.event",
        "EVENT[@PERIOD]",
        "event to sample, such as instructions, or each 10000th: cache-misses@10000; may be repeated (default: "
        "cache-misses, or cpu-clock where the processor counts no events)",
        dest="profile_events",
        type=Sampled.parse,
        action="append",
        default=argparse.SUPPRESS,
    )
    symbols = "symbols of each event that get series of their own"
    add("--profile.symbols", "NUMBER", symbols, dest="profile_symbols", type=_count, default="100")


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text) <= 100_000:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 100000")


def _profiler(given: argparse.Namespace, words: Sequence[str], default: str) -> Profiler | None:
    """Return the profiler, if profiling is enabled; this event is the default.

    Exits with 1 and one line if flags contradict each other.
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
