"""xentop-exporter: exposes to Prometheus what Xen's Dom0 knows of its domains.

Here the sources are put together: which there are, live, for a recording and of one, and the way of each one's values:
source -> continuity -> toolstack -> metrics.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Callable, TypeVar

from prometheus_client import Metric

from virtscope.toolkit import cli
from virtscope.toolkit.cli import interval_or_never
from virtscope.toolkit.collect import Background, SourceError, SourceUnavailable
from virtscope.toolkit.record import PATIENCE_SECONDS, Recordable, record
from virtscope.toolkit.recording import Failed
from virtscope.toolkit.replay import Playback
from virtscope.toolkit.scrape import Exporter, Source
from virtscope.xen import metrics, recorded, xentop_text
from virtscope.xen.continuity import Clocks, DuplicateNames, Places, WaitingClocks
from virtscope.xen.devices import network
from virtscope.xen.hypervisor import find_program, running_version
from virtscope.xen.libxenstat import MODEL, HostReader, Libxenstat, Shape
from virtscope.xen.model import Child, Host, Missing, Network, Waiting
from virtscope.xen.netdev import NetDev, WhereReadable
from virtscope.xen.recorded import RAW, Printed, Snapshot
from virtscope.xen.runstate import INSTEAD, Runstate, waiting
from virtscope.xen.text_networks import TextNetworks
from virtscope.xen.toolstack import Replayed, ToolstackPoller
from virtscope.xen.xentop import Xentop
from virtscope.xen.xentrace import LEAST_INTERVAL, Windows
from virtscope.xen.xl import RawToolstack, Xl

log = logging.getLogger(__name__)

DEFAULT_PORT = 10290
SOURCES = ("libxenstat", "xentop")

N = TypeVar("N")
AddGuests = Callable[[Host], Host]  # adds what the toolstack knows of a host


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter, or its `record`, until it is stopped; exits with 1 and one line when it can't start."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["record"]:
        _record(words[1:])
    else:
        _serve(words)


def _record(words: Sequence[str]) -> None:
    known_flags = cli.recorder("xentop-exporter")
    _add_flags(known_flags, SOURCES)
    given = cli.start(known_flags, words)
    with contextlib.ExitStack() as at_end:
        source = choose_source(getattr(given, "source", ""), given.sysfs, RAW, at_end)
        xl = recordable_toolstack(given.xl_interval, at_end) if given.xl_interval and not given.anonymise else []
        record("xentop", [recordable(source, given.procfs, given.sysfs), *xl], given)


def _serve(words: Sequence[str]) -> None:
    known_flags = cli.parser(
        "xentop-exporter", "Exposes to Prometheus what Xen's Dom0 knows of its domains.", DEFAULT_PORT
    )
    _add_flags(known_flags, (*SOURCES, cli.REPLAY))
    known_flags.add_argument(
        "--xentrace.interval",
        dest="trace_interval",
        type=interval_or_never,
        default="0",
        metavar="DURATION",
        help="run xentrace for 1 s every DURATION, at least 10s, to estimate which domains delay each other; 0: never",
    )
    cli.add_replay(known_flags)
    given = cli.start(known_flags, words)
    with contextlib.ExitStack() as at_end:
        if played := cli.playback("xentop", given):
            sources = replayed(played)
        else:
            _refuse_trace(given.trace_interval, given.xl_interval)
            source = choose_source(getattr(given, "source", ""), given.sysfs, MODEL, at_end)
            poller = toolstack(given.xl_interval, at_end)
            windows = trace(given.trace_interval, given.procfs, poller, source, at_end)
            sources = live(source, given.procfs, given.sysfs, poller, windows)
        cli.serve(Exporter("xentop", sources), given)


def _refuse_trace(interval: float, xl_interval: float) -> None:
    """Exit with 1 and one line where no trace can be taken as the flags say."""
    if 0 < interval < LEAST_INTERVAL:
        sys.exit(
            f"xentop-exporter: --xentrace.interval ({interval:g} s) is too short: a window, and what is asked for it, "
            f"take seconds; give at least {LEAST_INTERVAL:g}s"
        )
    if interval and not xl_interval:
        sys.exit(
            "xentop-exporter: --xentrace.interval needs --xl.interval: xl says on which CPUs a vCPU that waits may run"
        )


def _add_flags(known_flags: argparse.ArgumentParser, choices: Sequence[str]) -> None:
    known_flags.add_argument(
        "--source",
        type=cli.source(choices),
        default=argparse.SUPPRESS,
        metavar="|".join(choices),
        help="where the values come from (default: libxenstat if it can be opened at the start, else xentop if it is "
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


def choose_source(wanted: str, sysfs: str, shape: Shape[N], at_end: contextlib.ExitStack) -> Libxenstat[N] | Xentop:
    """Return the source that the user wants, or the best that can be used now; `at_end` ends what it started."""
    library = Libxenstat(shape, sysfs)
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


def toolstack(interval: float, at_end: contextlib.ExitStack) -> ToolstackPoller | None:
    """Return the toolstack's poller, started, if it is to be asked at all; `at_end` ends it."""
    if not interval:
        return None
    poller = ToolstackPoller(interval)
    poller.start()
    at_end.callback(poller.close)
    return poller


