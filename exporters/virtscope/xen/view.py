"""What a source gave, live or recorded, as metric families: by way of the model, and with what the toolstack tells."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Callable

from prometheus_client import Metric

from virtscope.toolkit.recording import Failed
from virtscope.toolkit.sources import SourceUnavailable
from virtscope.xen import metrics, model, text
from virtscope.xen.clocks import Clocks, WaitingClocks
from virtscope.xen.identity import Namesakes, Places
from virtscope.xen.model import Host, Missing
from virtscope.xen.recorded import Printed, Snapshot
from virtscope.xen.source.host import HostReader
from virtscope.xen.source.libxenstat import RawNode
from virtscope.xen.source.runstate import INSTEAD, RawRunstate, Runstate

log = logging.getLogger(__name__)

AddTold = Callable[[Host], Host]  # adds what the toolstack tells of a host


def add_nothing(host: Host) -> Host:
    """Stand for the toolstack where it isn't asked."""
    return host


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
            log.warning("devices are in no series", extra={"fields": {**counts, "advice": self._advice}})
        else:
            log.info("no device is missing any more")


class LibraryView:
    """Turns libxenstat's snapshots into metric families, and keeps what that needs from one to the next."""

    def __init__(self, add_told: AddTold = add_nothing) -> None:
        self._add_told = add_told
        self._clocks = Clocks()
        self._missing = _Missing("they have one number; see `xentop -b -n -x -i 1` for whose they are")

    def families(self, node: RawNode) -> list[Metric]:
        """Return the families of a snapshot, with what the toolstack adds to the host."""
        host = model.from_libxenstat(node)
        self._missing.note(host.missing)
        return metrics.families(self._add_told(self._clocks.steady(host)))


def waiting_without_ids() -> list[Metric]:
    """Stand for the runstate source beside xentop's text; raises SourceUnavailable."""
    raise SourceUnavailable(f"xentop's text has no domain ids to ask for; take libxenstat, or {INSTEAD}")


class WaitingView:
    """Turns run states into metric families, and keeps what that needs from one scrape to the next."""

    def __init__(self) -> None:
        self._clocks = WaitingClocks()

    def read(self, runstate: Runstate, host: HostReader) -> list[Metric]:
        """Return how long the domains of the last snapshot have waited; raises SourceError as `runstate` does.

        Where that is of the scrape before, as the two sources are read at once, a new guest is missing here until the
        next one; a guest that is gone is not answered for.
        """
        runstate.open()
        node = host.latest()
        if node is None:
            return []
        return self._families(node, runstate.read(domain.id for domain in node.domains))

    def recorded(self, snapshot: Snapshot) -> list[Metric]:
        """Return how long the domains of a recorded snapshot had waited; raises SourceError as it was raised then."""
        if isinstance(snapshot.runstates, Failed):
            raise snapshot.runstates.error()
        return self._families(snapshot.node, snapshot.runstates)

    def _families(self, node: RawNode, runstates: Iterable[RawRunstate]) -> list[Metric]:
        return metrics.waiting_families(self._clocks.steady(model.waiting(node, runstates)))


class TextView:
    """Turns xentop's iterations into metric families, and keeps what that needs from one iteration to the next."""

    def __init__(self, add_told: AddTold = add_nothing) -> None:
        self._add_told = add_told
        self._namesakes = Namesakes()
        self._places = Places()
        self._clocks = Clocks()
        self._unknown_line_said = False
        self._missing = _Missing(
            "xentop counts them and prints no line for each that can be read: run it with -n -x -v, and let no wrapper "
            "drop or change lines; `xentop -b -f -n -x -v -i 1` shows them"
        )

    def families(self, printed: Printed) -> list[Metric]:
        """Return the families of an iteration; raises SourceRubbish as the parser does."""
        host = text.parse(printed.iteration.text)
        if host.unknown and not self._unknown_line_said:
            self._unknown_line_said = True
            log.warning(
                "xentop printed a line that is not understood", extra={"fields": {"line": host.unknown[0][:200]}}
            )
        told = model.from_text(host, printed.xen_version)
        self._missing.note(told.missing)
        told_apart = self._clocks.steady(self._places.tell_apart(self._namesakes.tell_apart(told)))
        return metrics.families(self._add_told(told_apart)) + metrics.text_families(
            printed.iteration, len(host.unknown)
        )
