"""Serves the pages of the demo's sensors, for the time of each scrape."""

import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from demo import story, targets
from demo.model import Counters
from demo.sensors import pages
from demo.targets import page_path
from virtscope.toolkit.exposition import CONTENT_TYPE, Encoder

_HEALTHY = "/-/healthy"


def serve(port: int, origin: float) -> None:
    """Serve on loopback until the process is stopped."""
    counters = {host: Counters(host, origin) for host in story.PLATFORMS}
    known = {page_path(job, labels): labels["host"] for job, labels in targets.pages()}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = known.get(self.path)
            if host is None and self.path != _HEALTHY:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = b""
            if host is not None:
                now = time.time()
                # A guest that doesn't exist now has an empty page.
                shown = [
                    page.families
                    for page in pages(host, counters[host], now)
                    if page_path(page.job, page.labels) == self.path
                ]
                body = Encoder().text(shown[0]) if shown else b""
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Don't log each scrape."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
