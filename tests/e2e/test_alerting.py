"""From a Dom0's metrics to a webhook message, through the real Prometheus and Alertmanager."""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support import Alertmanager, Exposition, Prometheus, Webhook
from tests.support.waiting import wait_for

Labels = dict[str, str]


class Dom0:
    """The xentop-exporter page of a host whose domains each use a constant number of CPUs.

    The host is large so that the alert fires within seconds, although a rate over a minute takes a minute to rise.
    """

    def __init__(self, cpus: dict[str, float]) -> None:
        self.cpus = cpus  # by name, Dom0 first
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
def alertmanager(tmp_path: Path) -> Iterator[Alertmanager]:
    with Alertmanager(tmp_path, "http://127.0.0.1:9/") as alertmanager:
        yield alertmanager


def names(message: dict[str, Any], status: str) -> set[str]:
    """The alerts of a message with status "firing" or "resolved"."""
    return {alert["labels"]["alertname"] for alert in message["alerts"] if alert["status"] == status}


def suppressed(alertmanager: Alertmanager) -> list[Labels]:
    return [alert["labels"] for alert in alertmanager.alerts() if alert["status"]["state"] == "suppressed"]


def wait_until_suppressed(alertmanager: Alertmanager, *alertnames: str) -> None:
    """Wait until exactly these are inhibited."""
    wait_for(lambda: {labels["alertname"] for labels in suppressed(alertmanager)}, 60, until=set(alertnames).__eq__)


class Stack:
    """Prometheus, Alertmanager and a webhook, with hosts that each test changes."""

    def __init__(self, folder: Path, stack: ExitStack, hosts: dict[str, Dom0], with_telegraf: tuple[str, ...]) -> None:
        self.dom0 = hosts
        self.xentop = {host: stack.enter_context(Exposition(dom0)) for host, dom0 in hosts.items()}
        self.telegraf = {host: stack.enter_context(Exposition("telegraf_up 1\n")) for host in with_telegraf}
        self.webhook = stack.enter_context(Webhook())
        # Long enough to group targets that go down one scrape apart.
        self.alertmanager = stack.enter_context(Alertmanager(folder, self.webhook.url, group_wait="5s"))
        targets = {
            job: [exposition.group(host) for host, exposition in of.items()]
            for job, of in (("xentop", self.xentop), ("telegraf", self.telegraf))
        }
        # On a busy machine one scrape may fail, but not two in a row.
        self.prometheus = stack.enter_context(
            Prometheus(folder, targets, alertmanager=self.alertmanager.address, interval="2s", alert_for="3s")
        )
        self.prometheus.wait_for(f'count(up{{job=~"xentop|telegraf"}} == 1) == {len(hosts) + len(with_telegraf)}', 60)

    def messages(self, host: str) -> list[dict[str, Any]]:
        return [message for message in self.webhook.messages if message["groupLabels"] == {"host": host}]

    def wait_for(self, host: str, alertname: str, status: str = "firing") -> dict[str, Any]:
        """The first message with this alert of a host."""

        def wanted(message: dict[str, Any]) -> bool:
            return message["groupLabels"] == {"host": host} and alertname in names(message, status)

        return self.webhook.wait_for(wanted, 90)


BUSY = {"Domain-0": 9.0, "web": 8.0, "db": 7.0}  # 9 of 24 CPUs: 37.5 %


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    hosts = {"xen1": Dom0(dict(BUSY)), "xen2": Dom0(dict(BUSY)), "failing": Dom0(dict(BUSY))}
    hosts["calm"] = Dom0({"Domain-0": 1.0, "web": 19.0})  # 5 %
    with ExitStack() as stack:
        yield Stack(tmp_path_factory.mktemp("stack"), stack, hosts, ("failing",))


