"""Exposes to Prometheus what Xen's Dom0 knows of its domains."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import Metric

from virtscope.shell import flags, program
from virtscope.shell.exporter import Exporter, Source
from virtscope.shell.sources import SourceError, SourceUnavailable
from virtscope.xentop import metrics, model, text
from virtscope.xentop.identity import Namesakes
from virtscope.xentop.netdev import lost_by_libxenstat, with_vifs
from virtscope.xentop.source.libxenstat import Libxenstat, RawNode, running_version
from virtscope.xentop.source.netdev import NetDev
from virtscope.xentop.source.runstate import INSTEAD, Runstate
from virtscope.xentop.source.xentop import Xentop, find_xentop

log = logging.getLogger(__name__)

DEFAULT_PORT = 10290


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter until it is told to stop; exits with 1 and one line when it can't start."""
    known_flags = flags.parser("xentop-exporter", __doc__, DEFAULT_PORT)
    known_flags.add_argument(
        "--source",
        choices=["libxenstat", "xentop"],
        default=argparse.SUPPRESS,
        help="where the figures come from (default: libxenstat if it can be opened at the start, else xentop if it is "
        "installed)",
    )
    given = program.start(known_flags, arguments)
    with contextlib.ExitStack() as at_end:
        sources = choose_sources(getattr(given, "source", None), given.procfs, given.sysfs, at_end)
        program.serve(Exporter("xentop", sources, given.procfs), given)


def choose_sources(wanted: str | None, procfs: str, sysfs: str, at_end: contextlib.ExitStack) -> list[Source]:
    """Return the source that the user wants, or the best that can be used now, and what goes with it.

    `at_end` ends what was started.
    """
    library = Libxenstat(sysfs)
    xentop = find_xentop()
    if wanted == "xentop" and not xentop:
        sys.exit("xentop-exporter: xentop is not in PATH; install Xen's tools (Debian: xen-utils)")
    if wanted is None and xentop:
        try:
            library.open()
        except SourceUnavailable as error:
            log.warning("libxenstat can't be used, so xentop is", extra={"fields": {"err": error}})
            wanted = "xentop"
    if wanted == "xentop" and xentop:
        child = Xentop(xentop)
        child.start()
        at_end.callback(child.close)
        return [
            Source("xentop", TextReader(child, running_version(Path(sysfs))).read, child.origin),
            Source("runstate", waiting_without_ids, lambda: "", required=False),
        ]
    host = LibraryReader(library, NetDev(procfs, sysfs))
    runstate = Runstate(sysfs)
    return [
        Source("libxenstat", host.read, host.origin),
        Source("runstate", lambda: read_waiting(runstate, host.latest), runstate.origin, required=False),
    ]


class LibraryReader:
    """Turns libxenstat's snapshots into metric families, their networks completed from /proc/net/dev."""

    def __init__(self, library: Libxenstat, net_dev: NetDev) -> None:
        self.latest: RawNode | None = None  # the last snapshot, while the library gives any
        self._library = library
        self._net_dev = net_dev
        self._networks_from = ""
        self._complaint = ""

    def read(self) -> list[Metric]:
        """Return the families of the host as it is now; raises SourceError as the library does."""
        try:
            self.latest = node = self._library.read()
        except SourceError:
            self.latest = None
            raise
        return metrics.families(model.from_libxenstat(self._completed(node)))

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


def waiting_without_ids() -> list[Metric]:
    """Stand for the runstate source beside xentop's text; raises SourceUnavailable."""
    raise SourceUnavailable(f"xentop's text has no domain ids to ask for; take libxenstat, or {INSTEAD}")


def read_waiting(runstate: Runstate, node: RawNode | None) -> list[Metric]:
    """Return how long the domains of the last snapshot have waited.

    That is the one of the scrape before: the two sources are read at once, and neither waits for the other. So a guest
    shows here one scrape later than there; one that is gone is not answered for.
    """
    accounts = runstate.read(domain.id for domain in node.domains) if node else runstate.read(())
    return metrics.waiting_families(model.waiting(node, accounts)) if node else []


class TextReader:
    """Turns xentop's iterations into metric families, and keeps what that needs from one iteration to the next."""

    def __init__(self, child: Xentop, xen_version: str | None) -> None:
        self._child = child
        self._xen_version = xen_version
        self._namesakes = Namesakes()
        self._unknown_line_said = False

    def read(self) -> list[Metric]:
        """Return the families of the last whole iteration; raises SourceError as the child and the parser do."""
        iteration = self._child.read()
        host = text.parse(iteration.text)
        if host.unknown and not self._unknown_line_said:
            self._unknown_line_said = True
            log.warning(
                "xentop printed a line that is not understood", extra={"fields": {"line": host.unknown[0][:200]}}
            )
        told_apart = self._namesakes.tell_apart(model.from_text(host, self._xen_version))
        return metrics.families(told_apart) + metrics.text_families(iteration, len(host.unknown))
