"""The two ends of the stack: exporters scraped by Prometheus, and receivers of Alertmanager's messages."""

import email
import email.message
import email.policy
import http.server
import json
import socketserver
import threading
from collections.abc import Callable
from typing import Any, Self, TypeAlias, TypeVar

from tests.support.waiting import wait_for

Received = TypeVar("Received")

Group: TypeAlias = dict[str, Any]
"""One entry of a targets file: `{"targets": ["127.0.0.1:1234"], "labels": {"host": "xen1", "platform": "xen"}}`."""


class QuietHandler(http.server.BaseHTTPRequestHandler):
    """Answers without logging requests to stderr."""

    def reply(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


class BackgroundServer:
    """A running server; the `with` block ends it."""

    def __init__(self, server: socketserver.TCPServer) -> None:
        self._server = server
        self.address = f"127.0.0.1:{server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=15)


def http_server(handler: type[http.server.BaseHTTPRequestHandler]) -> BackgroundServer:
    return BackgroundServer(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))


class Exposition(BackgroundServer):
    """An exporter that answers every GET with `text`; after a change, the next scrape gets the new text.

    A function is called for each scrape, so that counters can grow. None makes it answer 500, like a failing exporter.
    """

    def __init__(self, text: str | Callable[[], str] | None = "") -> None:
        self.text = text
        exposition = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                text = exposition.text
                if callable(text):
                    text = text()
                self.reply(500 if text is None else 200, (text or "").encode(), "text/plain; version=0.0.4")

        super().__init__(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))

    def group(self, host: str, platform: str = "xen") -> Group:
        """Its entry in a targets file."""
        return {"targets": [self.address], "labels": {"host": host, "platform": platform}}


def answers(count: float, seconds: float, *edges: str) -> str:
    """An access-log sensor's series of the shop's web tier: as many answers within each edge, in that time together."""
    labels = 'app="shop",tier="web",method="GET",status="2xx"'
    name = "app_request_duration_seconds"
    buckets = "".join(f'{name}_bucket{{{labels},le="{edge}"}} {count}\n' for edge in edges)
    return f"# TYPE {name} histogram\n{buckets}{name}_sum{{{labels}}} {seconds}\n{name}_count{{{labels}}} {count}\n"


class Webhook(BackgroundServer):
    """Records Alertmanager's messages: `messages` are their JSON bodies, oldest first. Also works as Slack's API."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        messages = self.messages

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.reply(200, b"ok", "text/plain")

        super().__init__(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        self.url = f"http://{self.address}/"

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """The first message that is `wanted`; AssertionError with the received messages if there is none in time."""
        return first(self.messages, wanted, seconds)


class Mailbox(BackgroundServer):
    """An SMTP server without encryption that accepts every mail; `mails` has them, oldest first."""

    def __init__(self) -> None:
        self.mails: list[email.message.EmailMessage] = []
        mails = self.mails

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self._say("220 ready")
                while line := self.rfile.readline():
                    match line.split()[0].upper() if line.split() else b"":
                        case b"DATA":
                            self._say("354 go on")
                            mails.append(email.message_from_bytes(self._data(), policy=email.policy.default))
                            self._say("250 taken")
                        case b"QUIT":
                            self._say("221 bye")
                            return
                        case _:
                            self._say("250 ok")

            def _data(self) -> bytes:
                lines = iter(self.rfile.readline, b".\r\n")
                return b"".join(line.removeprefix(b".") for line in lines)

            def _say(self, line: str) -> None:
                self.wfile.write(f"{line}\r\n".encode())

        super().__init__(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler))

    def wait_for(
        self, wanted: Callable[[email.message.EmailMessage], bool], seconds: float
    ) -> email.message.EmailMessage:
        """The first mail that is `wanted`; AssertionError with the received mails if there is none in time."""
        return first(self.mails, wanted, seconds)


def first(received: list[Received], wanted: Callable[[Received], bool], seconds: float) -> Received:
    """The first `wanted` item of a growing list; AssertionError with the others if there is none in time."""
    return wait_for(
        lambda: [message for message in list(received) if wanted(message)][:1],
        seconds,
        explain=lambda: [*map(str, received)],
    )[0]