def test_overhead_of_two_hosts_arrives_as_two_messages_and_is_resolved(stack: Stack) -> None:
    for host in ("xen1", "xen2"):
        message = stack.wait_for(host, "HostOverheadHigh")
        assert message["receiver"] == "ticket"
        (alert,) = message["alerts"]
        said = alert["annotations"]
        assert re.fullmatch(rf"Host {host}: overhead is 37\.\d+% of all CPU used\.", said["summary"])
        # A rate that began less than two minutes ago is still rising to the 9 CPUs.
        used = re.match(r"The host itself uses (\d\.\d) CPUs\.", said["description"])
        assert used
        assert 0.5 < float(used[1]) <= 9
        (recorded,) = stack.prometheus.query(f'host:overhead_cpu:rate{{host="{host}"}}[5m]')
        assert used[1] in {f"{float(value):.1f}" for _, value in recorded["values"]}
    runbook = requests.get(alert["annotations"]["runbook_url"], timeout=10)
    assert runbook.text.startswith("# HostOverheadHigh")
    stack.webhook.wait_for(lambda message: message["receiver"] == "watchdog", 30)

    # All guests of one host end, so overhead can't slow any. The other host's alert stays.
    stack.dom0["xen1"].cpus = {"Domain-0": 9.0}
    stack.wait_for("xen1", "HostOverheadHigh", "resolved")
    firing = [alert["labels"] for alert in stack.prometheus.alerts()]
    assert "xen2" in {labels["host"] for labels in firing if labels["alertname"] == "HostOverheadHigh"}
    assert not any(names(message, "resolved") for message in stack.messages("xen2"))
    assert stack.messages("calm") == []


def test_an_exporter_that_goes_down_inhibits_what_follows_from_it(stack: Stack) -> None:
    stack.wait_for("failing", "HostOverheadHigh")
    # The exporter is down while telegraf shows that the host is up. The averaged overhead and its alert last minutes
    # longer.
    stack.xentop["failing"].text = None
    message = stack.wait_for("failing", "ExporterDown")
    assert names(message, "firing") == {"ExporterDown"}
    assert stack.prometheus.query('ALERTS{alertname="HostOverheadHigh", host="failing", alertstate="firing"}')
    inhibited = [labels for labels in suppressed(stack.alertmanager) if labels["host"] == "failing"]
    assert [labels["alertname"] for labels in inhibited] == ["HostOverheadHigh"]

    # Up again, but its source hangs.
    stack.dom0["failing"].source_up = False
    stack.xentop["failing"].text = stack.dom0["failing"]
    stack.wait_for("failing", "SourceFailing")
    stack.wait_for("failing", "ExporterDown", "resolved")


HOST_DOWN = {"alertname": "HostDown", "severity": "critical", "host": "xen1"}
EXPORTER_DOWN = {"alertname": "ExporterDown", "host": "xen1", "platform": "xen", "job": "xentop", "instance": "a:1"}
SSH_DOWN = {**EXPORTER_DOWN, "host": "127.0.0.1", "platform": "base", "job": "ssh", "instance": "127.0.0.1:10295"}
OVER_SSH = {**EXPORTER_DOWN, "instance": "xen1"}
FLAPPING = {**EXPORTER_DOWN, "alertname": "TargetFlapping"}
CLOCK_SKEWED = {"alertname": "ClockSkewed", "host": "xen1", "platform": "xen", "job": "node", "instance": "a:9100"}
SOURCE_FAILING = {**EXPORTER_DOWN, "alertname": "SourceFailing"}
OVERHEAD_HIGH = {"alertname": "HostOverheadHigh", "severity": "warning", "host": "xen1", "platform": "xen"}
OVERHEAD_GROWS = {**OVERHEAD_HIGH, "alertname": "OverheadOutgrowsLoad"}
OVERCOMMIT = {**OVERHEAD_HIGH, "alertname": "OvercommitBeyondObjective"}
HEADROOM = {**OVERHEAD_HIGH, "alertname": "HeadroomEndsSoon"}
STARVED = {**OVERHEAD_HIGH, "alertname": "VirtualServerStarved", "vserver": "web", "role": "guest"}
CAPPED, CACHE = {**STARVED, "alertname": "CapBindsLong"}, {**STARVED, "alertname": "CacheMissesUnusual"}
CRASHED = {**STARVED, "alertname": "GuestCrashed", "severity": "critical"}
SHOP = {"host": "xen1", "platform": "xen", "app": "shop"}
PAGE = {**SHOP, "alertname": "ObjectiveBurnsFast", "severity": "critical", "objective": "latency"}
TICKET = {**SHOP, "alertname": "ObjectiveBurnsSlowly", "severity": "warning", "objective": "mean"}
BY_ITSELF = {**SHOP, "alertname": "ObjectiveCause", "severity": "none", "cause": "self"}
BY_NEIGHBOUR, BY_HOST = {**BY_ITSELF, "cause": "neighbour"}, {**BY_ITSELF, "cause": "hypervisor"}
WATCHDOG = {"alertname": "Watchdog", "severity": "none"}
NOT_STORED = {"alertname": "SamplesNotStored", "severity": "critical"}
UNREACHABLE = {"alertname": "HostsUnreachable", "severity": "critical"}
XEN2, BASE, ANOTHER = {"host": "xen2"}, {"platform": "base"}, {"instance": "b:1"}

