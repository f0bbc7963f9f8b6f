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

_NO_APPLICATION = "nothing in its guests answers requests"
_IDLE_NETWORK = "its guests hardly send anything"
_NO_WAIT = "only XAPI tells how long guests wait"
_NO_CAP = "none of its guests has a cap"
NOT_OF_THIS_HOST = {
    ("CPU usage and capacity", "C"): "ten guests and fewer are all shown",
    ("CPU usage and capacity", "E"): "no guest has ended here for minutes",
    ("Overhead per request", "A"): _NO_APPLICATION,
    ("Overhead per GB", "A"): _IDLE_NETWORK,
    ("CPU wait", "A"): _NO_WAIT,
    ("CPU cap utilisation", "A"): _NO_CAP,
    ("Virtual servers", "C"): _NO_WAIT,
    ("Virtual servers", "D"): _NO_CAP,
    ("Virtual servers", "E"): "Xen doesn't tell how long a cap held a guest back",
}
"""Panels, and their queries, that may be empty here, and why."""


@contextlib.contextmanager
def busy_dom0(xen: XenHost) -> Iterator[None]:
    """Dom0 computes, and goes before its guests, as on hosts that give it the greatest weight to keep I/O flowing."""
    pid = xen.dom0("sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $!").strip()
    try:
        yield
    finally:
        xen.dom0(f"kill {pid}")


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
        judge.watch("prometheus", [{"targets": [judge.url.removeprefix("http://")]}])
        [alert] = overhead_alerts(webhook.wait_for(lambda message: bool(overhead_alerts(message)), seconds=180))
        assert alert["labels"]["host"] == "xen-lab"
        assert "Domain-0 uses " in alert["annotations"]["description"]
        busy = judge.value(ratio)
        assert busy > usual
        figures(f"Dom0's share of all CPU used: {usual:.0%} as it is, {busy:.0%} made busy")
        figures(f"alert: {alert['annotations']['summary']}")

        answers = run_queries(judge.url, HOST, {"host": "xen-lab"})
        empty = {(answer.panel, answer.ref_id) for answer in answers if not answer.series}
        assert empty <= NOT_OF_THIS_HOST.keys(), "every other panel of the dashboard has something to show of it"


def overhead_alerts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The firing HostOverheadHigh alerts of a message."""
    firing = [alert for alert in message["alerts"] if alert["status"] == "firing"]
    return [alert for alert in firing if alert["labels"]["alertname"] == "HostOverheadHigh"]
