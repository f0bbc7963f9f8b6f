"""Exposes to Prometheus what Xen's Dom0 knows of its domains."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Callable

from prometheus_client import Metric

from virtscope.shell import flags, program
from virtscope.shell.background import Background
from virtscope.shell.durations import interval_or_never
from virtscope.shell.exporter import Exporter, Source
from virtscope.shell.record import Recordable, record
from virtscope.shell.recording import Failed
from virtscope.shell.replay import Playback
from virtscope.shell.sources import SourceError, SourceUnavailable
from virtscope.xentop import metrics, model, recorded, text
from virtscope.xentop.identity import Namesakes
from virtscope.xentop.model import Host
from virtscope.xentop.netdev import lost_by_libxenstat, with_vifs
from virtscope.xentop.recorded import Printed, Snapshot
from virtscope.xentop.source.libxenstat import Libxenstat, RawNode, running_version
from virtscope.xentop.source.netdev import NetDev
from virtscope.xentop.source.runstate import INSTEAD, Runstate
from virtscope.xentop.source.xentop import Xentop, find_xentop
from virtscope.xentop.source.xl import Xl
from virtscope.xentop.toolstack.keeper import Keeper, Replayed

log = logging.getLogger(__name__)

DEFAULT_PORT = 10290


SOURCES = ("libxenstat", "xentop")

AddTold = Callable[[Host], Host]  # adds what the toolstack tells of a host


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter, or its `record`, until it is told to stop; exits with 1 and one line when it can't start."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["record"]:
        known_flags = flags.recorder("xentop-exporter")
        _add_flags(known_flags, SOURCES)
        given = program.start(known_flags, words[1:])
        with contextlib.ExitStack() as at_end:
            source = choose_source(getattr(given, "source", ""), given.sysfs, at_end)
            told = recordable_toolstack(given.xl_interval, at_end) if given.xl_interval and not given.anonymise else []
            record("xentop", [recordable(source, given.procfs, given.sysfs), *told], given)
        return
    known_flags = flags.parser("xentop-exporter", __doc__, DEFAULT_PORT)
    _add_flags(known_flags, (*SOURCES, flags.REPLAY))
    flags.add_replay(known_flags)
    given = program.start(known_flags, words)
    with contextlib.ExitStack() as at_end:
        if played := program.playback("xentop", given):
            sources = replayed(played)
        else:
            source = choose_source(getattr(given, "source", ""), given.sysfs, at_end)
            keeper = toolstack(given.xl_interval, at_end)
            sources = live(source, given.procfs, given.sysfs, keeper)
        program.serve(Exporter("xentop", sources, given.procfs), given)


def _add_flags(known_flags: argparse.ArgumentParser, choices: Sequence[str]) -> None:
    known_flags.add_argument(
        "--source",
        type=flags.source(choices),
        default=argparse.SUPPRESS,
        metavar="|".join(choices),
        help="where the figures come from (default: libxenstat if it can be opened at the start, else xentop if it is "
        "installed)",
    )
    known_flags.add_argument(
        "--xl.interval",
        dest="xl_interval",
        type=interval_or_never,
        default="30s",
        metavar="DURATION",
        help="time between two rounds of asking xl (or xm) for uuids, weights, caps, CPU pools and affinity; 0: never",
    )


def choose_source(wanted: str, sysfs: str, at_end: contextlib.ExitStack) -> Libxenstat | Xentop:
    """Return the source that the user wants, or the best that can be used now; `at_end` ends what it started."""
    library = Libxenstat(sysfs)
    xentop = find_xentop()
    if wanted == "xentop" and not xentop:
        sys.exit("xentop-exporter: xentop is not in PATH; install Xen's tools (Debian: xen-utils)")
    if not wanted and xentop:
        try:
            library.open()
        except SourceUnavailable as error:
            log.warning("libxenstat can't be used, so xentop is", extra={"fields": {"err": error}})
            wanted = "xentop"
    if wanted == "xentop" and xentop:
        child = Xentop(xentop)
        child.start()
        at_end.callback(child.close)
        return child
    return library


def toolstack(interval: float, at_end: contextlib.ExitStack) -> Keeper | None:
    """Return the toolstack's keeper, started, if it is to be asked at all; `at_end` ends it."""
    if not interval:
        return None
    keeper = Keeper(interval)
    keeper.start()
    at_end.callback(keeper.close)
    return keeper


def live(source: Libxenstat | Xentop, procfs: str, sysfs: str, keeper: Keeper | None) -> list[Source]:
    """Return what shows a source's figures as they are now, and what goes with it."""
    add_told = keeper.add_to if keeper else add_nothing
    told = [Source("xl", keeper.read, keeper.origin, required=False, background=keeper.background)] if keeper else []
    if isinstance(source, Xentop):
        view, version = TextView(add_told), running_version(Path(sysfs))
        return [
            Source("xentop", lambda: view.families(Printed(source.read(), version)), source.origin),
            Source("runstate", waiting_without_ids, lambda: "", required=False),
            *told,
        ]
    host = LibraryReader(source, NetDev(procfs, sysfs))
    runstate = Runstate(sysfs)
    return [
        Source("libxenstat", lambda: node_families(host.read(), add_told), host.origin),
        Source("runstate", lambda: read_waiting(runstate, host), runstate.origin, required=False),
        *told,
    ]


