"""Heads of requests: what is taken, and what is refused rather than guessed."""

from __future__ import annotations

import pytest

from virtscope.toolkit.head import MOST_HEADERS, HeadError, parse


def test_a_scrape_as_prometheus_sends_it() -> None:
    head = parse(b"GET /metrics?collect=xl HTTP/1.1\r\nHost: xen1:10290\r\nAccept:text/plain\r\nACCEPT: \t*/* \r\n\r\n")
    assert head.method == "GET"
    assert head.path == "/metrics"
    assert head.headers == {"host": "xen1:10290", "accept": "text/plain, */*"}
    assert head.keep


def test_lines_may_end_as_netcat_ends_them() -> None:
    assert parse(b"GET / HTTP/1.1\nHost: xen1\n\n").headers == {"host": "xen1"}


@pytest.mark.parametrize(
    "lines",
    [b"Connection: close", b"connection: Upgrade, Close", b"Content-Length: 0", b"Transfer-Encoding: chunked"],
)
def test_what_ends_the_connection(lines: bytes) -> None:
    assert not parse(b"GET / HTTP/1.1\r\n%b\r\n\r\n" % lines).keep
    assert not parse(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nContent-Length : 60\r\n\r\n",  # a server that overlooks it takes the body for a request
        b"GET / HTTP/1.1\r\n Content-Length: 60\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\rContent-Length: 60\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: \0\r\n\r\n",
        b"GET / HTTP/1.1\r\nA\r\n\r\n",
        b"GET / HTTP/1.1\r\n: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/11\r\n\r\n",
        b"GET /\r\n\r\n",
        b"\r\n\r\n",
        b"\0\xff\r\n\r\n",
    ],
)
def test_malformed_heads_are_refused(head: bytes) -> None:
    with pytest.raises(HeadError) as refused:
        parse(head)
    assert refused.value.status == 400


def test_other_versions_and_too_many_headers_are_refused() -> None:
    with pytest.raises(HeadError) as version:
        parse(b"GET / HTTP/2.0\r\n\r\n")
    assert version.value.status == 505
    line = b"A: b\r\n"
    assert parse(b"GET / HTTP/1.1\r\n%b\r\n" % (line * MOST_HEADERS)).keep
    with pytest.raises(HeadError) as many:
        parse(b"GET / HTTP/1.1\r\n%b\r\n" % (line * (MOST_HEADERS + 1)))
    assert many.value.status == 431
