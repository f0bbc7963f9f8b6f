"""Keeps what the toolstack tells, and adds it to what the scrapes find."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter

from prometheus_client import Metric

from virtscope.toolkit.background import Background
from virtscope.xen.model import Host
from virtscope.xen.source.xl import RawToolstack, Xl
from virtscope.xen.toolstack import metrics
from virtscope.xen.toolstack.changes import Changes
from virtscope.xen.toolstack.join import joined
from virtscope.xen.toolstack.model import Toolstack, understand
from virtscope.xen.toolstack.successors import Successors

log = logging.getLogger(__name__)


class Rounds:
    """Understands what the toolstack answers, round after round, and counts what has changed and what was wrong."""

    def __init__(self) -> None:
        self.problems: Counter[tuple[str, str]] = Counter()  # by command and reason
        self._changes = Changes()

    def understand(self, raw: RawToolstack) -> Toolstack:
        """Return what the next round tells; raises SourceRubbish where it can't be understood."""
        toolstack = self._changes.note(understand(raw))
        for problem in toolstack.problems:
            key = (problem.command, problem.reason)
            if not self.problems[key]:
                fields = {"command": problem.command, "reason": problem.reason, "err": problem.words}
                log.warning("the toolstack's answer has something wrong", extra={"fields": fields})
            self.problems[key] += 1
        return toolstack


class Replayed:
    """Adds what a recorded toolstack told to the recorded hosts, whichever of the two is shown first in a scrape.

    It lives through all passes of a recording: changes are counted on, and never back.
    """

    def __init__(self) -> None:
        self._rounds = Rounds()
        self._raw: RawToolstack | None = None
        self._latest: Toolstack | None = None

    def families(self, raw: RawToolstack) -> list[Metric]:
        """Return the families that belong to no domain; the same round may be given again and again."""
        if self._latest is None or raw != self._raw:
            self._raw, self._latest = raw, self._rounds.understand(raw)
        return metrics.host_families(self._latest, dict(self._rounds.problems))

    def add_to(self, host: Host) -> Host:
        """Return the host with what the toolstack told of it."""
        return joined(host, self._latest) if self._latest else host


class Keeper:
    """Asks the toolstack in the background, from start() to close()."""

    def __init__(self, interval: float) -> None:
        """Ask each `interval` seconds, and early when there are new domains."""
        self._xl = Xl()
        self._rounds = Rounds()
        self._successors = Successors()
        self._woken_for: set[tuple[int | None, str]] = set()
        self.background = Background("xl", self._refresh, interval, self._xl.cpu_seconds)

    def start(self) -> None:
        """Begin asking."""
        self.background.start()

    def close(self) -> None:
        """End asking, and what is being run."""
        self.background.close()
        self._xl.close()

    def origin(self) -> str:
        """Return the path of xl or xm."""
        return self._xl.origin()

    def read(self) -> list[Metric]:
        """Return the families that belong to no domain; raises as Background.latest() does."""
        return metrics.host_families(self.background.latest(), dict(self._rounds.problems))

    def add_to(self, host: Host) -> Host:
        """Return the host with what the toolstack tells of it, if there is anything young enough."""
        now = time.monotonic()
        succeeded = self._successors.note(host, now)
        age = self.background.age()  # before the figures, which may be replaced by younger ones meanwhile
        toolstack = self.background.peek()
        if toolstack is None:
            return host
        age = math.inf if age is None else age
        host = joined(host, toolstack, age, self._successors.since(now - age))
        strangers = {(domain.domid, domain.name) for domain in host.domains if domain.told is None}
        if succeeded or strangers - self._woken_for:  # once for each: there are domains that no toolstack ever knows
            self.background.wake()
        self._woken_for = strangers
        return host

    def _refresh(self) -> Toolstack:
        return self._rounds.understand(self._xl.read())
