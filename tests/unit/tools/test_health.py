"""What Prometheus says of its targets."""

from __future__ import annotations

import json

from tests.support.refusals import assert_refused
from tools import StackError, health


def targets(interval: str) -> bytes:
    labels = {"job": "xentop", "__address__": "xen1:9120"}
    target = {"labels": labels, "discoveredLabels": labels, "health": "up", "lastError": "", "scrapeInterval": interval}
    return json.dumps({"data": {"activeTargets": [target]}}).encode()


def test_the_interval_of_a_target_is_in_seconds_or_an_error() -> None:
    intervals = {"500ms": 0.5, "5s": 5, "1m30s": 90, "2h": 7200, "1d": 86400, "1w": 604800, "1y": 31536000}
    found = {interval: health.parse_targets(targets(interval))[0].interval for interval in intervals}
    assert found == intervals
    for interval in ("", "5", "5x", "1m30", "soon", "1M", "1.5s"):
        assert_refused(StackError, "", health.parse_targets, targets(interval))
