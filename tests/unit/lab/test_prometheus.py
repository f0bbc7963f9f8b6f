"""A report asks whatever is at the address that it was given, and says what is wrong there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from lab.prometheus import Prometheus, PrometheusError


@pytest.fixture
def answering(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server that answers everything with the parameter's bytes."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(request.param)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("url", ["prometheus:9090", "prometheus", "http://[::1", "http://127.0.0.1:9/a b", ""])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(PrometheusError, match=r"^no Prometheus answers at .*such as http://host:9090$"):
        Prometheus(url).vector("up")


@pytest.mark.parametrize(
    "answering", [b"<html>", b"", b"[]", b'"up"', b'{"status": "success"}', b'{"data": {}}'], indirect=True
)
def test_what_is_no_prometheus(answering: str) -> None:
    with pytest.raises(PrometheusError, match=rf"\b{answering}\b"):
        Prometheus(answering).vector("up")
