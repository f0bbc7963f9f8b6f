"""The HTTP server of every exporter: landing page, metrics, health; TLS and basic auth by the web configuration."""

from __future__ import annotations

import errno
import gc
import html
import logging
import math
import os
import signal
import socket
import ssl
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from virtscope import __version__
from virtscope.shell.exposition import Format, accepts_gzip, negotiate
from virtscope.shell.flags import address_text
from virtscope.shell.webconfig import WebConfig

log = logging.getLogger(__name__)

# Prometheus's own default scrape timeout, for whoever asks without saying how long they wait (curl, a browser).
DEFAULT_SCRAPE_TIMEOUT = 10.0
MOST_CONNECTIONS = 40  # as node_exporter's --web.max-requests; more are refused at once
IDLE_SECONDS = 75.0  # a connection silent for longer is closed; longer than a minute, so that scrapes can keep theirs
PAUSE_SECONDS = 0.2  # between two tries to accept a connection when there are no file descriptors left
DRAIN_SECONDS = 10.0  # how long a stop waits for scrapes under way


class Scrapes(Protocol):
    """What the server serves; see virtscope.shell.exporter.Exporter."""

    name: str

    def scrape(self, form: Format, seconds: float, *, gzipped: bool = False) -> bytes:
        """Return an exposition, waiting for sources no longer than `seconds`."""
        ...


def time_for_sources(timeout_header: str | None) -> float:
    """Return how many seconds the sources may take, from Prometheus's X-Prometheus-Scrape-Timeout-Seconds header.

    A margin stays for encoding and the network: a fifth of the timeout, at most half a second.
    """
    try:
        timeout = float(timeout_header or DEFAULT_SCRAPE_TIMEOUT)
    except ValueError:
        timeout = DEFAULT_SCRAPE_TIMEOUT
    if not math.isfinite(timeout) or timeout <= 0:
        timeout = DEFAULT_SCRAPE_TIMEOUT
    timeout = min(timeout, 60.0)
    return timeout - min(0.5, timeout / 5)


