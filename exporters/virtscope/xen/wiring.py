"""Which sources there are, of this host, for a recording and of one, and what shows the figures of each."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Callable

from prometheus_client import Metric

from virtscope.toolkit.background import Background
from virtscope.toolkit.exporter import Source
from virtscope.toolkit.record import Recordable
from virtscope.toolkit.recording import Failed
from virtscope.toolkit.replay import Playback
from virtscope.toolkit.sources import SourceError
from virtscope.xen import recorded
from virtscope.xen.recorded import Printed, Snapshot
from virtscope.xen.source.host import HostReader
from virtscope.xen.source.libxenstat import Libxenstat, running_version
from virtscope.xen.source.netdev import NetDev
from virtscope.xen.source.runstate import Runstate
from virtscope.xen.source.xentop import Xentop
from virtscope.xen.source.xl import Xl
from virtscope.xen.toolstack.keeper import Keeper, Replayed
from virtscope.xen.view import (
    LibraryView,
    TextView,
    WaitingView,
    add_nothing,
    waiting_without_ids,
)


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
    host, library_view = HostReader(source, NetDev(procfs, sysfs)), LibraryView(add_told)
    runstate, waiting_view = Runstate(sysfs), WaitingView()
    return [
        Source("libxenstat", lambda: library_view.families(host.read()), host.origin),
        Source("runstate", lambda: waiting_view.read(runstate, host), runstate.origin, required=False),
        *told,
    ]


def recordable(source: Libxenstat | Xentop, procfs: str, sysfs: str) -> Recordable:
    """Return what a recording takes of a source, and what goes with it."""
    if isinstance(source, Xentop):
        version = running_version(Path(sysfs))
        contents = "xentop's text: every domain's name and figures"
        return Recordable("xentop", contents, lambda: Printed(source.read(), version), recorded.anonymised_text)
    host = HostReader(source, NetDev(procfs, sysfs))
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

        def show() -> Callable[[Snapshot], list[Metric]]:
            view = LibraryView(told.add_to)
            return lambda snapshot: view.families(snapshot.node)

        sources = [
            played.source("libxenstat", "libxenstat", recorded.snapshot, show),
            played.source("runstate", "libxenstat", recorded.snapshot, lambda: WaitingView().recorded, required=False),
        ]
    if "xl" in played.header.sources:
        sources.append(played.source("xl", "xl", recorded.toolstack, lambda: told.families, required=False))
    return sources
