"""xentop-exporter: exposes metrics of Xen's domains to Prometheus.

Assembles the sources for live use, recording and playback. Values pass through source -> continuity -> toolstack ->
metrics.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Callable, NoReturn

from prometheus_client import Metric

from virtscope.toolkit import cli
from virtscope.toolkit.collect import Background, SourceError, SourceUnavailable
from virtscope.toolkit.record import Recordable, polled, record
from virtscope.toolkit.recording import Failed
from virtscope.toolkit.replay import Playback
from virtscope.toolkit.scrape import Exporter, Source
from virtscope.xen import libxenstat, metrics, recorded, xentop_text
from virtscope.xen.continuity import Accounts, Clocks, DuplicateNames, Places, WaitingClocks, WaitingTotal
from virtscope.xen.hypervisor import find_program, running_version
from virtscope.xen.libxenctrl import IdleTimes
from virtscope.xen.libxenstat import Libxenstat, RawNode
from virtscope.xen.model import NOTHING_MISSING, Child, Host, Missing, decoded
from virtscope.xen.netdev import NetDev, WhereReadable
from virtscope.xen.recorded import Printed, Snapshot
from virtscope.xen.runstate import INSTEAD, Runstate
from virtscope.xen.text_networks import TextNetworks
from virtscope.xen.toolstack import ReplayedToolstack, ToolstackPoller
from virtscope.xen.xentop import Xentop
from virtscope.xen.xentrace import MIN_INTERVAL, Windows
from virtscope.xen.xl import RawToolstack, Xl

log = logging.getLogger(__name__)

DEFAULT_PORT = 10290
SOURCES = ("libxenstat", "xentop")
_TOO_SHORT = (
    f"xentop-exporter: --xentrace.interval is too short: a window takes seconds; give at least {MIN_INTERVAL:g}s"
)
_NEEDS_XL = "xentop-exporter: --xentrace.interval needs --xl.interval: xl says on which CPUs a vCPU that waits may run"
_IN_TEXT = "xentop counts them and prints no line for each that can be read: run it with -n -x -v, and let no wrapper "
_IN_TEXT += "drop or change lines; `xentop -b -f -n -x -v -i 1` shows them"
_IN_LIBRARY = "they have one number; see `xentop -b -n -x -i 1` for whose they are"

AddGuests = Callable[[Host], Host]  # adds the toolstack's values to a host


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter, or its `record`, until it is stopped; exits with 1 and one line on error."""
    words = sys.argv[1:] if arguments is None else arguments
    with contextlib.ExitStack() as at_end:
        if words[:1] == ["record"]:
            given = cli.start(_with_flags(cli.recorder("xentop-exporter"), SOURCES), words[1:])
            source = choose_source(given, at_end)
            xl = recordable_toolstack(given.xl_interval, at_end) if given.xl_interval and not given.anonymise else []
            record("xentop", [recordable(source, given.sysfs), *xl], given)
            return
        about = "Exposes to Prometheus what Xen's Dom0 knows of its domains."
        known_flags = _with_flags(cli.parser("xentop-exporter", about, DEFAULT_PORT), (*SOURCES, cli.REPLAY))
        tracing = "run xentrace for 1 s every DURATION, at least 10s, to estimate which domains delay each other; "
        cli.add_interval(known_flags, "xentrace", f"{tracing}0: never", default="0")
        cli.add_replay(known_flags, add_source=False)
        given = cli.start(known_flags, words)
        played = cli.playback("xentop", given)
        cli.serve(Exporter("xentop", replayed(played) if played else live(given, at_end)), given)


def _with_flags(known_flags: argparse.ArgumentParser, choices: Sequence[str]) -> argparse.ArgumentParser:
    values = "where the values come from (default: libxenstat if it can be opened at the start, else xentop if it is "
    values += "installed)"
    cli.add(known_flags, "--source", "|".join(choices), values, type=cli.source(choices), default=argparse.SUPPRESS)
    asking = "time between two rounds of asking xl (or xm) for uuids, weights, caps, CPU pools and affinity; 0: never"
    cli.add_interval(known_flags, "xl", asking, default="30s")
    return known_flags


def choose_source(given: argparse.Namespace, at_end: contextlib.ExitStack) -> Libxenstat | Xentop:
    """Return the requested source, or the best available one; `at_end` stops it."""
    wanted = getattr(given, "source", "")
    library = Libxenstat(NetDev(given.procfs, given.sysfs), given.sysfs)
    xentop = find_program("xentop")
    if wanted == "xentop" and not xentop:
        sys.exit("xentop-exporter: xentop is not in PATH; install Xen's tools (Debian: xen-utils)")
    if not wanted and xentop:
        try:
            library.open()
        except SourceUnavailable as error:
            log.warning("libxenstat unavailable, falling back to xentop", extra={"fields": {"err": error}})
            wanted = "xentop"
    if wanted == "xentop" and xentop:
        child = Xentop(xentop)
        child.start()
        at_end.callback(child.close)
        return child
    return library


