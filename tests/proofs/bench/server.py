"""A server to measure, in its own process, which prints its port.

`python -m tests.proofs.bench.server ours|stock SERIES`
"""

import sys
import threading

from prometheus_client import CollectorRegistry, start_http_server

from tests.proofs.bench.guests import Guests
from virtscope.toolkit.cli import serve_until_stopped
from virtscope.toolkit.scrape import Exporter, Source
from virtscope.toolkit.server import Server


def ours(guests: Guests) -> None:
    """Serve with the toolkit that all our exporters share."""
    server = Server(("127.0.0.1", 0), "/metrics", None, Exporter("bench", [Source("guests", guests.collect, str)]))
    print(server.server_address[1], flush=True)
    serve_until_stopped(server)


def stock(guests: Guests) -> None:
    """Serve with prometheus_client as in its documentation."""
    registry = CollectorRegistry()
    registry.register(guests)
    server, _ = start_http_server(0, "127.0.0.1", registry)
    print(server.server_port, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    {"ours": ours, "stock": stock}[sys.argv[1]](Guests(int(sys.argv[2])))
