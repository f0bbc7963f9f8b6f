"""From what a Dom0 exposes to the message at a webhook, through the real Prometheus and the real Alertmanager."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support import Alertmanager, Exposition, Prometheus, Webhook


class Dom0:
    """What xentop-exporter shows of a host whose domains burn a constant number of CPUs each.

    A large host: a rate over a minute takes that minute to reach its height, and the alert should need only seconds.
    """

    def __init__(self, cpus: dict[str, float]) -> None:
        self.cpus = cpus  # by name; the first is Dom0
        self.source_up = True
        self._start = time.monotonic()
        self._reads = 0

    def __call__(self) -> str:
        seconds = time.monotonic() - self._start
        self._reads += 1
        lines = [f"xentop_up {self.source_up:d}", f'xentop_source_up{{source="libxenstat"}} {self.source_up:d}']
        if self.source_up:
            lines.append("xen_host_cpus 24")
            for domid, (domain, cpus) in enumerate(self.cpus.items()):
                labels = f'{{domid="{domid}",domain="{domain}"}}'
                lines.append(f"xen_domain_cpu_seconds_total{labels} {100 + cpus * seconds}")
        else:
            lines.append(f'xentop_source_errors_total{{source="libxenstat",reason="timeout"}} {self._reads}')
        return "\n".join(lines) + "\n"


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with Webhook() as webhook:
        yield webhook


@pytest.fixture
def alertmanager(tmp_path: Path, webhook: Webhook) -> Iterator[Alertmanager]:
    with Alertmanager(tmp_path, webhook.url) as alertmanager:
        yield alertmanager


def names(message: dict[str, Any], status: str) -> set[str]:
    """The alerts of a message that are "firing" or "resolved"."""
    return {alert["labels"]["alertname"] for alert in message["alerts"] if alert["status"] == status}


def about(host: str) -> Callable[[dict[str, Any]], bool]:
    return lambda message: message["groupLabels"] == {"host": host}


def test_overhead_of_two_hosts_arrives_as_two_messages_and_is_resolved(
    tmp_path: Path, webhook: Webhook, alertmanager: Alertmanager
) -> None:
    busy = {"Domain-0": 9.0, "web": 8.0, "db": 7.0}  # 9 of 24 CPUs: 37.5 %
    xen1, xen2 = Dom0(dict(busy)), Dom0(dict(busy))
    calm = Dom0({"Domain-0": 1.0, "web": 19.0})  # 5 %
    with Exposition(xen1) as at1, Exposition(xen2) as at2, Exposition(calm) as at3:
        targets = [at1.group("xen1"), at2.group("xen2"), at3.group("calm")]
        with Prometheus(
            tmp_path,
            {"xentop": targets},
            alertmanager=alertmanager.address,
            interval="2s",
            alert_for="3s",  # on a busy machine a scrape may fail, but not two in a row
        ) as prometheus:
            for host in ("xen1", "xen2"):
                message = webhook.wait_for(about(host), 60)
                assert message["receiver"] == "ticket"
                (alert,) = message["alerts"]
                assert alert["labels"]["alertname"] == "HostOverheadHigh"
                assert re.match(
                    rf"Domain-0 uses 37\.\d+% of all CPU used on host {host} \(\d\.\d CPUs of 24\)\.",
                    alert["annotations"]["description"],
                )

            runbook = requests.get(alert["annotations"]["runbook_url"], timeout=10)
            assert runbook.text.startswith("# HostOverheadHigh")

            webhook.wait_for(lambda message: message["receiver"] == "watchdog", 30)

            # The guests of one host leave: overhead slows no guest then. The other host's alert stays.
            xen1.cpus = {"Domain-0": 9.0}
            resolved = webhook.wait_for(lambda message: "HostOverheadHigh" in names(message, "resolved"), 60)
            assert resolved["groupLabels"] == {"host": "xen1"}
            (still,) = (alert for alert in prometheus.alerts() if alert["labels"]["alertname"] == "HostOverheadHigh")
            assert still["labels"]["host"] == "xen2"

    assert {"host": "calm"} not in [message["groupLabels"] for message in webhook.messages]


def test_an_exporter_that_goes_down_inhibits_what_follows_from_it(
    tmp_path: Path, webhook: Webhook, alertmanager: Alertmanager
) -> None:
    dom0 = Dom0({"Domain-0": 9.0, "web": 8.0})
    with (
        Exposition(dom0) as exporter,
        Exposition("telegraf_up 1\n") as telegraf,  # the host is up
        Prometheus(
            tmp_path,
            {"xentop": [exporter.group("xen1")], "telegraf": [telegraf.group("xen1")]},
            alertmanager=alertmanager.address,
            interval="2s",
            alert_for="3s",  # as above
        ) as prometheus,
    ):
        webhook.wait_for(lambda message: names(message, "firing") == {"HostOverheadHigh"}, 60)

        # Down. The overhead's average and its alert last for minutes more; the notification is about the cause.
        exporter.text = None
        webhook.wait_for(lambda message: names(message, "firing") == {"ExporterDown"}, 60)
        assert prometheus.query('ALERTS{alertname="HostOverheadHigh",alertstate="firing"}')
        expected = {"HostOverheadHigh"}
        assert suppressed(alertmanager, expected) == expected

        # Up again, but its source hangs.
        exporter.text = dom0
        dom0.source_up = False
        failing = webhook.wait_for(lambda message: "SourceFailing" in names(message, "firing"), 60)
        (alert,) = (alert for alert in failing["alerts"] if alert["labels"]["alertname"] == "SourceFailing")
        assert alert["labels"]["host"] == "xen1"
        webhook.wait_for(lambda message: "ExporterDown" in names(message, "resolved"), 60)


def test_a_host_that_goes_down_is_one_page(tmp_path: Path, webhook: Webhook) -> None:
    dom0 = Dom0({"Domain-0": 1.0, "web": 8.0})
    with (
        Exposition(dom0) as xentop,
        Exposition("telegraf_up 1\n") as telegraf,
        # Long enough for targets that go down together, a scrape apart.
        Alertmanager(tmp_path, webhook.url, group_wait="5s") as alertmanager,
        Prometheus(
            tmp_path,
            {"xentop": [xentop.group("xen1")], "telegraf": [telegraf.group("xen1")]},
            alertmanager=alertmanager.address,
            interval="1s",
            alert_for="0s",
        ) as prometheus,
    ):
        prometheus.wait_for('count(up{host="xen1"} == 1) == 2', 30)
        xentop.text = telegraf.text = None
        message = webhook.wait_for(about("xen1"), 60)
        assert message["receiver"] == "page"
        assert names(message, "firing") == {"HostDown"}
        expected = {"ExporterDown"}
        assert suppressed(alertmanager, expected) == expected

        # The first that answers again resolves it, and an alert is sent about those that still don't.
        xentop.text = dom0
        webhook.wait_for(lambda message: names(message, "resolved") == {"HostDown"}, 60)
        webhook.wait_for(lambda message: "ExporterDown" in names(message, "firing"), 60)
    assert [names(message, "firing") for message in webhook.messages if message["receiver"] == "page"][:2] == [
        {"HostDown"},
        set(),
    ]


def test_all_hosts_that_fall_silent_at_once_are_one_page(tmp_path: Path, webhook: Webhook) -> None:
    with (
        Exposition(Dom0({"Domain-0": 1.0, "web": 8.0})) as first,
        Exposition(Dom0({"Domain-0": 1.0, "db": 8.0})) as second,
        Exposition("telegraf_up 1\n") as telegraf,
        Alertmanager(tmp_path, webhook.url, group_wait="5s") as alertmanager,
        Prometheus(
            tmp_path,
            {"xentop": [first.group("xen1"), second.group("xen2")], "telegraf": [telegraf.group("xen1")]},
            alertmanager=alertmanager.address,
            interval="1s",
            alert_for="0s",
        ) as prometheus,
    ):
        prometheus.wait_for('count(up{host=~"xen.+"} == 1) == 3', 30)
        first.text = second.text = telegraf.text = None
        message = webhook.wait_for(lambda message: "HostsUnreachable" in names(message, "firing"), 60)
        assert message["receiver"] == "page"
        assert names(message, "firing") == {"HostsUnreachable"}
        prometheus.wait_for('count(ALERTS{alertname=~"HostDown|ExporterDown", alertstate="firing"}) == 5', 30)
        time.sleep(10)  # twice as long as Alertmanager waits
        expected = {"HostDown", "ExporterDown"}
        assert suppressed(alertmanager, expected) == expected
    assert {name for message in webhook.messages for name in names(message, "firing")} - {"Watchdog"} == {
        "HostsUnreachable"
    }


HOST_DOWN = {"alertname": "HostDown", "severity": "critical", "host": "xen1"}
EXPORTER_DOWN = {"alertname": "ExporterDown", "host": "xen1", "platform": "xen", "job": "xentop", "instance": "a:1"}
SSH_DOWN = {**EXPORTER_DOWN, "host": "127.0.0.1", "platform": "base", "job": "ssh", "instance": "127.0.0.1:10295"}
FLAPPING = {**EXPORTER_DOWN, "alertname": "TargetFlapping"}
CLOCK_SKEWED = {"alertname": "ClockSkewed", "host": "xen1", "platform": "xen", "job": "node", "instance": "a:9100"}
NOT_SYNCHRONISED = {**CLOCK_SKEWED, "alertname": "ClockNotSynchronised"}
SOURCE_FAILING = {**EXPORTER_DOWN, "alertname": "SourceFailing"}
OVERHEAD_HIGH = {"alertname": "HostOverheadHigh", "severity": "warning", "host": "xen1", "platform": "xen"}
SHOP = {"host": "xen1", "platform": "xen", "app": "shop", "objective": "latency"}
PAGE = {**SHOP, "alertname": "ObjectiveBurnsFast", "severity": "critical"}
TICKET = {**SHOP, "alertname": "ObjectiveBurnsSlowly", "severity": "warning"}
BY_ITSELF = {
    "alertname": "ObjectiveCause",
    "severity": "none",
    "host": "xen1",
    "platform": "xen",
    "app": "shop",
    "cause": "self",
}
BY_NEIGHBOUR = {**BY_ITSELF, "cause": "neighbour"}
BY_HOST = {**BY_ITSELF, "cause": "hypervisor"}
OVERHEAD_GROWS = {**OVERHEAD_HIGH, "alertname": "OverheadOutgrowsLoad"}
OVERCOMMIT = {**OVERHEAD_HIGH, "alertname": "OvercommitBeyondObjective"}
HEADROOM = {**OVERHEAD_HIGH, "alertname": "HeadroomEndsSoon"}
STARVED = {**OVERHEAD_HIGH, "alertname": "VirtualServerStarved", "vserver": "web", "role": "guest"}
CAPPED = {**STARVED, "alertname": "CapBindsLong"}
CRASHED = {**STARVED, "alertname": "GuestCrashed", "severity": "critical"}
WATCHDOG = {"alertname": "Watchdog", "severity": "none"}
NOT_STORED = {"alertname": "SamplesNotStored", "severity": "critical"}
UNREACHABLE = {"alertname": "HostsUnreachable", "severity": "critical"}


@pytest.mark.parametrize(
    ("firing", "other", "inhibited"),
    [
        pytest.param(HOST_DOWN, PAGE, True, id="host down: its applications"),
        pytest.param(HOST_DOWN, TICKET, True, id="host down: its applications' tickets"),
        pytest.param(HOST_DOWN, EXPORTER_DOWN, True, id="host down: its exporters"),
        pytest.param(HOST_DOWN, OVERHEAD_HIGH, True, id="host down: what is known of its past"),
        pytest.param(HOST_DOWN, {**PAGE, "host": "xen2"}, False, id="host down: not another host's applications"),
        pytest.param(HOST_DOWN, WATCHDOG, False, id="host down: not the dead man's switch"),
        pytest.param(NOT_STORED, PAGE, True, id="not stored: an objective, which has no samples"),
        pytest.param(NOT_STORED, UNREACHABLE, True, id="not stored: that no host is reached"),
        pytest.param(NOT_STORED, WATCHDOG, False, id="not stored: not the dead man's switch"),
        pytest.param(UNREACHABLE, HOST_DOWN, True, id="unreachable: each host"),
        pytest.param(UNREACHABLE, EXPORTER_DOWN, True, id="unreachable: each exporter"),
        pytest.param(UNREACHABLE, PAGE, False, id="unreachable: not an application"),
        pytest.param(PAGE, TICKET, True, id="page: the ticket about the same"),
        pytest.param(PAGE, {**TICKET, "objective": "mean"}, True, id="page: a ticket about another objective"),
        pytest.param(PAGE, {**TICKET, "app": "blog"}, False, id="page: not another application's ticket"),
        pytest.param(PAGE, {**TICKET, "host": "xen2"}, False, id="page: not a ticket about another host"),
        pytest.param(PAGE, {**TICKET, "platform": "base"}, False, id="page: not a ticket about another platform"),
        pytest.param(PAGE, OVERHEAD_HIGH, False, id="page: not what is wrong with the host"),
        pytest.param(PAGE, {**PAGE, "objective": "availability"}, False, id="page: not another page"),
        pytest.param(HOST_DOWN, {**HOST_DOWN, "host": "xen2"}, False, id="host down: not another host that is down"),
        pytest.param(EXPORTER_DOWN, SOURCE_FAILING, True, id="exporter down: its own source"),
        pytest.param(
            EXPORTER_DOWN, {**SOURCE_FAILING, "instance": "b:1"}, False, id="exporter down: not a second's source"
        ),
        pytest.param(EXPORTER_DOWN, {**SOURCE_FAILING, "job": "node"}, False, id="exporter down: not another's source"),
        pytest.param(FLAPPING, EXPORTER_DOWN, True, id="flapping: that it is down just now"),
        pytest.param(FLAPPING, {**EXPORTER_DOWN, "instance": "b:1"}, False, id="flapping: not that another is down"),
        pytest.param(SSH_DOWN, {**EXPORTER_DOWN, "instance": "xen1"}, True, id="ssh-exporter down: a host over ssh"),
        pytest.param(SSH_DOWN, {**FLAPPING, "instance": "xen1"}, True, id="ssh-exporter down: one that comes and goes"),
        pytest.param(SSH_DOWN, EXPORTER_DOWN, False, id="ssh-exporter down: not a host with an exporter"),
        pytest.param(CLOCK_SKEWED, NOT_SYNCHRONISED, True, id="a clock that is off: that it may go off"),
        pytest.param(EXPORTER_DOWN, OVERHEAD_HIGH, True, id="exporter down: overhead of its host"),
        pytest.param(EXPORTER_DOWN, {**OVERHEAD_HIGH, "host": "xen2"}, False, id="exporter down: not of another host"),
        pytest.param(
            {**EXPORTER_DOWN, "job": "node"}, OVERHEAD_HIGH, False, id="exporter down: not what another exposes"
        ),
        pytest.param(EXPORTER_DOWN, CRASHED, True, id="exporter down: a crash that it exposed"),
        pytest.param(OVERHEAD_HIGH, OVERHEAD_GROWS, True, id="much overhead: that it grows"),
        pytest.param(OVERCOMMIT, HEADROOM, True, id="too many vCPUs: that nothing more will fit"),
        pytest.param(OVERCOMMIT, STARVED, True, id="too many vCPUs: a guest that waits for it"),
        pytest.param(EXPORTER_DOWN, PAGE, False, id="exporter down: not what its applications' sensors expose"),
    ],
)
def test_what_inhibits_what(
    alertmanager: Alertmanager, webhook: Webhook, firing: dict[str, str], other: dict[str, str], inhibited: bool
) -> None:
    alertmanager.tell({"labels": firing}, {"labels": other})
    webhook.wait_for(lambda message: firing["alertname"] in names(message, "firing"), 30)
    expected = {other["alertname"]} if inhibited else set()
    assert suppressed(alertmanager, expected) == expected


CACHE = {**STARVED, "alertname": "CacheMissesUnusual"}


@pytest.mark.parametrize(
    ("cause", "other", "inhibited"),
    [
        pytest.param(BY_ITSELF, CAPPED, True, id="self: the cap"),
        pytest.param(BY_ITSELF, {**CAPPED, "host": "xen2"}, False, id="self: not a cap on another host"),
        pytest.param(BY_ITSELF, STARVED, False, id="self: not a guest that waits for others"),
        pytest.param(BY_NEIGHBOUR, STARVED, True, id="neighbour: a guest that waits for them"),
        pytest.param(BY_NEIGHBOUR, CACHE, True, id="neighbour: a guest whose cache they take"),
        pytest.param(BY_NEIGHBOUR, OVERCOMMIT, True, id="neighbour: that there are too many"),
        pytest.param(BY_NEIGHBOUR, CAPPED, False, id="neighbour: not a cap"),
        pytest.param(BY_NEIGHBOUR, CRASHED, False, id="neighbour: not a crash"),
        pytest.param(BY_NEIGHBOUR, {**STARVED, "host": "xen2"}, False, id="neighbour: not on another host"),
        pytest.param(BY_HOST, OVERHEAD_HIGH, True, id="hypervisor: the overhead"),
        pytest.param(BY_HOST, OVERHEAD_GROWS, True, id="hypervisor: that it grows"),
    ],
)
def test_a_page_inhibits_the_alert_about_its_cause(
    alertmanager: Alertmanager, webhook: Webhook, cause: dict[str, str], other: dict[str, str], inhibited: bool
) -> None:
    alertmanager.tell({"labels": PAGE}, {"labels": cause}, {"labels": other})
    webhook.wait_for(lambda message: "ObjectiveBurnsFast" in names(message, "firing"), 30)
    expected = {other["alertname"]} if inhibited else set()
    assert suppressed(alertmanager, expected) == expected


def test_a_page_whose_cause_changes_is_notified_once_and_inhibits_the_new_causes_alert(
    alertmanager: Alertmanager, webhook: Webhook
) -> None:
    alertmanager.tell({"labels": PAGE, "annotations": {"cause": "self"}}, {"labels": BY_ITSELF}, {"labels": CAPPED})
    webhook.wait_for(lambda message: "ObjectiveBurnsFast" in names(message, "firing"), 30)
    alertmanager.tell(
        {"labels": PAGE, "annotations": {"cause": "neighbour"}},
        {"labels": BY_ITSELF, "endsAt": "2026-03-02T08:37:00Z"},
        {"labels": BY_NEIGHBOUR},
    )
    # CapBindsLong is sent now, as nothing inhibits it any more; VirtualServerStarved isn't.
    webhook.wait_for(lambda message: names(message, "firing") == {"CapBindsLong"}, 30)
    alertmanager.tell({"labels": STARVED})
    expected = {"VirtualServerStarved"}
    assert suppressed(alertmanager, expected) == expected
    pages = [message for message in webhook.messages if message["receiver"] == "page"]
    assert [(names(page, "firing"), names(page, "resolved")) for page in pages] == [({"ObjectiveBurnsFast"}, set())]
    assert not any("ObjectiveCause" in names(message, "firing") for message in webhook.messages)


def to(receiver: str, host: str) -> Callable[[dict[str, Any]], bool]:
    return lambda message: (message["receiver"], message["groupLabels"]["host"]) == (receiver, host)


def test_one_breaking_host_is_one_message_per_receiver(alertmanager: Alertmanager, webhook: Webhook) -> None:
    pages = [{**PAGE, "app": app} for app in ("shop", "blog", "wiki")]
    alertmanager.tell(*({"labels": labels} for labels in [*pages, OVERHEAD_HIGH, {**PAGE, "host": "xen2"}]))
    for receiver, host in (("page", "xen1"), ("page", "xen2"), ("ticket", "xen1")):
        webhook.wait_for(to(receiver, host), 30)
    sent = sorted(
        (message["receiver"], message["groupLabels"]["host"], len(message["alerts"])) for message in webhook.messages
    )
    assert sent == [("page", "xen1", 3), ("page", "xen2", 1), ("ticket", "xen1", 1)]


def suppressed(alertmanager: Alertmanager, expected: set[str]) -> set[str]:
    """The alerts that are inhibited: as expected, or what there is when a busy machine has had half a minute for it."""
    deadline = time.monotonic() + 30
    while True:
        alerts = alertmanager.alerts()
        found = {alert["labels"]["alertname"] for alert in alerts if alert["status"]["state"] == "suppressed"}
        if found == expected or time.monotonic() > deadline:
            return found
        time.sleep(0.2)
