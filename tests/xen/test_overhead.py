"""A busy Dom0: from the hypervisor to the notification, and on the dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.queries import HOST, run_queries
from tests.support import Alertmanager, Prometheus, Webhook
from tests.support.reporting import Report
from tests.xen.host import XenHost

pytestmark = pytest.mark.long

ALERT_FOR = "10s"  # instead of the `for` in alerts/rules; nothing else is changed

# Panels whose queries may be empty here.
NOT_OF_THIS_HOST = {
    *(("CPU usage and capacity", "C"), ("CPU usage and capacity", "E")),  # few guests, of which none has ended
    *(("Overhead per request", "A"), ("Overhead per GB", "A")),  # no application, and an idle network
    *(("CPU wait", "A"), ("CPU wait / demand", "A"), ("CPU wait / demand", "B")),  # only XAPI reports waiting
    ("Virtual servers", "C"),
    *(("CPU cap utilisation", "A"), ("Virtual servers", "D"), ("Virtual servers", "E")),  # no guest has a cap
}


def test_a_busy_dom0_raises_the_overhead_and_a_notification_is_sent(
    xen: XenHost, prometheus: Prometheus, tmp_path: Path, report: Report
) -> None:
    """Dom0 has precedence over its guests, as on hosts that give it the maximum weight for their I/O."""
    ratio = 'host:overhead:ratio{host="xen-lab"}'
    [series] = prometheus.wait_for(ratio, seconds=60)
    idle = float(series["value"][1])
    pid = xen.dom0("sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $!").strip()
    try:
        with (
            Webhook() as webhook,
            Alertmanager(tmp_path, webhook.url) as alertmanager,
            # A new Prometheus: the alert's range is five minutes, and Dom0 was idle in most of the other one's.
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

            answers = run_queries(own_prometheus.url, HOST, {"host": "xen-lab"})
            empty = {(answer.panel, answer.ref_id) for answer in answers if not answer.series}
            assert empty <= NOT_OF_THIS_HOST, "every other panel of the dashboard shows data"
    finally:
        xen.dom0(f"kill {pid}")


def overhead_alerts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The firing HostOverheadHigh alerts in a message."""
    firing = [alert for alert in message["alerts"] if alert["status"] == "firing"]
    return [alert for alert in firing if alert["labels"]["alertname"] == "HostOverheadHigh"]
