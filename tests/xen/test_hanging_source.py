"""A source that hangs costs only its own metrics: libxenstat waits for xenstored, which holds the names."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from tests.support import Prometheus
from tests.xen.host import SCRAPE_SECONDS, XenHost, wait_for_scrape

pytestmark = pytest.mark.timeout(900)  # the first test also builds and boots


@contextlib.contextmanager
def stopped_xenstored(xen: XenHost) -> Iterator[None]:
    xen.dom0("kill -STOP $(cat /run/xenstored.pid)")
    try:
        yield
    finally:
        xen.dom0("kill -CONT $(cat /run/xenstored.pid)")


def test_scrapes_are_answered_in_time_while_xenstored_hangs(xen: XenHost, prometheus: Prometheus) -> None:
    timeouts = 'xentop_source_errors_total{source="libxenstat", reason="timeout"}'
    before, lines_before = prometheus.value(timeouts), failures_logged(xen)
    with stopped_xenstored(xen):
        begun = time.time()
        for _ in range(3):
            wait_for_scrape(prometheus)
        # `up` is Prometheus's own: 1 only if the answer came before the scrape timeout.
        assert prometheus.value(f'min_over_time(up{{job="xentop"}}[{time.time() - begun:.0f}s])') == 1
        assert prometheus.value("xentop_up") == 0
        assert prometheus.value('xentop_source_up{source="libxenstat"}') == 0
        assert prometheus.value(timeouts) >= before + 2
        assert prometheus.query("xen_domain_cpu_seconds_total") == [], "old values must not pass for new ones"
        assert prometheus.query("process_cpu_seconds_total") != []
    prometheus.wait_for("xentop_up == 1", SCRAPE_SECONDS)
    prometheus.wait_for("xen_domain_cpu_seconds_total", SCRAPE_SECONDS)
    assert failures_logged(xen) == lines_before + 1, "one line per change of state, not one per scrape"


def failures_logged(xen: XenHost) -> int:
    return xen.dom0("cat /var/log/xentop-exporter").count("source failed")
