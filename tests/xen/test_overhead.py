"""A busy Dom0: from the hypervisor to the notification, and on the dashboard."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.queries import HOST, run_queries
from tests.support import Alertmanager, Prometheus, Webhook
from tests.support.reporting import Report
from tests.xen.host import XenHost

pytestmark = pytest.mark.long

ALERT_FOR = "10s"  # instead of the `for` in alerts/rules; nothing else is changed

_NO_APPLICATION = "nothing in its guests answers requests"
_IDLE_NETWORK = "its guests hardly send anything"
_NO_WAIT = "only XAPI reports how long guests wait"
_NO_CAP = "none of its guests has a cap"
NOT_OF_THIS_HOST = {
    ("CPU usage and capacity", "C"): "up to ten guests are all shown",
    ("CPU usage and capacity", "E"): "no guest has ended recently",
    ("Overhead per request", "A"): _NO_APPLICATION,
    ("Overhead per GB", "A"): _IDLE_NETWORK,
    ("CPU wait", "A"): _NO_WAIT,
    ("CPU wait / demand", "A"): _NO_WAIT,
    ("CPU wait / demand", "B"): _NO_WAIT,
    ("CPU cap utilisation", "A"): _NO_CAP,
    ("Virtual servers", "C"): _NO_WAIT,
    ("Virtual servers", "D"): _NO_CAP,
    ("Virtual servers", "E"): "Xen doesn't report how long a guest was throttled by its cap",
}
"""Panels and their queries that may be empty here, and why."""


@contextlib.contextmanager
def busy_dom0(xen: XenHost) -> Iterator[None]:
    """Keeps Dom0's CPU busy; it precedes its guests, as on hosts that give it the greatest weight for their I/O."""
    pid = xen.dom0("sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $!").strip()
    try:
        yield
    finally:
        xen.dom0(f"kill {pid}")


def test_a_busy_dom0_raises_the_overhead_and_a_notification_is_sent(
    xen: XenHost, prometheus: Prometheus, tmp_path: Path, report: Report
) -> None:
    ratio = 'host:overhead:ratio{host="xen-lab"}'
    [series] = prometheus.wait_for(ratio, seconds=60)
    idle = float(series["value"][1])
    with (
        Webhook() as webhook,
        Alertmanager(tmp_path, webhook.url) as alertmanager,
        busy_dom0(xen),
        # A Prometheus of its own: the alert's range is five minutes, and in the other one Dom0 was idle for most of it.
        Prometheus(
            tmp_path,
            {"xentop": [xen.target]},
            alertmanager=alertmanager.address,
            interval="5s",
            alert_for=ALERT_FOR,
        ) as own_prometheus,
    ):
        own_prometheus.watch("prometheus", [{"targets": [own_prometheus.url.removeprefix("http://")]}])
        [alert] = overhead_alerts(webhook.wait_for(lambda message: bool(overhead_alerts(message)), seconds=180))
        assert alert["labels"]["host"] == "xen-lab"
        assert "Domain-0 uses " in alert["annotations"]["description"]
        busy = own_prometheus.value(ratio)
        assert busy > idle
        report(f"Dom0's share of all CPU used: {idle:.0%} idle, {busy:.0%} busy")
        report(f"alert: {alert['annotations']['summary']}")

        answers = run_queries(own_prometheus.url, HOST, {"host": "xen-lab"})
        empty = {(answer.panel, answer.ref_id) for answer in answers if not answer.series}
        assert empty <= NOT_OF_THIS_HOST.keys(), "every other panel of the dashboard shows data"


def overhead_alerts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The firing HostOverheadHigh alerts in a message."""
    firing = [alert for alert in message["alerts"] if alert["status"] == "firing"]
    return [alert for alert in firing if alert["labels"]["alertname"] == "HostOverheadHigh"]