def recordable(source: Libxenstat | Xentop, procfs: str, sysfs: str) -> Recordable:
    """Return what a recording takes of a source, and what goes with it."""
    if isinstance(source, Xentop):
        version = running_version(Path(sysfs))
        contents = "xentop's text: every domain's name and figures"
        return Recordable("xentop", contents, lambda: Printed(source.read(), version), recorded.anonymised_text)
    host = LibraryReader(source, NetDev(procfs, sysfs))
    runstate = Runstate(sysfs)

    def read() -> Snapshot:
        node = host.read()
        try:
            return Snapshot(node, tuple(runstate.read(domain.id for domain in node.domains)))
        except SourceError as error:
            return Snapshot(node, Failed.of(error))

    contents = "the host's figures, and every domain's name and figures"
    return Recordable("libxenstat", contents, read, recorded.anonymised_snapshot)


def recordable_toolstack(interval: float, at_end: contextlib.ExitStack) -> list[Recordable]:
    """Return what a recording takes of the toolstack, asked from now on; `at_end` ends that."""
    xl = Xl()
    answers = Background("xl", lambda: recorded.without_secrets(xl.read()), interval)
    answers.start()
    at_end.callback(xl.close)
    at_end.callback(answers.close)
    contents = "what xl tells: names, uuids, weights, caps, CPU pools; the host's name, boot parameters and build"
    return [Recordable("xl", contents, answers.latest, lambda answers, _: answers)]


def replayed(played: Playback) -> list[Source]:
    """Return what shows the figures of a recording."""
    told = Replayed()
    if "xentop" in played.header.sources:
        sources = [
            played.source("xentop", "xentop", recorded.printed, lambda: TextView(told.add_to).families),
            Source("runstate", waiting_without_ids, lambda: "", required=False),
        ]
    else:

        def show(snapshot: Snapshot) -> list[Metric]:
            return node_families(snapshot.node, told.add_to)

        sources = [
            played.source("libxenstat", "libxenstat", recorded.snapshot, lambda: show),
            played.source("runstate", "libxenstat", recorded.snapshot, lambda: recorded_waiting, required=False),
        ]
    if "xl" in played.header.sources:
        sources.append(played.source("xl", "xl", recorded.toolstack, lambda: told.families, required=False))
    return sources


class LibraryReader:
    """Reads libxenstat's snapshots, their networks completed from /proc/net/dev."""

    def __init__(self, library: Libxenstat, net_dev: NetDev) -> None:
        self._latest: RawNode | None = None  # while the library gives any
        self._idle = threading.Event()  # not before the first read either
        self._library = library
        self._net_dev = net_dev
        self._networks_from = ""
        self._complaint = ""

    def read(self) -> RawNode:
        """Return the host as it is now; raises SourceError as the library does."""
        self._idle.clear()
        try:
            self._latest = node = self._library.read()
        except SourceError:
            self._latest = None
            raise
        finally:
            self._idle.set()
        return self._completed(node)

    def latest(self) -> RawNode | None:
        """Return the last snapshot, None if it failed; one that is being taken is waited for, but not for long."""
        self._idle.wait(0.2)
        return self._latest

    def origin(self) -> str:
        """Return the library's file name, and where the networks come from that it has lost."""
        return self._library.origin() + self._networks_from

    def _completed(self, node: RawNode) -> RawNode:
        complaint = ""
        try:
            completed = with_vifs(node, self._net_dev.read())
        except SourceError as error:  # what libxenstat has of networks is still good
            completed, complaint = node, str(error)
        if complaint and complaint != self._complaint:
            log.warning("networks are libxenstat's alone", extra={"fields": {"err": complaint}})
        self._complaint = complaint
        self._networks_from = f", networks from {self._net_dev.path}" if lost_by_libxenstat(node, completed) else ""
        return completed


def add_nothing(host: Host) -> Host:
    """Stand for the toolstack where it isn't asked."""
    return host


def node_families(node: RawNode, add_told: AddTold = add_nothing) -> list[Metric]:
    """Return the families of a snapshot of libxenstat's, with what `add_told` adds to the host."""
    return metrics.families(add_told(model.from_libxenstat(node)))


def waiting_without_ids() -> list[Metric]:
    """Stand for the runstate source beside xentop's text; raises SourceUnavailable."""
    raise SourceUnavailable(f"xentop's text has no domain ids to ask for; take libxenstat, or {INSTEAD}")


def read_waiting(runstate: Runstate, host: LibraryReader) -> list[Metric]:
    """Return how long the domains of the last snapshot have waited; raises SourceError as `runstate` does.

    Where that is of the scrape before, as the two sources are read at once, a new guest is missing here until the next
    one; a guest that is gone is not answered for.
    """
    runstate.open()
    node = host.latest()
    if node is None:
        return []
    return metrics.waiting_families(model.waiting(node, runstate.read(domain.id for domain in node.domains)))


def recorded_waiting(snapshot: Snapshot) -> list[Metric]:
    """Return how long the domains of a recorded snapshot had waited; raises SourceError as it was raised then."""
    if isinstance(snapshot.runstates, Failed):
        raise snapshot.runstates.error()
    return metrics.waiting_families(model.waiting(snapshot.node, snapshot.runstates))


class TextView:
    """Turns xentop's iterations into metric families, and keeps what that needs from one iteration to the next."""

    def __init__(self, add_told: AddTold = add_nothing) -> None:
        self._add_told = add_told
        self._namesakes = Namesakes()
        self._unknown_line_said = False

    def families(self, printed: Printed) -> list[Metric]:
        """Return the families of an iteration; raises SourceRubbish as the parser does."""
        host = text.parse(printed.iteration.text)
        if host.unknown and not self._unknown_line_said:
            self._unknown_line_said = True
            log.warning(
                "xentop printed a line that is not understood", extra={"fields": {"line": host.unknown[0][:200]}}
            )
        told_apart = self._namesakes.tell_apart(model.from_text(host, printed.xen_version))
        return metrics.families(self._add_told(told_apart)) + metrics.text_families(
            printed.iteration, len(host.unknown)
        )
