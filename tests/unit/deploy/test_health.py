"""The health of targets and sources, from the answers of Prometheus and exporters."""

import json

from prometheus_client import Metric

from deploy import StackError, health
from deploy.parts import SCHED_EXPORTER
from tests.support import Exposition
from tests.support.refusals import assert_refused
from virtscope.toolkit.collect import SourceUnavailable
from virtscope.toolkit.scrape import Exporter, Source


def targets(interval: str) -> bytes:
    labels = {"job": "xentop", "__address__": "xen1:9120"}
    target = {"labels": labels, "discoveredLabels": labels, "health": "up", "lastError": "", "scrapeInterval": interval}
    return json.dumps({"data": {"activeTargets": [target]}}).encode()


def test_the_interval_of_a_target_is_in_seconds_or_an_error() -> None:
    intervals = {"500ms": 0.5, "1m30s": 90, "2h": 7200, "1d": 86400, "1w": 604800, "1y": 31536000}
    assert {interval: health.parse_targets(targets(interval))[0].interval for interval in intervals} == intervals
    for interval in ("", "5", "5x", "1m30", "1M", "1.5s"):
        assert_refused(StackError, "", health.parse_targets, targets(interval))


def page(why: str) -> str:
    """Answers of a sched-exporter that lacks a source for this reason, next to a working one."""

    def read() -> list[Metric]:
        if why:
            raise SourceUnavailable(why)
        return []

    sources = [Source("here", list, lambda: "/sys"), Source("sched_switch", read, lambda: "absent", required=False)]
    return Exporter("sched", sources).scrape(30).decode()


def test_why_a_source_is_absent_is_the_exporter_s_own_reason_in_one_line() -> None:
    for why, said in {
        "this kernel has no types: /sys/kernel/btf is absent": ["this kernel has no types: /sys/kernel/btf is absent"],
        r'it said "no", in C:\ or so': [r'it said "no", in C:\ or so'],
        "no\nlibrary": ["no library"],
        "": [],  # targets that answer aren't absent
    }.items():
        with Exposition(page(why)) as exporter:
            assert health.why_absent(SCHED_EXPORTER, int(exporter.address.rpartition(":")[2])) == said
    assert health.why_absent(SCHED_EXPORTER, 1) == [], "of an exporter that does not answer nothing is said"
