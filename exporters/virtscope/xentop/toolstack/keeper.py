"""Keeps what the toolstack tells, and adds it to what the scrapes find."""

from __future__ import annotations

import logging
from collections import Counter

from prometheus_client import Metric

from virtscope.shell.background import Background
from virtscope.xentop.model import Host
from virtscope.xentop.source.xl import Xl
from virtscope.xentop.toolstack import metrics
from virtscope.xentop.toolstack.changes import Changes
from virtscope.xentop.toolstack.join import joined
from virtscope.xentop.toolstack.model import Toolstack, understand

log = logging.getLogger(__name__)


class Keeper:
    """Asks the toolstack in the background, from start() to close()."""

    def __init__(self, interval: float) -> None:
        """Ask each `interval` seconds, and early when there are new domains."""
        self._xl = Xl()
        self._changes = Changes()
        self._problems: Counter[tuple[str, str]] = Counter()  # by command and reason
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
        return metrics.host_families(self.background.latest(), dict(self._problems))

    def add_to(self, host: Host) -> Host:
        """Return the host with what the toolstack tells of it, if there is anything young enough."""
        toolstack = self.background.peek()
        if toolstack is None:
            return host
        host = joined(host, toolstack)
        strangers = {(domain.domid, domain.name) for domain in host.domains if domain.told is None}
        if strangers - self._woken_for:  # once for each: there are domains that no toolstack ever knows
            self.background.wake()
        self._woken_for = strangers
        return host

    def _refresh(self) -> Toolstack:
        toolstack = self._changes.note(understand(self._xl.read()))
        for problem in toolstack.problems:
            key = (problem.command, problem.reason)
            if not self._problems[key]:
                fields = {"command": problem.command, "reason": problem.reason, "err": problem.words}
                log.warning("the toolstack's answer has something wrong", extra={"fields": fields})
            self._problems[key] += 1
        return toolstack
