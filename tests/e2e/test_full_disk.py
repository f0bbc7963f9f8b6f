"""A full data disk, on which Prometheus can't store anything: firing alerts must not resolve."""

import contextlib
from pathlib import Path

import pytest

from tests.support import Alertmanager, Exposition, Prometheus, Webhook
from tests.support.mounts import tmpfs
from tests.support.waiting import wait_for


def notified(webhook: Webhook, name: str, status: str) -> bool:
    """Whether a "firing" or "resolved" notification was sent for an alert."""
    alerts = [alert for message in webhook.messages for alert in message["alerts"]]
    return any((alert["labels"]["alertname"], alert["status"]) == (name, status) for alert in alerts)


def firing(prometheus: Prometheus) -> set[str]:
    return {alert["labels"]["alertname"] for alert in prometheus.alerts() if alert["state"] == "firing"}


@pytest.mark.system
@pytest.mark.timeout(400)
def test_on_a_full_disk_no_alert_is_resolved(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        webhook = stack.enter_context(Webhook())
        alertmanager = stack.enter_context(Alertmanager(tmp_path, webhook.url))
        silent = stack.enter_context(Exposition(""))
        silent.text = None
        telegraf = stack.enter_context(Exposition("telegraf_up 1\n"))  # the host is up
        prometheus = Prometheus(
            tmp_path,
            {"xentop": [silent.group("xen1")], "telegraf": [telegraf.group("xen1")]},
            alertmanager=alertmanager.address,
            interval="1s",
            alert_for="3s",
            lookback="90s",  # longer than the minute without stored samples, plus the ten seconds of `for`
        )
        data = prometheus.folder / "data"
        stack.enter_context(tmpfs(data, "size=16m"))
        stack.enter_context(prometheus)
        webhook.wait_for(lambda _: notified(webhook, "ExporterDown", "firing"), 60)
        webhook.wait_for(lambda _: notified(webhook, "Watchdog", "firing"), 30)
        assert not notified(webhook, "SamplesNotStored", "firing")

        with contextlib.suppress(OSError), (data / "filler").open("wb", buffering=0) as filler:  # no space left
            while filler.write(bytes(4096)):
                pass
        webhook.wait_for(lambda _: notified(webhook, "SamplesNotStored", "firing"), 120)
        # Prometheus has forgotten the other alerts.
        wait_for(lambda: firing(prometheus), 90, until=lambda found: found == {"SamplesNotStored"})
        # Alertmanager would have sent the resolved one before anything it receives later.
        alertmanager.tell({"labels": {"alertname": "Later", "severity": "none", "shard": "another"}})
        webhook.wait_for(lambda _: notified(webhook, "Later", "firing"), 30)
        assert not notified(webhook, "ExporterDown", "resolved")

        (data / "filler").unlink()
        webhook.wait_for(lambda _: notified(webhook, "SamplesNotStored", "resolved"), 30)
        prometheus.wait_for('ALERTS{alertname="ExporterDown", alertstate="firing"}', 30)
        assert "Watchdog" in firing(prometheus)
        assert not notified(webhook, "ExporterDown", "resolved")
