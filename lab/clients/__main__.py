"""The clients' process: `python -m lab.clients` reads orders from its standard input, see lab/clients/child.py."""

import json
import logging
import os
import signal
import sys

import gevent
from gevent.fileobject import FileObjectPosix
from gevent.pywsgi import WSGIServer
from locust.env import Environment
from locust.user.users import User
from prometheus_client import disable_created_metrics, make_wsgi_app

from lab.clients.child import Order
from lab.clients.metrics import Metrics
from lab.clients.visitor import Visitor


class Crowd:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._environment = Environment(user_classes=[])
        self._runner = self._environment.create_local_runner()
        self._kinds: dict[str, type[Visitor]] = {}
        self._visitors: list[User] = []

    def carry_out(self, order: Order) -> None:
        """Replace all visitors. One that waits for an answer gets it first, so that each request is counted."""
        gevent.joinall([visitor.greenlet for visitor in self._visitors if not visitor.stop()])
        self._visitors.clear()
        for name, clients in order.clients.items():
            if name not in self._kinds:
                self._kinds[name] = type(name, (Visitor,), {"application": name, "metrics": self._metrics})
                self._environment.user_classes.append(self._kinds[name])
            kind = self._kinds[name]
            kind.host, kind.order, kind.created = order.urls[name], order, 0
            self._visitors += self._runner.spawn_users({name: clients})
        for name in self._kinds:
            self._metrics.clients.labels(name).set(order.clients.get(name, 0))


def run_first() -> None:
    """Before all others on the same CPU, as visitors have CPUs of their own.

    Beside cgroups of large weight, a nice level isn't enough: visitors then wait for the site that they are to load,
    send one request after the other, and the site's queue stays short.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError as error:
        logging.warning("Requests may be sent late, as real-time priority is refused: %s", error)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the lab, which then stops this process
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    run_first()
    lines = FileObjectPosix(sys.stdin.fileno(), "r")
    disable_created_metrics()  # creation times of series aren't needed here
    metrics = Metrics()
    crowd = Crowd(metrics)
    server = WSGIServer(("127.0.0.1", 0), make_wsgi_app(metrics.registry), log=None)
    server.start()
    print(json.dumps({"port": server.server_port}), flush=True)
    for line in lines:
        if order := json.loads(line):
            crowd.carry_out(Order(**order))
        print(json.dumps({"answers": metrics.answers(), "ended": metrics.ended()}), flush=True)


if __name__ == "__main__":
    main()
