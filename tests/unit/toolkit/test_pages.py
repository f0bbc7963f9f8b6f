"""Requests and what their headers ask for."""

from __future__ import annotations

import pytest

from virtscope.toolkit.exposition import Format
from virtscope.toolkit.pages import MOST_HEADERS, HeadError, accepts_gzip, negotiate, parse_head

# --- Heads ------------------------------------------------------------------------------------------------------------


def test_a_scrape_as_prometheus_sends_it() -> None:
    head = parse_head(
        b"GET /metrics?collect=xl HTTP/1.1\r\nHost: xen1:10290\r\nAccept:text/plain\r\nACCEPT: \t*/* \r\n\r\n"
    )
    assert head.method == "GET"
    assert head.path == "/metrics"
    assert head.headers == {"host": "xen1:10290", "accept": "text/plain, */*"}
    assert head.keep


def test_lines_may_end_as_netcat_ends_them() -> None:
    assert parse_head(b"GET / HTTP/1.1\nHost: xen1\n\n").headers == {"host": "xen1"}


@pytest.mark.parametrize(
    "lines",
    [b"Connection: close", b"connection: Upgrade, Close", b"Content-Length: 0", b"Transfer-Encoding: chunked"],
)
def test_what_ends_the_connection(lines: bytes) -> None:
    assert not parse_head(b"GET / HTTP/1.1\r\n%b\r\n\r\n" % lines).keep
    assert not parse_head(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep


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
        parse_head(head)
    assert refused.value.status == 400


def test_other_versions_and_too_many_headers_are_refused() -> None:
    with pytest.raises(HeadError) as version:
        parse_head(b"GET / HTTP/2.0\r\n\r\n")
    assert version.value.status == 505
    line = b"A: b\r\n"
    assert parse_head(b"GET / HTTP/1.1\r\n%b\r\n" % (line * MOST_HEADERS)).keep
    with pytest.raises(HeadError) as many:
        parse_head(b"GET / HTTP/1.1\r\n%b\r\n" % (line * (MOST_HEADERS + 1)))
    assert many.value.status == 431


# --- Formats and encodings --------------------------------------------------------------------------------------------


PROMETHEUS_2_42 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,/;q=0.1"
)
PROMETHEUS_3_NATIVE_HISTOGRAMS = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6," + PROMETHEUS_3
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize(
    "accept",
    [
        PROMETHEUS_2_42,
        PROMETHEUS_3,
        PROMETHEUS_3_NATIVE_HISTOGRAMS,
        "application/openmetrics-text",
        "Application/OpenMetrics-Text; Version=1.0.0",
        'application/openmetrics-text;version="1.0.0", */*',
        "application/openmetrics-text, text/plain;q=0.9",
        "text/plain;version=1.0.0;q=1, application/openmetrics-text;version=1.0.0;q=0.1",
    ],
)
def test_openmetrics_for_clients_that_ask_for_it(accept: str) -> None:
    assert negotiate(accept) is Format.OPENMETRICS


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/*",
        BROWSER,
        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "application/openmetrics-text;q=0",
        "application/openmetrics-text;q=0.1, text/plain",
        "application/openmetrics-text;q=0.5, */*",
        "application/openmetrics-text;version=0.0.1",
        "application/openmetrics-text;version=2.0.0",
        "application/openmetrics-text;q=nan",
        "application/openmetrics-text;q=2",
        "application/openmetrics-text;q=much",
        ",;;=,q=1;;q",
        "\udcff\x00",
    ],
)
def test_text_for_all_other_clients(accept: str) -> None:
    assert negotiate(accept) is Format.TEXT


def test_content_types() -> None:
    assert Format.TEXT.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert Format.OPENMETRICS.content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"


@pytest.mark.parametrize(
    ("accept_encoding", "expected"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5, br", True),
        ("*", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip; q=0.0, *", False),
        ("*;q=0", False),
        ("gzip;q=malformed", False),
        ("gzippy", False),
    ],
)
def test_gzip_only_for_clients_that_accept_it(accept_encoding: str, expected: bool) -> None:
    assert accepts_gzip(accept_encoding) is expected
