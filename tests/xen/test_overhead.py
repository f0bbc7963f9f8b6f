"""A busy Dom0, from the hypervisor to the message that somebody gets, and on the dashboard."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.queries import HOST, run_queries
from tests.live import Alertmanager, Prometheus, Webhook
from tests.xen.host import XenHost

pytestmark = pytest.mark.timeout(900)  # the first test also builds and boots

ALERT_FOR = "10s"  # in place of what alerts/rules says: the one thing changed


@contextlib.contextmanager
def busy_dom0(xen: XenHost) -> Iterator[None]:
    """Dom0 computes, and goes before its guests, as on hosts that give it the greatest weight to keep I/O flowing."""
    weight = "xl sched-credit2 -d 0 -w"
    pid = xen.dom0(f"{weight} 65535; sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $!").strip()
    try:
        yield
    finally:
        xen.dom0(f"kill {pid}; {weight} 256")


def test_a_busy_dom0_raises_the_overhead_and_somebody_is_told(
    xen: XenHost, prometheus: Prometheus, tmp_path: Path, figures: Callable[[str], None]
) -> None:
    ratio = 'host:overhead:ratio{host="xen-lab"}'
    [series] = prometheus.wait_for(ratio, seconds=60)
    usual = float(series["value"][1])
    with (
        Webhook() as webhook,
        Alertmanager(tmp_path, webhook.url) as alertmanager,
        busy_dom0(xen),
        # A Prometheus of its own: the alert looks five minutes back, and the other one remembers Dom0 idle.
        Prometheus(
            tmp_path,
            {"xentop": [xen.target]},
            alertmanager=alertmanager.address,
            interval="5s",
            alert_for=ALERT_FOR,
        ) as judge,
    ):
        [alert] = overhead_alerts(webhook.wait_for(lambda message: bool(overhead_alerts(message)), seconds=180))
        assert alert["labels"]["host"] == "xen-lab"
        assert "Domain-0 uses " in alert["annotations"]["description"]
        busy = judge.value(ratio)
        assert busy > usual
        figures(f"Dom0's share of all CPU used: {usual:.0%} as it is, {busy:.0%} made busy")
        figures(f"alert: {alert['annotations']['summary']}")

        empty = [answer for answer in run_queries(judge.url, HOST, {"host": "xen-lab"}) if not answer.series]
        assert empty == [], "every panel of the dashboard has something to show of this host"


def overhead_alerts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The firing HostOverheadHigh alerts of a message."""
    firing = [alert for alert in message["alerts"] if alert["status"] == "firing"]
    return [alert for alert in firing if alert["labels"]["alertname"] == "HostOverheadHigh"]