# --- Live -------------------------------------------------------------------------------------------------------------


def live(given: argparse.Namespace, at_end: contextlib.ExitStack) -> list[Source]:
    """Return the sources of this host; `at_end` stops them. Exits with 1 if a trace can't be taken."""
    if 0 < given.xentrace_interval < MIN_INTERVAL:
        sys.exit(_TOO_SHORT)
    if given.xentrace_interval and not given.xl_interval:
        sys.exit(_NEEDS_XL)
    source = choose_source(given, at_end)
    poller = ToolstackPoller(given.xl_interval) if given.xl_interval else None
    if poller:
        at_end.enter_context(poller.background)
    if isinstance(source, Xentop):
        version = running_version(Path(given.sysfs))
        net_dev = NetDev(given.procfs, given.sysfs)
        networks = WhereReadable(net_dev.read, str(net_dev.path), "xentop")
        text = live_text(lambda: Printed(source.read(), version), source.origin, poller, networks)
        return [*text, *([_without_ids("xentrace", "take libxenstat")] if given.xentrace_interval else [])]
    view, waits, runstate = LibraryView(poller.add_to if poller else None), WaitingView(), Runstate(given.sysfs)
    idle = IdleTimes(given.sysfs)

    def read_waiting() -> list[Metric]:
        runstate.open()
        # The two sources are read in parallel, so the node may be that of the previous scrape. Then a new guest is
        # missing until the next scrape; a guest that has ended has no answer.
        node = source.latest()
        return waits.families(_with_runstates(node, runstate)) if node else []

    sources = [
        Source("libxenstat", lambda: view.families(source.read(), idle.read()), source.origin),
        Source("runstate", read_waiting, runstate.origin, required=False),
    ]
    if poller:
        sources.append(_xl(poller))
    if poller and given.xentrace_interval:
        windows = Windows(given.xentrace_interval, poller.background, given.procfs)
        at_end.enter_context(windows.background)

        def read_estimates() -> list[Metric]:
            estimates, node = windows.background.latest(), source.latest()
            names = {domain.id: decoded(domain.name) for domain in (node.domains if node else ())}
            return metrics.wait_estimate_families(estimates, names)

        of_trace = windows.background
        sources.append(Source("xentrace", read_estimates, windows.origin, required=False, background=of_trace))
    return sources


def live_text(
    read: Callable[[], Printed], origin: Callable[[], str], poller: ToolstackPoller | None, networks: WhereReadable
) -> list[Source]:
    """Return xentop's source, with its toolstack and networks.

    `networks` are used only with the toolstack, which maps their domids to names.
    """
    view = TextView()
    if poller:
        of_domains, add_guests = TextNetworks(networks.vifs), poller.add_to
        view = TextView(lambda host: of_domains.add_to(add_guests(host)))
    return [
        Source("xentop", lambda: view.families(read()), lambda: origin() + networks.origin()),
        _without_ids("runstate", f"take libxenstat, or {INSTEAD}"),
        *([_xl(poller)] if poller else []),
    ]


def _xl(poller: ToolstackPoller) -> Source:
    background = poller.background

    def read() -> list[Metric]:
        return metrics.toolstack_families(background.latest())

    return Source("xl", read, poller.origin, required=False, background=background)


def _without_ids(source: str, instead: str) -> Source:
    """Return a placeholder for a source that needs ids, which xentop's text lacks; it raises SourceUnavailable."""

    def read() -> NoReturn:
        raise SourceUnavailable(f"xentop's text has no domain ids to ask for; {instead}")

    return Source(source, read, lambda: "", required=False)


def _with_runstates(node: RawNode, runstate: Runstate) -> Snapshot:
    """Return a node with its domains' run states; raises SourceError like `runstate`."""
    return Snapshot(node, tuple(runstate.read(domain.id for domain in node.domains)))


# --- Recorded ---------------------------------------------------------------------------------------------------------


def recordable(source: Libxenstat | Xentop, sysfs: str) -> Recordable:
    """Return a source for recording."""
    if isinstance(source, Xentop):
        version = running_version(Path(sysfs))
        contents = "xentop's text: every domain's name and values"
        return Recordable("xentop", contents, lambda: Printed(source.read(), version), recorded.anonymised_text)
    runstate = Runstate(sysfs)

    def read() -> Snapshot:
        node = source.read()
        try:
            return _with_runstates(node, runstate)
        except SourceError as error:
            return Snapshot(node, Failed.of(error))

    contents = "the host's values, and every domain's name and values"
    return Recordable("libxenstat", contents, read, recorded.anonymised_snapshot)