def trace(
    interval: float,
    procfs: str,
    poller: ToolstackPoller | None,
    source: Libxenstat[Host] | Xentop,
    at_end: contextlib.ExitStack,
) -> Windows | None:
    """Return the windows of a trace, if any are to be taken; started where the source knows domains by their ids."""
    if not interval or poller is None:
        return None
    windows = Windows(interval, poller.background, procfs)
    if isinstance(source, Libxenstat):
        windows.start()
        at_end.callback(windows.close)
    return windows


def live(
    source: Libxenstat[Host] | Xentop, procfs: str, sysfs: str, poller: ToolstackPoller | None, windows: Windows | None
) -> list[Source]:
    """Return what shows a source's values as they are now, and what goes with it."""
    if isinstance(source, Xentop):
        version = running_version(Path(sysfs))
        net_dev = NetDev(network, procfs, sysfs)
        networks = WhereReadable(net_dev.read, str(net_dev.path), "xentop")
        text = live_text(lambda: Printed(source.read(), version), source.origin, poller, networks)
        return [*text, *([Source("xentrace", _no_ids_to_name, lambda: "", required=False)] if windows else [])]
    add_guests = poller.add_to if poller else _add_nothing
    xl = [_xl(poller)] if poller else []
    host, library = HostReader(source, NetDev(network, procfs, sysfs)), LibraryView(add_guests)
    runstate, clocks = Runstate(waiting, sysfs), WaitingClocks()
    return [
        Source("libxenstat", lambda: library.families(host.read()), host.origin),
        Source(
            "runstate",
            lambda: metrics.waiting_families(clocks.steady(_waiting(runstate, host))),
            runstate.origin,
            required=False,
        ),
        *xl,
        *([_wait_estimates(windows, host)] if windows else []),
    ]


def live_text(
    read: Callable[[], Printed],
    origin: Callable[[], str],
    poller: ToolstackPoller | None,
    networks: WhereReadable[Network],
) -> list[Source]:
    """Return what shows the values that xentop prints now, and what goes with them.

    The networks are taken from there if the toolstack is asked, which tells whose they are.
    """
    if poller:
        of_domains = TextNetworks(networks.vifs)
        text = TextView(lambda host: of_domains.add_to(poller.add_to(host)))
    else:
        text = TextView()
    return [
        Source("xentop", lambda: text.families(read()), lambda: origin() + networks.origin()),
        Source("runstate", _no_ids_to_ask_for, lambda: "", required=False),
        *([_xl(poller)] if poller else []),
    ]


def _xl(poller: ToolstackPoller) -> Source:
    def read() -> list[Metric]:
        return metrics.toolstack_families(poller.background.latest(), dict(poller.rounds.problems))

    return Source("xl", read, poller.origin, required=False, background=poller.background)


def _wait_estimates(windows: Windows, host: HostReader[Host]) -> Source:
    def read() -> list[Metric]:
        estimates, latest = windows.background.latest(), host.latest()
        # Of the scrape before, as the two sources are read at once.
        names = {domain.domid or 0: domain.name for domain in (latest.domains if latest else ())}
        return metrics.wait_estimate_families(estimates, names)

    return Source("xentrace", read, windows.origin, required=False, background=windows.background)


def _waiting(runstate: Runstate[tuple[str, int], Waiting], host: HostReader[Host]) -> list[Waiting]:
    """Return how long the domains of the last snapshot have waited; raises SourceError as `runstate` does.

    Where that is of the scrape before, as the two sources are read at once, a new guest is missing here until the
    next one; a guest that is gone is not answered for.
    """
    runstate.open()
    latest = host.latest()
    domains = latest.domains if latest else ()
    return runstate.read((domain.domid or 0, (domain.name, len(domain.vcpus))) for domain in domains)


def _no_ids_to_ask_for() -> list[Metric]:
    """Stand for the runstate source beside xentop's text; raises SourceUnavailable."""
    raise SourceUnavailable(f"xentop's text has no domain ids to ask for; take libxenstat, or {INSTEAD}")


def _no_ids_to_name() -> list[Metric]:
    """Stand for the xentrace source beside xentop's text; raises SourceUnavailable."""
    raise SourceUnavailable("xentop's text has no domain ids, by which a trace knows domains; take libxenstat")


def recordable(source: Libxenstat[recorded.RawNode] | Xentop, procfs: str, sysfs: str) -> Recordable:
    """Return what a recording takes of a source, and what goes with it."""
    if isinstance(source, Xentop):
        version = running_version(Path(sysfs))
        contents = "xentop's text: every domain's name and values"
        return Recordable("xentop", contents, lambda: Printed(source.read(), version), recorded.anonymised_text)
    host = HostReader(source, NetDev(recorded.raw_network, procfs, sysfs))
    runstate = Runstate(recorded.raw_runstate, sysfs)

    def read() -> Snapshot:
        node = host.read()
        try:
            return Snapshot(node, tuple(runstate.read((domain.id, domain) for domain in node.domains)))
        except SourceError as error:
            return Snapshot(node, Failed.of(error))

    contents = "the host's values, and every domain's name and values"
    return Recordable("libxenstat", contents, read, recorded.anonymised_snapshot)


