"""Scrapers get the format and the compression that their headers ask for."""

from __future__ import annotations

import pytest

from virtscope.toolkit.exposition import Format, accepts_gzip, negotiate

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
def test_openmetrics_for_who_asks_for_it(accept: str) -> None:
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
def test_text_for_all_others(accept: str) -> None:
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
        ("gzip;q=rubbish", False),
        ("gzippy", False),
    ],
)
def test_gzip_only_for_who_takes_it(accept_encoding: str, expected: bool) -> None:
    assert accepts_gzip(accept_encoding) is expected