# Alerts that fire, alerts that they inhibit, and alerts that they don't.
INHIBITIONS: list[tuple[list[Labels], list[Labels], list[Labels]]] = [
    ([HOST_DOWN], [PAGE, TICKET, EXPORTER_DOWN, OVERHEAD_HIGH], [PAGE | XEN2, HOST_DOWN | XEN2, WATCHDOG]),
    ([NOT_STORED], [PAGE, UNREACHABLE], [WATCHDOG]),
    ([UNREACHABLE], [HOST_DOWN, EXPORTER_DOWN], [PAGE]),
    (
        [PAGE],
        [TICKET],
        [TICKET | {"app": "blog"}, TICKET | XEN2, TICKET | BASE, OVERHEAD_HIGH, PAGE | {"objective": "x"}],
    ),
    ([EXPORTER_DOWN], [SOURCE_FAILING, OVERHEAD_HIGH, CRASHED], [OVERHEAD_HIGH | XEN2, PAGE]),
    ([EXPORTER_DOWN], [], [SOURCE_FAILING | ANOTHER, SOURCE_FAILING | {"job": "node"}]),
    ([EXPORTER_DOWN | {"job": "node"}], [], [OVERHEAD_HIGH]),
    ([FLAPPING], [EXPORTER_DOWN], [EXPORTER_DOWN | ANOTHER]),
    ([SSH_DOWN], [OVER_SSH, OVER_SSH | {"alertname": "TargetFlapping"}], [EXPORTER_DOWN]),
    ([CLOCK_SKEWED], [CLOCK_SKEWED | {"alertname": "ClockNotSynchronised"}], []),
    ([OVERHEAD_HIGH], [OVERHEAD_GROWS], []),
    ([OVERCOMMIT], [HEADROOM, STARVED], []),
    ([PAGE, BY_ITSELF], [CAPPED], [CAPPED | XEN2, STARVED]),
    ([PAGE, BY_NEIGHBOUR], [STARVED, CACHE, OVERCOMMIT], [CAPPED, CRASHED, STARVED | XEN2]),
    ([PAGE, BY_HOST], [OVERHEAD_HIGH, OVERHEAD_GROWS], []),
]


def test_what_inhibits_what(alertmanager: Alertmanager) -> None:
    """Each case gets its own Prometheus and hosts, so that cases are independent."""

    def of_case(labels: Labels, case: str) -> Labels:
        host = {"host": f"{labels['host']} of {case}"} if "host" in labels else {}
        return {**labels, "prometheus": case, "shard": case, **host}

    cases = [
        (f"{firing[-1]} and {other}", firing, other, is_inhibited)
        for firing, inhibited, others in INHIBITIONS
        for is_inhibited, some in ((True, inhibited), (False, others))
        for other in some
    ]
    for case, firing, other, _ in cases:
        alertmanager.tell(*({"labels": of_case(labels, case)} for labels in (*firing, other)))
    # Alertmanager processes alerts in order: if the last one is there, all are.
    alertmanager.tell(*({"labels": of_case(labels, "last")} for labels in (HOST_DOWN, OVERHEAD_HIGH)))
    wait_for(lambda: "last" in {labels["shard"] for labels in suppressed(alertmanager)}, 60)
    found = suppressed(alertmanager)
    assert {case: of_case(other, case) in found for case, _, other, _ in cases} == {
        case: is_ for case, *_, is_ in cases
    }
    assert [labels for case, firing, _, _ in cases for labels in firing if of_case(labels, case) in found] == []


def test_without_names_of_shards_all_is_of_one(alertmanager: Alertmanager) -> None:
    """As in a stack with one Prometheus."""
    alertmanager.tell(*({"labels": labels} for labels in (UNREACHABLE, HOST_DOWN)))
    wait_until_suppressed(alertmanager, "HostDown")
    alertmanager.tell({"labels": NOT_STORED})
    wait_until_suppressed(alertmanager, "HostDown", "HostsUnreachable")
