"""What every exporter answers over HTTP: metrics, health, a landing page, and refusals."""

from __future__ import annotations

import html
import logging
import math
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

from virtscope import __version__
from virtscope.toolkit.answering import Answer
from virtscope.toolkit.exposition import Format, accepts_gzip, negotiate
from virtscope.toolkit.head import Head, HeadError, parse
from virtscope.toolkit.webconfig import TooManyGuesses, WebConfig

log = logging.getLogger(__name__)

# Prometheus's own default scrape timeout, for whoever asks without saying how long they wait (curl, a browser).
DEFAULT_SCRAPE_TIMEOUT = 10.0
# Nobody scrapes that fast. A source that can't answer in time fails in such a scrape and answers in the next, and each
# is a line in the log.
LEAST_SCRAPE_TIMEOUT = 0.1
MOST_SCRAPE_TIMEOUT = 60.0


class Scrapes(Protocol):
    """What is served; see virtscope.toolkit.exporter.Exporter."""

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


class Page:
    """The content of an answer, its status, and the headers that not every answer has."""

    def __init__(self, status: HTTPStatus, content: str | bytes, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.content = content.encode() if isinstance(content, str) else content
        self.headers = headers or {}


class Pages:
    """The pages of one exporter, for those whom the web configuration lets in."""

    def __init__(self, telemetry_path: str, web: WebConfig | None, exporter: Scrapes) -> None:
        self._telemetry_path = telemetry_path
        self._web = web
        self._exporter = exporter

    def answer(self, head: bytes, client: str) -> Answer:
        """Return the answer to the request with this head; `client` is who shares the limits of one client."""
        try:
            request = parse(head)
        except HeadError as error:
            return self.refuse(error.status)
        page = self._refusal(request, client) or self._page(request)
        log.debug(
            "request",
            extra={
                "fields": {"client": client, "request": f"{request.method} {request.target}", "status": page.status}
            },
        )
        return Answer(self._written(page, keep=request.keep, bodyless=request.method == "HEAD"), request.keep)

    def refuse(self, status: HTTPStatus) -> Answer:
        """Return an answer that says no more than its status and ends the connection."""
        return Answer(self._written(Page(status, f"{status.value}: {status.phrase}\n"), keep=False), keep=False)

    def _refusal(self, request: Head, client: str) -> Page | None:
        """Return why a request isn't let in, before anything is said of what is inside."""
        if not self._web:
            return None
        if not self._web.admits():
            return Page(HTTPStatus.TOO_MANY_REQUESTS, "Too many requests\n")
        try:
            if self._web.allows(request.headers.get("authorization"), client):
                return None
        except TooManyGuesses:
            return Page(HTTPStatus.TOO_MANY_REQUESTS, "Too many passwords to check\n", {"Retry-After": "1"})
        return Page(HTTPStatus.UNAUTHORIZED, "Unauthorized\n", {"WWW-Authenticate": "Basic"})

    def _page(self, request: Head) -> Page:
        if request.method not in {"GET", "HEAD"}:
            return Page(HTTPStatus.METHOD_NOT_ALLOWED, "405: use GET\n", {"Allow": "GET, HEAD"})
        if request.path == self._telemetry_path:
            return self._metrics(request.headers)
        if request.path == "/-/healthy":
            return Page(HTTPStatus.OK, f"{self._exporter.name}-exporter is healthy.\n")
        if request.path == "/":
            return Page(HTTPStatus.OK, self._landing_page(), {"Content-Type": "text/html; charset=utf-8"})
        return Page(HTTPStatus.NOT_FOUND, f"404: the metrics are at {self._telemetry_path}\n")

    def _metrics(self, asked: dict[str, str]) -> Page:
        form = negotiate(asked.get("accept", ""))
        seconds = time_for_sources(asked.get("x-prometheus-scrape-timeout-seconds"))
        gzipped = accepts_gzip(asked.get("accept-encoding", ""))
        headers = {"Content-Type": form.content_type, "Vary": "Accept, Accept-Encoding"}
        if gzipped:
            headers["Content-Encoding"] = "gzip"
        return Page(HTTPStatus.OK, self._exporter.scrape(form, seconds, gzipped=gzipped), headers)

    def _written(self, page: Page, *, keep: bool, bodyless: bool = False) -> bytes:
        headers = {
            "Server": f"virtscope/{__version__}",
            "Date": formatdate(usegmt=True),
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Length": str(len(page.content)),
            **(self._web.headers if self._web else {}),
            **page.headers,
            **({} if keep else {"Connection": "close"}),
        }
        lines = [f"HTTP/1.1 {page.status.value} {page.status.phrase}", *map(": ".join, headers.items()), "", ""]
        return "\r\n".join(lines).encode() + (b"" if bodyless else page.content)

    def _landing_page(self) -> str:
        name = f"{self._exporter.name}-exporter"
        metrics = html.escape(self._telemetry_path)
        return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title></head>
<body>
<h1>{name}</h1>
<p>Version {__version__}, part of virtscope: what virtualisation costs, live.</p>
<ul><li><a href="{metrics}">Metrics</a></li><li><a href="/-/healthy">Health</a></li></ul>
</body></html>
"""