def recordable_toolstack(interval: float, at_end: contextlib.ExitStack) -> list[Recordable]:
    """Return the toolstack as a source for recording, polled from now on; `at_end` stops that."""
    xl = Xl()
    answers = Background("xl", lambda: recorded.without_secrets(xl.read()), interval, xl.programs)
    contents = "what xl tells: names, uuids, weights, caps, CPU pools; the host's name, boot parameters and build"
    return [polled(answers, contents, lambda answers, _: answers, at_end)]


def replayed(played: Playback) -> list[Source]:
    """Return the sources of a recording."""
    toolstack = ReplayedToolstack()

    def show_toolstack(raw: RawToolstack) -> list[Metric]:
        return metrics.toolstack_families(toolstack.parse(raw))

    def show_node() -> Callable[[Snapshot], list[Metric]]:
        view = LibraryView(toolstack.add_to, played.clock("libxenstat"))
        return lambda snapshot: view.families(snapshot.node)

    def show_text() -> Callable[[Printed], list[Metric]]:
        return TextView(toolstack.add_to, played.clock("xentop")).families

    def show_waiting() -> Callable[[Snapshot], list[Metric]]:
        return WaitingView(played.clock("runstate")).families

    if "xentop" in played.header.sources:
        sources = [
            played.source("xentop", "xentop", recorded.printed, show_text),
            _without_ids("runstate", f"take libxenstat, or {INSTEAD}"),
        ]
    else:
        sources = [
            played.source("libxenstat", "libxenstat", recorded.snapshot, show_node),
            played.source("runstate", "libxenstat", recorded.snapshot, show_waiting, required=False),
        ]
    if "xl" in played.header.sources:
        sources.append(played.source("xl", "xl", recorded.toolstack, lambda: show_toolstack, required=False))
    return sources


# --- From a source's values to metrics --------------------------------------------------------------------------------


class LibraryView:
    """Makes metric families of libxenstat's hosts; keeps state between scrapes."""

    def __init__(self, add_guests: AddGuests | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is that of the nodes."""
        self._add_guests = add_guests or (lambda host: host)
        self._clock = clock
        self._clocks = Clocks()
        self._accounts = Accounts()
        self._missing = NOTHING_MISSING

    def families(self, node: RawNode, idle: Sequence[int] | None = None) -> list[Metric]:
        """Return the families of a host, with the toolstack's values; `idle` as for Accounts."""
        host = libxenstat.host(node)
        self._missing = _log_missing(host.missing(), self._missing, _IN_LIBRARY)
        complete = self._add_guests(self._clocks.steady(host))
        return metrics.host_families(self._accounts.add_to(complete, self._clock(), idle))


class WaitingView:
    """Makes metric families of domains' run states; keeps state between scrapes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is that of the snapshots."""
        self._clock = clock
        self._clocks = WaitingClocks()
        self._total = WaitingTotal()

    def families(self, snapshot: Snapshot) -> list[Metric]:
        """Return the families of a snapshot; raises its SourceError."""
        accounts = self._clocks.steady(recorded.waiting(snapshot))
        vcpus = sum(len(domain.vcpus) for domain in snapshot.node.domains)
        return metrics.waiting_families(accounts, self._total.add(accounts, vcpus, self._clock()))


class TextView:
    """Makes metric families of xentop's iterations; keeps state between scrapes."""

    def __init__(self, add_guests: AddGuests | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is that of the iterations."""
        self._add_guests = add_guests or (lambda host: host)
        self._clock = clock
        self._accounts = Accounts()
        self._duplicate_names = DuplicateNames()
        self._places = Places()
        self._clocks = Clocks()
        self._unknown_line_logged = False
        self._missing = NOTHING_MISSING

    def families(self, printed: Printed) -> list[Metric]:
        """Return the families of an iteration; raises SourceMalformed like the parser."""
        host, unknown = xentop_text.parse(printed.iteration.text, printed.xen_version)
        if unknown and not self._unknown_line_logged:
            self._unknown_line_logged = True
            log.warning("unknown line from xentop", extra={"fields": {"line": unknown[0][:200]}})
        known_apart = self._clocks.steady(self._places.tell_apart(self._duplicate_names.tell_apart(host)))
        complete = self._accounts.add_to(self._add_guests(known_apart), self._clock())
        self._missing = _log_missing(complete.missing(), self._missing, _IN_TEXT)
        child = Child(printed.iteration.age, len(unknown), printed.iteration.starts)
        return metrics.host_families(complete) + metrics.child_families(child)


def _log_missing(now: Missing, before: Missing, advice: str) -> Missing:
    """Log the missing kinds of devices if they have changed, with advice; return the current ones."""
    counts = {kind: count for kind, count in now._asdict().items() if count}
    if list(map(bool, now)) != list(map(bool, before)):
        if counts:
            log.warning("devices skipped", extra={"fields": {**counts, "advice": advice}})
        else:
            log.info("no device is skipped any more")
    return now
