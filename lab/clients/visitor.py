"""One client: a visitor of one application, who thinks, asks for a page, waits for it, and thinks again."""

from __future__ import annotations

import random
import time
from typing import ClassVar

import gevent
from locust import FastHttpUser, task
from locust.contrib.fasthttp import LocustBadStatusCode
from locust.env import Environment

from lab.clients import mix
from lab.clients.metrics import Metrics
from lab.clients.orders import Habits

# A page view has a connection of its own: visitors think longer than web servers keep an idle connection, and one that
# the server is just closing would be an error that no visitor sees.
HEADERS = {"Connection": "close", "Accept-Encoding": "gzip"}


class Visitor(FastHttpUser):
    """A Locust user. A subclass for each application says which, and gives its visitors their numbers.

    Locust's MarkovTaskSet would walk the table too, but draws for all users from one sequence: which user gets which
    number then depends on the timing, and no two runs are the same. Here each has a sequence of its own.
    """

    abstract = True
    application: ClassVar[str]
    habits: ClassVar[Habits]
    metrics: ClassVar[Metrics]
    created: ClassVar[int] = 0

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        kind = type(self)
        self._chance = random.Random(f"{kind.habits.seed}/{kind.application}/{kind.created}")
        kind.created += 1
        self._page = mix.FIRST_PAGE
        self._intended_start = 0.0

    def wait_time(self) -> float:
        """Seconds to think before the next request."""
        seconds = self._chance.expovariate(1 / self.habits.think_seconds)
        self._intended_start = time.perf_counter() + seconds
        return seconds

    @task
    def visit(self) -> None:
        """Ask for the page, wait for it, and choose the next."""
        if not self._intended_start:
            return  # Locust waits after a task: think first, so that clients who start together don't ask together
        start = time.perf_counter()
        self.metrics.lateness.observe(start - self._intended_start)
        status = self._get(mix.address(self._page, self._chance))
        seconds = time.perf_counter() - start
        self.metrics.durations.labels(self.application, self._page, status).observe(seconds)
        if status == "timeout":
            self._end_session("timeout")
            return
        self._page = mix.next_page(self._page, self._chance)
        if self._page == mix.LEAVE:
            self._end_session("left")

    def _get(self, address: str) -> str:
        """Class of the answer ("2xx"), "timeout" or "error"."""
        # Locust's own time-outs are for each read; an answer that trickles must end as well.
        with (
            gevent.Timeout(self.habits.timeout_seconds) as patience,
            self.client.get(address, headers=HEADERS, allow_redirects=False, catch_response=True) as answer,
        ):
            failure = answer.request_meta["exception"]  # patience's own may be wrapped into another
            if not patience.pending:
                return "timeout"
            if failure is None or isinstance(failure, LocustBadStatusCode):
                return f"{answer.status_code // 100}xx"
            return "error"

    def _end_session(self, end: str) -> None:
        """The next request of this client is another visitor's first."""
        self.metrics.sessions.labels(self.application, end).inc()
        self._page = mix.FIRST_PAGE
