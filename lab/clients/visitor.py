"""One client: a visitor of an application, who thinks, requests a page, waits for it, and thinks again."""

import random
import time
from typing import ClassVar

import gevent
from locust import FastHttpUser, task
from locust.contrib.fasthttp import LocustBadStatusCode
from locust.env import Environment

from lab.clients import mix
from lab.clients.child import Order
from lab.clients.metrics import Metrics

# Each page view has its own connection: visitors think longer than web servers keep idle connections, and a request on
# a connection just being closed would fail, unlike for real visitors.
HEADERS = {"Connection": "close", "Accept-Encoding": "gzip"}


class Visitor(FastHttpUser):
    """A Locust user. A subclass for each application names it, and numbers its visitors.

    Locust's MarkovTaskSet could use the table too, but with one random sequence for all users: which user gets which
    number then depends on timing, and no two runs are the same. Here each user has its own sequence.
    """

    abstract = True
    application: ClassVar[str]
    order: ClassVar[Order]
    metrics: ClassVar[Metrics]
    created: ClassVar[int] = 0

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        kind = type(self)
        self._chance = random.Random(f"{kind.order.seed}/{kind.application}/{kind.created}")
        kind.created += 1
        self._page = mix.FIRST_PAGE
        self._intended_start = 0.0

    def wait_time(self) -> float:
        seconds = self._chance.expovariate(1 / self.order.think_seconds)
        self._intended_start = time.perf_counter() + seconds
        return seconds

    @task
    def visit(self) -> None:
        if not self._intended_start:
            return  # Locust waits after a task: think first, so that clients started together don't request together
        start = time.perf_counter()
        self.metrics.lateness.observe(start - self._intended_start)
        status = self._get(mix.address(self._page, self._chance))
        seconds = time.perf_counter() - start
        self.metrics.durations.labels(self.application, self._page, status).observe(seconds)
        self._page = mix.LEAVE if status == "timeout" else mix.next_page(self._page, self._chance)
        if self._page == mix.LEAVE:  # its next request is a new visitor's first
            self._page = mix.FIRST_PAGE

    def _get(self, address: str) -> str:
        """Class of the answer ("2xx"), "timeout" or "error"."""
        # Locust's own timeouts are per read; a slowly trickling answer must time out too.
        with (
            gevent.Timeout(self.order.timeout_seconds) as patience,
            self.client.get(address, headers=HEADERS, allow_redirects=False, catch_response=True) as answer,
        ):
            failure = answer.request_meta["exception"]  # the timeout's exception may be wrapped in another
            if not patience.pending:
                return "timeout"
            if failure is None or isinstance(failure, LocustBadStatusCode):
                return f"{answer.status_code // 100}xx"
            return "error"