def recordable_toolstack(interval: float, at_end: contextlib.ExitStack) -> list[Recordable]:
    """Return what a recording takes of the toolstack, asked from now on; `at_end` ends that."""
    xl = Xl()
    answers = Background("xl", lambda: recorded.without_secrets(xl.read()), interval)
    answers.start()
    at_end.callback(xl.close)
    at_end.callback(answers.close)
    answers.wait_for_first(PATIENCE_SECONDS)
    contents = "what xl tells: names, uuids, weights, caps, CPU pools; the host's name, boot parameters and build"
    return [Recordable("xl", contents, answers.latest, lambda answers, _: answers)]


def replayed(played: Playback) -> list[Source]:
    """Return what shows the values of a recording."""
    guests = Replayed()

    def show_text() -> Callable[[Printed], list[Metric]]:
        return TextView(guests.add_to).families

    def show_host() -> Callable[[Snapshot], list[Metric]]:
        view = LibraryView(guests.add_to)
        return lambda snapshot: view.families(recorded.host(snapshot.node))

    def show_waiting() -> Callable[[Snapshot], list[Metric]]:
        clocks = WaitingClocks()
        return lambda snapshot: metrics.waiting_families(clocks.steady(recorded.waiting(snapshot)))

    def show_toolstack() -> Callable[[RawToolstack], list[Metric]]:
        return lambda raw: metrics.toolstack_families(guests.understand(raw), dict(guests.rounds.problems))

    if "xentop" in played.header.sources:
        sources = [
            played.source("xentop", "xentop", recorded.printed, show_text),
            Source("runstate", _no_ids_to_ask_for, lambda: "", required=False),
        ]
    else:
        sources = [
            played.source("libxenstat", "libxenstat", recorded.snapshot, show_host),
            played.source("runstate", "libxenstat", recorded.snapshot, show_waiting, required=False),
        ]
    if "xl" in played.header.sources:
        sources.append(played.source("xl", "xl", recorded.toolstack, show_toolstack, required=False))
    return sources


def _add_nothing(host: Host) -> Host:
    """Stand for the toolstack where it isn't asked."""
    return host


class LibraryView:
    """The way of libxenstat's hosts to metric families, with what has to be kept from one to the next."""

    def __init__(self, add_guests: AddGuests = _add_nothing) -> None:
        self._add_guests = add_guests
        self._clocks = Clocks()
        self._missing = _Missing("they have one number; see `xentop -b -n -x -i 1` for whose they are")

    def families(self, host: Host) -> list[Metric]:
        """Return the families of a host, with what the toolstack adds to it."""
        self._missing.note(host.missing())
        return metrics.host_families(self._add_guests(self._clocks.steady(host)))


class TextView:
    """The way of xentop's iterations to metric families, with what has to be kept from one to the next."""

    def __init__(self, add_guests: AddGuests = _add_nothing) -> None:
        self._add_guests = add_guests
        self._duplicate_names = DuplicateNames()
        self._places = Places()
        self._clocks = Clocks()
        self._unknown_line_logged = False
        self._missing = _Missing(
            "xentop counts them and prints no line for each that can be read: run it with -n -x -v, and let no wrapper "
            "drop or change lines; `xentop -b -f -n -x -v -i 1` shows them"
        )

    def families(self, printed: Printed) -> list[Metric]:
        """Return the families of an iteration; raises SourceMalformed as the parser does."""
        host, unknown = xentop_text.parse(printed.iteration.text, printed.xen_version)
        if unknown and not self._unknown_line_logged:
            self._unknown_line_logged = True
            log.warning("unknown line from xentop", extra={"fields": {"line": unknown[0][:200]}})
        known_apart = self._clocks.steady(self._places.tell_apart(self._duplicate_names.tell_apart(host)))
        complete = self._add_guests(known_apart)
        self._missing.note(complete.missing())
        child = Child(printed.iteration.age, len(unknown), printed.iteration.starts)
        return metrics.host_families(complete) + metrics.child_families(child)


class _Missing:
    """Says in the log which kinds of devices are missing, when others are than before, and what to do."""

    def __init__(self, advice: str) -> None:
        self._advice = advice
        self._kinds: list[str] = []

    def note(self, missing: Missing) -> None:
        """Look at what is missing now."""
        counts = {kind: count for kind, count in missing._asdict().items() if count}
        if list(counts) == self._kinds:
            return
        self._kinds = list(counts)
        if counts:
            log.warning("devices skipped", extra={"fields": {**counts, "advice": self._advice}})
        else:
            log.info("no device is skipped any more")
