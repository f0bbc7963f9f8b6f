"""What files say is taken as it is, and reaches Prometheus as it is."""

from __future__ import annotations

from alerts.generator.document import FileError, parse
from alerts.generator.histograms import Histogram, Source
from alerts.generator.names import decimal
from alerts.generator.requests import request_rules
from tests.support.refusals import assert_refused


def test_a_threshold_has_all_digits_of_its_bucket() -> None:
    """A `le` that is rounded would be none of the buckets, and nothing would be judged."""
    assert [decimal(edge) for edge in (0.001953125, 0.3, 1.0)] == ["0.001953125", "0.3", "1"]


def test_a_constant_label_is_neither_expanded_nor_the_end_of_a_string() -> None:
    histogram = Histogram("http_seconds", (0.1, 1.0), app=Source(constant='a"$1\nb'))
    _measured, bucket, *_ = request_rules([histogram], histogram)
    assert r'"to_app", "a\"$$1\nb", "", ""' in bucket["expr"]


def test_a_scalar_comes_as_it_is_written() -> None:
    value, other = parse("0x10", "shop.yml"), parse("[1]", "shop.yml")
    assert value is not None
    assert other is not None
    assert value.scalar("a duration") == "0x10"
    assert_refused(FileError, r"shop\.yml:1: must be a duration", other.scalar, "a duration")
