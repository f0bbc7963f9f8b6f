"""Requests and their headers."""

from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.refusals import refusal
from tests.unit.toolkit.webconfig.pki import ALICES_HASH, ALICES_PASSWORD, basic
from virtscope.toolkit.exposition import CONTENT_TYPE
from virtscope.toolkit.pages import (
    MAX_HEADERS,
    Pages,
    Refused,
    accepts_gzip,
    parse_head,
    time_for_sources,
)
from virtscope.toolkit.webconfig import TooManyGuesses, WebConfig


def test_a_scrape_as_prometheus_sends_it() -> None:
    head = parse_head(b"GET /metrics?collect=xl HTTP/1.1\r\nHost: xen1\r\nAccept:text/plain\r\nACCEPT: \t*/* \r\n\r\n")
    assert (head.method, head.path, head.keep) == ("GET", "/metrics", True)
    assert head.headers == {"host": "xen1", "accept": "text/plain, */*"}
    assert parse_head(b"GET / HTTP/1.1\nHost: xen1\n\n").headers == {"host": "xen1"}, "as netcat ends lines"
    for line in (
        b"Connection: close",
        b"connection: Upgrade, Close",
        b"Content-Length: 0",
        b"Transfer-Encoding: chunked",
    ):
        assert not parse_head(b"GET / HTTP/1.1\r\n%b\r\n\r\n" % line).keep, line
    assert not parse_head(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep


def test_malformed_heads_other_versions_and_too_many_headers_are_refused() -> None:
    malformed = [
        b"GET / HTTP/1.1\r\nContent-Length : 60\r\n\r\n",  # a server that ignores it takes the body for a request
        b"GET / HTTP/1.1\r\n Content-Length: 60\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\rContent-Length: 60\r\n\r\n",
        *(b"GET / HTTP/1.1\r\n%b\r\n\r\n" % line for line in (b"A: \0", b"A", b": b")),
        *(b"GET / HTTP/1.1\r\nA: b\r\n", b"GET  / HTTP/1.1\r\n\r\n", b"GET / HTTP/11\r\n\r\n", b"GET /\r\n\r\n"),
        *(b"\r\n\r\n", b"\0\xff\r\n\r\n"),
    ]
    lines = b"A: b\r\n" * MAX_HEADERS
    assert parse_head(b"GET / HTTP/1.1\r\n%b\r\n" % lines).keep
    refused = [*((head, 400) for head in malformed), (b"GET / HTTP/2.0\r\n\r\n", 505)]
    for head, status in [*refused, (b"GET / HTTP/1.1\r\n%bA: b\r\n\r\n" % lines, 431)]:
        assert refusal(Refused, parse_head, head).status == status, head


def test_gzip_only_for_clients_that_accept_it() -> None:
    accepted = ["gzip", "deflate, GZIP;q=0.5, br", "br;q=malformed, gzip"]
    plain = ["", "identity", "gzip;q=0", "gzip; q=0.0, *", "*;q=0", "gzippy"]
    assert [header for header in (*accepted, *plain) if accepts_gzip(header)] == accepted


def test_sources_have_the_scrapes_time_less_a_margin() -> None:
    """No timeout is so short that every source would miss it."""
    known = [("10", 9.5), ("2.5", 2.0), ("1", 0.8), ("0.001", 0.08), ("1e-9", 0.08), ("3600", 59.5)]
    for timeout, seconds in [*known, *((timeout, 9.5) for timeout in (None, "", "soon", "nan", "inf", "0", "-1"))]:
        assert time_for_sources(timeout) == pytest.approx(seconds), timeout


class Scraped:
    def __init__(self, name: str = "vestat") -> None:
        self.name = name
        self.asked: list[tuple[float, bool, bool]] = []

    def scrape(self, seconds: float, *, gzipped: bool = False, shared: bool = False) -> bytes:
        self.asked.append((seconds, gzipped, shared))
        return self.name.encode()


class Hosts:
    """Accepts probes of every host except one."""

    def find(self, target: str, module: str) -> Scraped:
        if target == "nowhere":
            raise Refused(HTTPStatus.NOT_FOUND, "404: no such host")
        return Scraped(f"{target} by {module!r}")


class Got(NamedTuple):
    status: int
    headers: dict[str, str]
    content: str
    keep: bool


def get(pages: Pages, target: str, *headers: str) -> Got:
    answer = pages.answer("".join([f"GET {target} HTTP/1.1\r\n", *(f"{h}\r\n" for h in headers), "\r\n"]).encode(), "c")
    head, _, content = b"".join(answer.parts).partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return Got(int(status[9:12]), dict(line.split(": ", 1) for line in lines), content.decode(), answer.keep)


def test_metrics_are_those_that_the_headers_ask_for() -> None:
    scraped = Scraped()
    pages = Pages("/m", None, scraped)
    plain = get(pages, "/m?collect=xl")
    asked = ("Accept: application/openmetrics-text", "Accept-Encoding: gzip", "X-Prometheus-Scrape-Timeout-Seconds: 5")
    gzipped = get(pages, "/m", *asked, "Connection: close")
    assert scraped.asked == [(9.5, False, False), (4.5, True, True)]
    of_both = {"Content-Length": "6", "Vary": "Accept-Encoding", "Content-Type": CONTENT_TYPE}
    of_gzip = {**of_both, "Content-Encoding": "gzip", "Connection": "close"}
    for got, headers in ((plain, of_both), (gzipped, of_gzip)):
        assert (got.status, got.content, got.keep) == (200, "vestat", got is plain)
        assert got.headers.pop("Date").endswith(" GMT")
        assert got.headers.pop("Server").startswith("virtscope/")
        assert got.headers == headers


def test_the_first_page_leads_to_the_others() -> None:
    scraped = Scraped()
    pages = Pages("/m", None, scraped)
    first = get(pages, "/")
    assert (first.status, first.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    links = ('<a href="/m">Metrics</a>', '<a href="/-/healthy">Health</a>', "/probe")
    assert [link in first.content for link in links] == [True, True, False]
    assert get(pages, "/-/healthy")[::2] == (200, "vestat-exporter is healthy.\n")
    for other in ("/metrics", "/m/", "/favicon.ico", "/probe?target=xen1"):
        assert get(pages, other)[::2] == (404, "404: the metrics are at /m\n")
    assert scraped.asked == []
    refused = pages.answer(b"\0\r\n\r\n", "c")
    assert (b"".join(refused.parts)[:26], refused.keep) == (b"HTTP/1.1 400 Bad Request\r\n", False)


def test_a_probe_is_of_the_one_host_that_it_names() -> None:
    pages = Pages("/m", None, Scraped(), Hosts())
    assert "/probe?target=HOST&amp;module=MODULE" in get(pages, "/").content
    assert get(pages, "/probe?module=full&target=xen%31")[::2] == (200, "xen1 by 'full'")
    assert get(pages, "/probe?target=xen1")[::2] == (200, "xen1 by ''")
    assert get(pages, "/probe?target=nowhere")[::2] == (404, "404: no such host\n")
    assert pages.probed_host(b"HEAD /probe?module=full&target=xen%31 HTTP/1.1\r\n\r\n") == "xen1"
    for line in (b"GET /probe?target=a&target=b", b"GET /probe", b"GET /m?target=a", b"GET /m /probe?target=a"):
        assert pages.probed_host(line + b" HTTP/1.1\r\n\r\n") is None, line
    two = ["?target=a&target=b", "?target=a&module=b&module=c"]
    for query in ["", "?", "?module=full", "?target=", *two, "?target=a&user=root", "?target=a&b", "?a"]:
        assert get(pages, f"/probe{query}")[::2] == (400, "400: a probe is /probe?target=HOST&module=MODULE\n"), query


def test_without_the_password_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{alice: {ALICES_HASH}}}")
    scraped = Scraped()
    pages = Pages("/m", WebConfig(str(tmp_path / "web.yml")), scraped)
    for path in ("/m", "/", "/-/healthy", "/nothing"):
        refused = get(pages, path)
        assert (refused.status, refused.headers["WWW-Authenticate"]) == (401, "Basic")
        assert refused.content == "Unauthorized\n"
    assert scraped.asked == []
    assert get(pages, "/m", f"Authorization: {basic('alice', ALICES_PASSWORD)}")[::2] == (200, "vestat")

    def allows(_: WebConfig, authorization: str | None, client: str) -> bool:
        raise TooManyGuesses(authorization, client)

    monkeypatch.setattr(WebConfig, "allows", allows)
    refused = get(pages, "/m")
    assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
