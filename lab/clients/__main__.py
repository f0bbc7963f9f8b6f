"""The clients' process: `python -m lab.clients` reads orders from its standard input, see lab/clients/orders.py."""

from __future__ import annotations

import logging
import signal
import sys
from collections import defaultdict

import gevent
from gevent.fileobject import FileObjectPosix
from gevent.pywsgi import WSGIServer
from locust.env import Environment
from locust.user.users import User
from prometheus_client import disable_created_metrics, make_wsgi_app

from lab.clients import orders
from lab.clients.metrics import Metrics
from lab.clients.orders import Habits, Order
from lab.clients.visitor import Visitor


class Crowd:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._environment = Environment(user_classes=[])
        self._runner = self._environment.create_local_runner()
        self._kinds: dict[str, type[Visitor]] = {}
        self._visitors: dict[str, list[User]] = defaultdict(list)
        self._habits: Habits | None = None

    def carry_out(self, order: Order) -> dict[str, int]:
        """Start and stop visitors until each application has the ordered number; returns the numbers."""
        if order.habits != self._habits:
            for visitors in self._visitors.values():
                self._end(visitors, 0)
            self._habits = order.habits
        for name, application in order.applications.items():
            visitors = self._visitors[name]
            kind = self._kind(name)
            self._end(visitors, application.clients)
            kind.host, kind.habits, kind.created = application.url, order.habits, len(visitors)
            visitors += self._runner.spawn_users({name: application.clients - len(visitors)})
        counts = {name: len(self._visitors[name]) for name in self._kinds}
        for name, count in counts.items():
            self._metrics.clients.labels(name).set(count)
        return counts

    def _kind(self, name: str) -> type[Visitor]:
        if name not in self._kinds:
            self._kinds[name] = type(name, (Visitor,), {"application": name, "metrics": self._metrics})
            self._environment.user_classes.append(self._kinds[name])
        return self._kinds[name]

    def _end(self, visitors: list[User], kept: int) -> None:
        """Stop the last visitors: immediately if thinking, else after the answer, so that each request is counted."""
        gevent.joinall([visitor.greenlet for visitor in visitors[kept:] if not visitor.stop()])
        del visitors[kept:]


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the lab, which then stops this process
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    lines = FileObjectPosix(sys.stdin.fileno(), "r")
    disable_created_metrics()  # creation times of series aren't needed here
    metrics = Metrics()
    crowd = Crowd(metrics)
    server = WSGIServer(("127.0.0.1", 0), make_wsgi_app(metrics.registry), log=None)
    server.start()
    print(orders.encode({"port": server.server_port}), end="", flush=True)
    for line in lines:
        print(orders.encode(crowd.carry_out(orders.decode_order(line))), end="", flush=True)


if __name__ == "__main__":
    main()
