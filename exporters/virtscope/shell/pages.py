"""What every exporter answers over HTTP: metrics, health, a landing page, and refusals."""

from __future__ import annotations

import html
import io
import logging
import math
import re
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol

from virtscope import __version__
from virtscope.shell.answering import Answer
from virtscope.shell.exposition import Format, accepts_gzip, negotiate
from virtscope.shell.webconfig import TooManyGuesses, WebConfig

log = logging.getLogger(__name__)

# Prometheus's own default scrape timeout, for whoever asks without saying how long they wait (curl, a browser).
DEFAULT_SCRAPE_TIMEOUT = 10.0
# Sources may take as long as this whatever the header says: nobody scrapes that fast, and a source that could never
# answer in time would fail in one scrape and answer in the next, with a line in the log for each.
LEAST_SCRAPE_TIMEOUT = 0.1
MOST_SCRAPE_TIMEOUT = 60.0

# RFC 9112. More exact than http.server, which takes a line with a blank before the colon for the end of the head, and
# so would leave out the Content-Length in it, or what comes behind it.
_HEAD = re.compile(
    rb"[!-~]+ [!-~]+ HTTP/[0-9]\.[0-9]\r?\n"
    rb"(?:[-!#$%&'*+.^_`|~0-9A-Za-z]+:[^\r\n\0]*\r?\n)*"
    rb"\r?\n"
)


class Scrapes(Protocol):
    """What is served; see virtscope.shell.exporter.Exporter."""

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
    timeout = min(max(timeout, LEAST_SCRAPE_TIMEOUT), MOST_SCRAPE_TIMEOUT)
    return timeout - min(0.5, timeout / 5)


class Pages:
    """The pages of one exporter, for those whom the web configuration lets in."""

    def __init__(self, telemetry_path: str, web: WebConfig | None, exporter: Scrapes) -> None:
        self.telemetry_path = telemetry_path
        self.web = web
        self.exporter = exporter

    def answer(self, head: bytes, client: str) -> Answer:
        """Return the answer to the request with this head, of the client with this address."""
        request = _Request(self, client)
        request.handle_head(head)
        return request.result()

    def refuse(self, status: HTTPStatus, client: str) -> Answer:
        """Return an answer that says no more than its status; the connection ends with it."""
        request = _Request(self, client)
        request.send_error(status)
        return request.result()


class _Request(BaseHTTPRequestHandler):
    """One request: the standard library's handler, given a head's bytes instead of a connection."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # until the version is read; to HTTP/0.9 there would be no status in an answer
    command = requestline = ""
    close_connection = True

    def __init__(self, pages: Pages, client: str) -> None:
        self._pages = pages
        self.client_address = (client, 0)
        self.request_version = self.default_request_version
        self.wfile = self._written = io.BytesIO()

    def result(self) -> Answer:
        return Answer(self._written.getvalue(), not self.close_connection)

    def handle_head(self, head: bytes) -> None:
        if not _HEAD.fullmatch(head):
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        self.rfile = io.BytesIO(head)
        self.raw_requestline = self.rfile.readline()
        if not self.parse_request():
            return  # refused by send_error()
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # the body stays unread, and must not be taken for the next request
        self._answer()

    def handle_expect_100(self) -> bool:
        return True  # no body is wanted, and the answer itself says so

    def _answer(self) -> None:
        web = self._pages.web
        if web and not web.admits():
            self._send(HTTPStatus.TOO_MANY_REQUESTS, "Too many requests\n")
            return
        try:
            allowed = not web or web.allows(self.headers.get("Authorization"), self.client_address[0])
        except TooManyGuesses:
            self._send(HTTPStatus.TOO_MANY_REQUESTS, "Too many passwords to check\n", {"Retry-After": "1"})
            return
        if not allowed:
            self._send(HTTPStatus.UNAUTHORIZED, "Unauthorized\n", {"WWW-Authenticate": "Basic"})
            return
        path = self.path.partition("?")[0]
        if self.command not in {"GET", "HEAD"}:
            self._send(HTTPStatus.METHOD_NOT_ALLOWED, "405: only GET and HEAD\n", {"Allow": "GET, HEAD"})
        elif path == self._pages.telemetry_path:
            self._metrics()
        elif path == "/-/healthy":
            self._send(HTTPStatus.OK, f"{self._pages.exporter.name}-exporter is healthy.\n")
        elif path == "/":
            self._send(HTTPStatus.OK, _landing_page(self._pages), {"Content-Type": "text/html; charset=utf-8"})
        else:
            self._send(HTTPStatus.NOT_FOUND, f"404: the metrics are at {self._pages.telemetry_path}\n")

    def _metrics(self) -> None:
        form = negotiate(self.headers.get("Accept", ""))
        seconds = time_for_sources(self.headers.get("X-Prometheus-Scrape-Timeout-Seconds"))
        gzipped = accepts_gzip(self.headers.get("Accept-Encoding", ""))
        body = self._pages.exporter.scrape(form, seconds, gzipped=gzipped)
        headers = {"Content-Type": form.content_type, "Vary": "Accept, Accept-Encoding"}
        if gzipped:
            headers["Content-Encoding"] = "gzip"
        self._send(HTTPStatus.OK, body, headers)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what the standard library's parser refuses, too, and repeat nothing of what the client sent."""
        del message, explain
        self.close_connection = True
        status = HTTPStatus(code)
        self._send(status, f"{status.value}: {status.phrase}\n")

    def _send(self, status: HTTPStatus, body: str | bytes, headers: dict[str, str] | None = None) -> None:
        content = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        defaults = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(content))}
        configured = self._pages.web.headers if self._pages.web else {}
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


def _landing_page(pages: Pages) -> str:
    name = f"{pages.exporter.name}-exporter"
    metrics = html.escape(pages.telemetry_path)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title></head>
<body>
<h1>{name}</h1>
<p>Version {__version__}, part of virtscope: what virtualisation costs, live.</p>
<ul><li><a href="{metrics}">Metrics</a></li><li><a href="/-/healthy">Health</a></li></ul>
</body></html>
"""
