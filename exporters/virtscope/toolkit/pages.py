"""HTTP of every exporter: request parsing and pages."""

from __future__ import annotations

import html
import logging
import math
import re
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple, Protocol
from urllib.parse import parse_qs

from virtscope import __version__
from virtscope.toolkit.exposition import CONTENT_TYPE
from virtscope.toolkit.webconfig import TooManyGuesses, WebConfig

log = logging.getLogger(__name__)

MAX_HEADERS = 100
# Prometheus's default scrape timeout, for clients without the header (curl, a browser).
DEFAULT_SCRAPE_TIMEOUT = 10.0
# Larger content isn't copied behind its headers, so that scrapes share it.
MAX_COPIED_BYTES = 64 << 10
# No scraper needs less. With less, sources would fail in one scrape and recover in the next, each with a log line.
MIN_SCRAPE_TIMEOUT = 0.1
MAX_SCRAPE_TIMEOUT = 60.0

_HEADERS = rb"(?:[-!#$%&'*+.^_`|~0-9A-Za-z]+:[^\r\n\0]*\r?\n)*"
_HEAD = re.compile(rb"([!-~]+) ([!-~]+) HTTP/([0-9])\.([0-9])\r?\n(" + _HEADERS + rb")\r?\n")


# --- Requests ---------------------------------------------------------------------------------------------------------


class Refused(Exception):
    """An invalid head, or a probe that failed; the client gets `status` and the message."""

    def __init__(self, status: HTTPStatus, words: str = "") -> None:
        super().__init__(words or status.phrase)
        self.status = status


class Head(NamedTuple):
    """The head of an HTTP/1 request (RFC 9112): its request line and headers.

    Header names are in lower case; values of repeated headers are joined by commas.
    """

    method: str
    target: str
    headers: dict[str, str]
    keep: bool  # the connection, after the answer

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


