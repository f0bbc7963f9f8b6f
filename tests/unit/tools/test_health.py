"""What Prometheus says of its targets."""

from __future__ import annotations

import json

import pytest

from tools import StackError, health


def targets(interval: str) -> bytes:
    labels = {"job": "xentop", "__address__": "xen1:9120"}
    target = {"labels": labels, "discoveredLabels": labels, "health": "up", "lastError": "", "scrapeInterval": interval}
    return json.dumps({"data": {"activeTargets": [target]}}).encode()


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [("500ms", 0.5), ("5s", 5), ("1m30s", 90), ("2h", 7200), ("1d", 86400), ("1w", 604800), ("1y", 31536000)],
)
def test_the_interval_of_a_target_is_in_seconds(interval: str, seconds: float) -> None:
    (target,) = health.parse_targets(targets(interval))
    assert target.interval == seconds


@pytest.mark.parametrize("interval", ["", "5", "5x", "1m30", "soon", "1M", "1.5s"])
def test_an_interval_that_is_none_is_an_error(interval: str) -> None:
    with pytest.raises(StackError):
        health.parse_targets(targets(interval))