class Server(ThreadingHTTPServer):
    """Serves one exporter on one address, a thread per connection (Prometheus keeps its connection open)."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], telemetry_path: str, web: WebConfig | None, exporter: Scrapes) -> None:
        """Bind `address`; raises OSError if that can't be done."""
        host, port = address
        # An IPv6 socket for every address of the host takes IPv4's clients too; an IPv4 one takes only those.
        wanted = socket.AF_INET6 if not host and socket.has_dualstack_ipv6() else socket.AF_UNSPEC
        family, _, _, _, sockaddr = socket.getaddrinfo(
            host or None, port, wanted, socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self.address_family = family
        self.telemetry_path = telemetry_path
        self.web = web
        self.exporter = exporter
        self.under_way = 0  # requests being answered
        self.changed = threading.Condition()
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((str(sockaddr[0]), port), _Handler)

    def server_bind(self) -> None:
        """Bind without HTTPServer's reverse name look-up, which can hang for seconds on a host without DNS."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "", self.server_address[1]

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; one that can't be had, for want of file descriptors, is tried again without haste."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE}:
                time.sleep(PAUSE_SECONDS)  # it still waits in the queue: without this the loop would take a whole CPU
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread, or refuse it when too many are open."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread to be had: the caller logs it and closes the connection
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection to its end; runs in the connection's own thread."""
        try:
            super().process_request_thread(self._shake_hands(request), client_address)
        except (ssl.SSLError, OSError) as error:
            log.debug("TLS handshake failed", extra={"fields": {"client": client_address[0], "err": error}})
            self.shutdown_request(request)
        finally:
            self._places.release()

    def _shake_hands(self, request: socket.socket) -> socket.socket:
        # Here and not on accepting, so that a slow client delays only itself.
        request.settimeout(IDLE_SECONDS)
        context = self.web.ssl_context() if self.web else None
        if not self.web or not context:
            return request
        connection = context.wrap_socket(request, server_side=True)
        if not self.web.peer_allowed(connection.getpeercert()):
            connection.close()
            raise PermissionError("no name of the client's certificate is in client_allowed_sans")
        return connection

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what broke a connection: the client's going away quietly, a fault of ours loudly."""
        del request
        client_left = isinstance(sys.exc_info()[1], OSError)
        level = logging.DEBUG if client_left else logging.ERROR
        log.log(level, "connection broke", exc_info=True, extra={"fields": {"client": client_address[0]}})

    def drain(self, seconds: float) -> None:
        """Wait until no request is being answered, `seconds` at most."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while self.under_way and time.monotonic() < deadline:
                self.changed.wait(deadline - time.monotonic())


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    wbufsize = -1  # buffered: head and body leave in one piece, so that Nagle's algorithm can't hold back the body
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # the body stays unread, and must not be taken for the next request
        with self.server.changed:
            self.server.under_way += 1
        try:
            self._answer()
            self.wfile.flush()
        except (ConnectionError, TimeoutError):
            self.close_connection = True  # the client went away
        finally:
            with self.server.changed:
                self.server.under_way -= 1
                self.server.changed.notify_all()

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self) -> None:
        web = self.server.web
        if web and not web.admits():
            self._send(HTTPStatus.TOO_MANY_REQUESTS, "Too many requests\n")
            return
        if web and not web.allows(self.headers.get("Authorization")):
            self._send(HTTPStatus.UNAUTHORIZED, "Unauthorized\n", {"WWW-Authenticate": "Basic"})
            return
        path = self.path.partition("?")[0]
        if path == self.server.telemetry_path:
            self._metrics()
        elif path == "/-/healthy":
            self._send(HTTPStatus.OK, f"{self.server.exporter.name}-exporter is healthy.\n")
        elif path == "/":
            self._send(HTTPStatus.OK, _landing_page(self.server), {"Content-Type": "text/html; charset=utf-8"})
        else:
            self._send(HTTPStatus.NOT_FOUND, f"404: the metrics are at {self.server.telemetry_path}\n")

    def _metrics(self) -> None:
        form = negotiate(self.headers.get("Accept", ""))
        seconds = time_for_sources(self.headers.get("X-Prometheus-Scrape-Timeout-Seconds"))
        gzipped = accepts_gzip(self.headers.get("Accept-Encoding", ""))
        body = self.server.exporter.scrape(form, seconds, gzipped=gzipped)
        headers = {"Content-Type": form.content_type, "Vary": "Accept, Accept-Encoding"}
        if gzipped:
            headers["Content-Encoding"] = "gzip"
        self._send(HTTPStatus.OK, body, headers)

    def _send(self, status: HTTPStatus, body: str | bytes, headers: dict[str, str] | None = None) -> None:
        content = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        defaults = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(content))}
        configured = self.server.web.headers if self.server.web else {}
        for name, value in {**defaults, **configured, **(headers or {})}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def version_string(self) -> str:
        return f"virtscope/{__version__}"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        log.debug(format % args, extra={"fields": {"client": self.client_address[0]}})


def _landing_page(server: Server) -> str:
    name = f"{server.exporter.name}-exporter"
    metrics = html.escape(server.telemetry_path)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title></head>
<body>
<h1>{name}</h1>
<p>Version {__version__}, part of virtscope: what virtualisation costs, live.</p>
<ul><li><a href="{metrics}">Metrics</a></li><li><a href="/-/healthy">Health</a></li></ul>
</body></html>
"""


def serve_until_stopped(server: Server) -> None:
    """Serve until SIGTERM or SIGINT, then finish the scrapes under way and return."""
    # Python runs a handler only once the main thread comes out of what it waits in, and a signal that arrives just
    # before it goes in doesn't wake it. A wake-up descriptor is written to by the signal itself, so none is missed.
    stop, wake_up = os.pipe()
    os.set_blocking(wake_up, False)
    signal.set_wakeup_fd(wake_up, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    # The collector looks for cycles; a scrape makes none, only many objects. The search took up to a fifth of its CPU.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    threading.Thread(target=server.serve_forever, name="accept", daemon=True).start()
    host, port = server.socket.getsockname()[:2]
    log.info(
        "listening",
        extra={"fields": {"address": address_text(host, port), "tls": bool(server.web and server.web.ssl_context())}},
    )
    os.read(stop, 1)
    log.info("stopping")
    server.shutdown()
    server.drain(DRAIN_SECONDS)
    server.server_close()
    # At its end Python takes its handlers back, and a signal that still comes would decide the exit status.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
