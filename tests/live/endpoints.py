"""The two ends of the stack: what Prometheus scrapes, and where Alertmanager sends."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeAlias

Group: TypeAlias = dict[str, Any]
"""One entry of a targets file: `{"targets": ["127.0.0.1:1234"], "labels": {"host": "xen1", "platform": "xen"}}`."""


class Exposition:
    """An exporter whose answer to every GET is `text`: set it, and the next scrape sees the new one.

    A function is called for each scrape, so that counters can grow. None makes it answer 500, as an exporter does that
    has gone wrong.
    """

    def __init__(self, text: str | Callable[[], str] | None = "") -> None:
        self.text = text

    def __enter__(self) -> Self:
        exposition = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                text = exposition.text
                if callable(text):
                    text = text()
                self.reply(500 if text is None else 200, (text or "").encode(), "text/plain; version=0.0.4")

        self._server = BackgroundServer(Handler)
        self.address = self._server.address
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.close()

    def group(self, host: str, platform: str = "xen") -> Group:
        """Its entry in a targets file."""
        return {"targets": [self.address], "labels": {"host": host, "platform": platform}}


class Webhook:
    """Records what Alertmanager sends: `messages` are the JSON bodies, oldest first."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        messages = self.messages

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.reply(200, b"", "text/plain")

        self._server = BackgroundServer(Handler)
        self.url = f"http://{self._server.address}/"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.close()

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """The first message that is `wanted`; AssertionError, naming what came instead, if there is none in time."""
        deadline = time.monotonic() + seconds
        while True:
            for message in list(self.messages):
                if wanted(message):
                    return message
            if time.monotonic() > deadline:
                raise AssertionError(f"no such message within {seconds} s among {self.messages}")
            time.sleep(0.1)


class QuietHandler(http.server.BaseHTTPRequestHandler):
    """Answers without writing a line per request to stderr."""

    def reply(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


class BackgroundServer:
    """An HTTP server on a free loopback port, in a thread."""

    def __init__(self, handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=15)