def parse_head(head: bytes) -> Head:
    """Parse a head with the empty line that ends it; raises Refused.

    Stricter than http.server's parser, which ends the head at a header with a blank before its colon and so misses a
    Content-Length there or below. And ten times faster: http.server's takes as long as a whole scrape of a small host.
    """
    found = _HEAD.fullmatch(head)
    if not found:
        raise Refused(HTTPStatus.BAD_REQUEST)
    method, target, major, minor, lines = found.groups()
    if major != b"1":
        raise Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
    fields = lines.decode("latin-1").split("\n")[:-1]
    if len(fields) > MAX_HEADERS:
        raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    headers: dict[str, str] = {}
    for field in fields:
        name, _, value = field.partition(":")
        name, value = name.lower(), value.strip(" \t\r")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    # A body is never read and must not be parsed as the next request. HTTP/1.0 keep-alive isn't supported.
    keep = (
        minor != b"0"
        and "close" not in {option.strip().lower() for option in headers.get("connection", "").split(",")}
        and headers.keys().isdisjoint(("content-length", "transfer-encoding"))
    )
    return Head(method.decode(), target.decode(), headers, keep)


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether an Accept-Encoding header names gzip; ``gzip;q=0`` forbids it."""
    codings = dict(each.partition(";q=")[::2] for each in accept_encoding.lower().replace(" ", "").split(","))
    return codings.get("gzip", "0").strip("0.") != "" or codings.get("gzip") == ""


# --- Pages ------------------------------------------------------------------------------------------------------------


class Scrapes(Protocol):
    """The served exporter; see virtscope.toolkit.scrape.Exporter."""

    name: str

    def scrape(self, seconds: float, *, gzipped: bool = False, shared: bool = False) -> bytes: ...


class Probes(Protocol):
    """Hosts probed on behalf of a client, as by blackbox_exporter and snmp_exporter."""

    def find(self, target: str, module: str) -> Scrapes:
        """Return the exporter of this target; raises Refused, as its scrape() may."""
        ...


def time_for_sources(timeout_header: str | None) -> float:
    """Return how many seconds the sources may take, from Prometheus's X-Prometheus-Scrape-Timeout-Seconds header.

    The margin for encoding and network is a fifth of the timeout, at most half a second.
    """
    try:
        timeout = float(timeout_header or DEFAULT_SCRAPE_TIMEOUT)
    except ValueError:
        timeout = DEFAULT_SCRAPE_TIMEOUT
    if not math.isfinite(timeout) or timeout <= 0:
        timeout = DEFAULT_SCRAPE_TIMEOUT
    timeout = min(max(timeout, MIN_SCRAPE_TIMEOUT), MAX_SCRAPE_TIMEOUT)
    return timeout - min(0.5, timeout / 5)


class Answer(NamedTuple):
    """An HTTP response in parts, and whether the connection stays open.

    Answers may share a part: a page shared by many scrapes is in memory once.
    """

    parts: tuple[bytes, ...]
    keep: bool


class Page(NamedTuple):
    """Content, status and specific headers of an answer."""

    status: HTTPStatus
    content: str | bytes
    headers: Mapping[str, str] = MappingProxyType({})


class Pages:
    """The pages of one exporter, behind the web configuration's access rules."""

    def __init__(
        self, telemetry_path: str, web: WebConfig | None, exporter: Scrapes, probes: Probes | None = None
    ) -> None:
        self._telemetry_path = telemetry_path
        self._web = web
        self._exporter = exporter
        self._probes = probes

    def probed_host(self, head: bytes) -> str | None:
        """Return the host probed by this request, None if it is no probe; never blocks."""
        if not self._probes or b" /probe?" not in head[:16]:
            return None
        try:
            return _query(parse_head(head).target)["target"]
        except Refused:
            return None

    def answer(self, head: bytes, client: str, waited: float = 0.0) -> Answer:
        """Return the answer to the request with this head; requests from one `client` share its limits.

        `waited`: seconds since its arrival, deducted from the sources' time.
        """
        try:
            request = parse_head(head)
        except Refused as error:
            return self.refuse(error.status)
        page = self._refusal(request, client) or self._page(request, waited)
        fields = {"client": client, "request": f"{request.method} {request.target}", "status": page.status}
        log.debug("request", extra={"fields": fields})
        return self._written(page, keep=request.keep, bodyless=request.method == "HEAD")

    def refuse(self, status: HTTPStatus) -> Answer:
        """Return an answer with just this status, closing the connection."""
        return self._written(Page(status, f"{status.value}: {status.phrase}\n"), keep=False)

    def _refusal(self, request: Head, client: str) -> Page | None:
        """Return the error page if access is denied, None otherwise."""
        if not self._web:
            return None
        try:
            if self._web.allows(request.headers.get("authorization"), client):
                return None
        except TooManyGuesses:
            return Page(HTTPStatus.TOO_MANY_REQUESTS, "Too many passwords to check\n", {"Retry-After": "1"})
        return Page(HTTPStatus.UNAUTHORIZED, "Unauthorized\n", {"WWW-Authenticate": "Basic"})

    def _page(self, request: Head, waited: float) -> Page:
        if request.method not in {"GET", "HEAD"}:
            return Page(HTTPStatus.METHOD_NOT_ALLOWED, "405: use GET\n", {"Allow": "GET, HEAD"})
        if request.path == self._telemetry_path:
            return self._metrics(self._exporter, request.headers, waited)
        if self._probes and request.path == "/probe":
            return self._probe(self._probes, request, waited)
        if request.path == "/-/healthy":
            return Page(HTTPStatus.OK, f"{self._exporter.name}-exporter is healthy.\n")
        if request.path == "/":
            return Page(HTTPStatus.OK, self._landing_page(), {"Content-Type": "text/html; charset=utf-8"})
        return Page(HTTPStatus.NOT_FOUND, f"404: the metrics are at {self._telemetry_path}\n")

    def _probe(self, probes: Probes, request: Head, waited: float) -> Page:
        try:
            query = _query(request.target)
            return self._metrics(probes.find(query["target"], query["module"]), request.headers, waited)
        except Refused as refusal:
            return Page(refusal.status, f"{refusal}\n")

    def _metrics(self, exporter: Scrapes, asked: dict[str, str], waited: float) -> Page:
        timeout = asked.get("x-prometheus-scrape-timeout-seconds")
        gzipped = accepts_gzip(asked.get("accept-encoding", ""))
        headers = {"Content-Type": CONTENT_TYPE, "Vary": "Accept-Encoding"}
        if gzipped:
            headers["Content-Encoding"] = "gzip"
        seconds = max(time_for_sources(timeout) - waited, 0.0)
        # Two requests by curl, which sends no timeout, get fresh values each.
        exposition = exporter.scrape(seconds, gzipped=gzipped, shared=timeout is not None)
        return Page(HTTPStatus.OK, exposition, headers)

    def _written(self, page: Page, *, keep: bool, bodyless: bool = False) -> Answer:
        content = page.content.encode() if isinstance(page.content, str) else page.content
        headers = {
            "Server": f"virtscope/{__version__}",
            "Date": formatdate(usegmt=True),
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Length": str(len(content)),
            **(self._web.headers if self._web else {}),
            **page.headers,
            **({} if keep else {"Connection": "close"}),
        }
        lines = [f"HTTP/1.1 {page.status.value} {page.status.phrase}", *map(": ".join, headers.items()), "", ""]
        head = "\r\n".join(lines).encode()
        if bodyless:
            return Answer((head,), keep)
        return Answer((head + content,) if len(content) <= MAX_COPIED_BYTES else (head, content), keep)

    def _landing_page(self) -> str:
        name = f"{self._exporter.name}-exporter"
        metrics = html.escape(self._telemetry_path)
        probe = "<li>A host: /probe?target=HOST&amp;module=MODULE</li>" if self._probes else ""
        return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title></head>
<body>
<h1>{name}</h1>
<p>Version {__version__}, part of virtscope: what virtualisation costs, live.</p>
<ul><li><a href="{metrics}">Metrics</a></li>{probe}<li><a href="/-/healthy">Health</a></li></ul>
</body></html>
"""


def _query(url: str) -> dict[str, str]:
    """Return target and module of a probe's URL; raises Refused."""
    try:
        query = parse_qs(url.partition("?")[2], strict_parsing=True, max_num_fields=2)
    except ValueError:
        query = {}
    if set(query) - {"target", "module"} or "target" not in query or any(len(values) > 1 for values in query.values()):
        raise Refused(HTTPStatus.BAD_REQUEST, "400: a probe is /probe?target=HOST&module=MODULE")
    return {"module": "", **{name: values[0] for name, values in query.items()}}
