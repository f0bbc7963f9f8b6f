"""Exposes who delays whom: at CPUs, disks and in memory, and by interrupts: containers, KVM guests, systemd units."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Callable, Protocol

from prometheus_client import Metric

from virtscope.sched import metrics, privileges, top
from virtscope.sched.counting import CpuWaits, DiskDelays, InterruptDelays, MemoryStalls, add_flags
from virtscope.sched.privileges import PrivilegesError
from virtscope.toolkit import cli
from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.hierarchy import GlobError
from virtscope.toolkit.scrape import Exporter, Source

log = logging.getLogger(__name__)

DEFAULT_PORT = 10298


class _Counted(Protocol):
    """What one source's programs count."""

    def read(self) -> tuple[Any, ...]: ...
    def origin(self) -> str: ...
    def needed(self) -> int: ...


_COUNTED: tuple[tuple[str, Callable[[argparse.Namespace], _Counted], Callable[..., list[Metric]]], ...] = (
    ("sched_switch", CpuWaits, metrics.of_cpu),
    ("block", DiskDelays, metrics.of_disks),
    ("interrupts", InterruptDelays, metrics.of_interrupts),
    ("memory", MemoryStalls, metrics.of_memory),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter, or its `top`, until it is stopped; exits with 1 and one line on error."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["top"]:
        top.main(arguments[1:])
        return
    known_flags = cli.parser("sched-exporter", __doc__, DEFAULT_PORT)
    known_flags.epilog = "To see who waits for whom in this terminal: sched-exporter top --help"
    add_flags(known_flags)
    known_flags.add_argument(
        "--no-disks", action="store_true", help="leave disk delays out: they cost about 1 µs of CPU per disk request"
    )
    known_flags.add_argument(
        "--no-interrupts", action="store_true", help="leave interrupts out: they cost 0.4 µs of CPU per softirq"
    )
    given = cli.start(known_flags, arguments)
    try:
        sources = _sources(given)
    except (GlobError, PrivilegesError) as error:
        sys.exit(f"sched-exporter: {error}")
    cli.serve(Exporter("sched", sources), given)


def _sources(given: argparse.Namespace) -> list[Source]:
    """Load the programs, or return why that failed; then drop all capabilities that aren't needed any more.

    They are loaded once, before other threads start; without the capabilities they can't be loaded later.
    """
    left_out = {"block": given.no_disks, "interrupts": given.no_interrupts}
    sources, needed = [], 0
    for name, load, families in _COUNTED:
        if left_out.get(name):
            continue
        try:
            counted = load(given)
            needed |= counted.needed()
            sources.append(_source(name, partial(_metrics, counted, families), counted.origin))
        except SourceError as error:
            sources.append(_absent(name, error))
    privileges.keep_only(needed)
    return sources


def _metrics(counted: _Counted, families: Callable[..., list[Metric]]) -> list[Metric]:
    return families(*counted.read())


def _source(name: str, read: Callable[[], list[Metric]], origin: Callable[[], str]) -> Source:
    return Source(name, read, origin, required=False)


def _absent(name: str, error: SourceError) -> Source:
    log.warning("source can't be measured", extra={"fields": {"source": name, "why": error}})

    def read() -> list[Metric]:
        raise error.with_traceback(None)  # raising the same exception again would accumulate tracebacks

    return _source(name, read, str)
