"""Real applications really violate their objectives: everything from Apache's log to the page that is sent.

Two auction sites share one CPU. Clients, sensors, Prometheus with the shipped rules and alerts, and Alertmanager run
beside them. Only Alertmanager's waits are shortened; windows, `for` and intervals are the real ones. The tests depend
on each other, in the order of this file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lab import machine
from lab.cgroups import SMALLEST_CAP
from lab.children import Child
from lab.clients.child import Clients
from lab.clients.orders import Application, Habits, Order
from lab.sensors import Sensors
from lab.servers import DB, WEB, Instance, TierLimits
from tests.lab.conftest import require_servers
from tests.support import Alertmanager, Prometheus, Webhook
from tests.support.endpoints import Group
from tests.support.ports import free_port
from tests.support.program import program_path

pytestmark = [pytest.mark.long, pytest.mark.timeout(420)]

HOST = "labhost"
# Numbers of clients: one, few that are answered in time, enough to use a fifth of the CPU, too many to serve.
ONE, FEW, SOME, MANY = 1, 4, 12, 400
# Weights: when both sites want more CPU than there is, the second gets a twentieth of it.
ROBUST, FRAGILE = 10_000, 500
MEAN_SECONDS, LATENCY_SECONDS = 0.1, 0.3  # the sites' objectives: alerts/objectives/auction.yml
HEALTHY_SECONDS = 75  # longer than the range of rates, a minute
PAGE_SECONDS = 120  # from the breach to the page
RESOLVED_SECONDS = 240


class Lab:
    """The two sites, `robust` and `fragile`, and everything that monitors them."""

    def __init__(self, folder: Path, ending: ExitStack) -> None:
        where = machine.cpus("one node", os.sched_getaffinity(0))
        self._cpus = where.by_tier[WEB]
        logs = folder / "logs"
        logs.mkdir()
        self.sites: list[Instance] = []
        for number, weight in enumerate((ROBUST, FRAGILE)):
            name = f"auction-{os.getpid()}{number}"  # used by no other run
            limits = TierLimits(weight, None, self._cpus)
            site = Instance(name, folder / name, web_port=free_port(), db_port=free_port(), web=limits, db=limits)
            self.sites.append(ending.enter_context(site))
        self.robust, self.fragile = self.sites
        sensors_ports = (free_port(), free_port())
        sensors = Sensors(folder / "sensors", logs, self.sites, sensors_ports, where.others)
        ending.callback(sensors.stop)
        self._clients = Clients(logs / "clients.log", where.others)
        ending.callback(self._clients.stop)
        node_port = free_port()
        node_command: list[str | Path] = [program_path("node_exporter"), f"--web.listen-address=127.0.0.1:{node_port}"]
        ending.callback(Child("node", node_command, log=logs / "node.log", cpus=where.others).stop)
        self.webhook = ending.enter_context(Webhook())
        alertmanager = ending.enter_context(Alertmanager(folder, self.webhook.url))
        targets = {
            "telegraf": [group(sensors_ports[0], "cgroup")],
            "cadvisor": [group(sensors_ports[1], "cgroup")],
            "lab": [group(self._clients.port, "cgroup")],
            "node": [group(node_port, "base")],
        }
        self.prometheus = ending.enter_context(
            Prometheus(folder, targets, alertmanager=alertmanager.address, interval="5s")
        )
        # Sensors don't count requests from before they first read a log.
        self.prometheus.wait_for("count(app_request_duration_seconds_count{status='2xx',method='GET'}) == 2", 60)

    def visit(self, *, robust: int, fragile: int) -> None:
        """Set the number of clients of each site."""
        applications = {}
        for site, number in zip(self.sites, (robust, fragile), strict=True):
            applications[site.name] = Application(site.url, number)
            # A page that takes no work and is in no log: its time is that of the network, of parsing the request, and
            # of the clients themselves.
            applications[way_to(site)] = Application(f"{site.url}/health?instead-of=", FEW if number else 0)
        self._clients.carry_out(Order(Habits("breach", think_seconds=1.0, timeout_seconds=60.0), applications))

    def cap(self, cap: float | None) -> None:
        """Cap the robust site's web tier at this number of CPUs."""
        self.robust.limit(WEB, TierLimits(ROBUST, cap, self._cpus))

    def await_page(self, site: Instance, objective: str, cause: str) -> None:
        """Return once a page with this cause has been sent for this site and objective; fails if it takes too long."""
        self.webhook.wait_for(lambda message: has_page(message, "firing", site, objective, cause=cause), PAGE_SECONDS)

    def pages(self) -> set[tuple[str, str]]:
        """Application and objective of all pages sent so far."""
        return {
            (alert["labels"]["app"], alert["labels"]["objective"])
            for message in self.webhook.messages
            for alert in message["alerts"]
            if alert["labels"].get("severity") == "critical" and "objective" in alert["labels"]
        }

    def mean(self, histogram: str, app: str) -> float:
        """The mean of all that a histogram has counted for an application."""
        return self.prometheus.value(f'sum({histogram}_sum{{app="{app}"}}) / sum({histogram}_count{{app="{app}"}})')

    def await_equal_counts(self) -> None:
        """Return once the sensors have counted as many requests as the clients; fails if they don't."""
        for site in self.sites:
            sensor = f'app_request_duration_seconds_count{{app="{site.name}"}}'
            client = f'lab_client_request_duration_seconds_count{{app="{site.name}"}}'
            self.prometheus.wait_for(f"sum({sensor}) == sum({client})", 30)
            # A request that timed out or was refused may be in no log.
            unanswered = f'sum(lab_client_request_duration_seconds_count{{app="{site.name}",status!~"[1-5]xx"}}) > 0'
            assert self.prometheus.query(unanswered) == []
            assert self.prometheus.value(f'sum(app_log_lines_unparsed_total{{app="{site.name}"}})') == 0


def has_page(message: Mapping[str, Any], status: str, site: Instance, objective: str, **annotations: str) -> bool:
    """Whether a message contains the page for this site and objective with this status."""
    labels = {"host": HOST, "app": site.name, "objective": objective, "severity": "critical"}
    return any(
        alert["status"] == status
        and labels.items() <= alert["labels"].items()
        and annotations.items() <= alert["annotations"].items()
        for alert in message["alerts"]
    )


def way_to(site: Instance) -> str:
    """The application's name for requests that measure the way to a site."""
    return f"way to {site.name}"


def group(port: int, platform: str) -> Group:
    return {"targets": [f"127.0.0.1:{port}"], "labels": {"host": HOST, "platform": platform}}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    require_servers()
    with ExitStack() as ending:
        yield Lab(tmp_path_factory.mktemp("breach"), ending)


def test_a_dead_database_pages_for_errors_and_not_for_latency(lab: Lab) -> None:
    lab.visit(robust=ONE, fragile=FEW)  # before any neighbour is so busy that it could be the cause
    time.sleep(HEALTHY_SECONDS)
    assert lab.pages() == set()
    lab.fragile.kill(DB)
    lab.await_page(lab.fragile, "availability", cause="unknown")  # no metric says that a database is dead
    lab.fragile.restart(DB)
    assert lab.pages() == {(lab.fragile.name, "availability")}


def test_nothing_fires_while_requests_are_answered_in_time(lab: Lab) -> None:
    lab.visit(robust=SOME, fragile=FEW)
    time.sleep(HEALTHY_SECONDS / 2)
    for site in lab.sites:  # as logrotate does it, while requests are being answered
        site.web_log.rename(site.web_log.with_suffix(".log.1"))
        time.sleep(2)
        site.reopen_log()
    time.sleep(HEALTHY_SECONDS / 2)
    for site, clients in ((lab.robust, SOME), (lab.fragile, FEW)):
        app = f'app="{site.name}"'
        assert lab.prometheus.value(f"app:response_seconds:mean{{{app}}}") < MEAN_SECONDS
        assert lab.prometheus.value(f"app:response_seconds:p95{{{app}}}") < LATENCY_SECONDS
        assert lab.prometheus.value(f"app:errors:ratio{{{app}}}") == 0
        assert lab.prometheus.value(f"app:requests:rate{{{app}}}") == pytest.approx(clients, rel=0.4)
        assert lab.prometheus.value(f"app:cpu_per_request:seconds{{{app}}}") > 0
        for tier in (WEB, DB):
            assert lab.prometheus.value(f'app:tier_cpu_usage:rate{{{app},tier="{tier}"}}') > 0
    assert lab.pages() == {(lab.fragile.name, "availability")}, "no new page"


def test_a_cap_that_is_too_low_pages_with_the_application_itself_as_the_cause(lab: Lab) -> None:
    web_cpu = lab.prometheus.value(
        f'max_over_time(app:tier_cpu_usage:rate{{app="{lab.robust.name}",tier="{WEB}"}}[2m])'
    )
    # The fragile site gets few requests until it breaks, so that they matter little to its burn rate over an hour.
    lab.visit(robust=SOME, fragile=ONE)
    lab.cap(max(web_cpu / 3, SMALLEST_CAP))
    lab.await_page(lab.robust, "latency", cause="self")
    lab.cap(None)
    assert lab.pages() == {(lab.robust.name, "latency"), (lab.fragile.name, "availability")}


def test_the_sensor_measures_what_the_clients_do(lab: Lab) -> None:
    """Where requests have waited for the server, so that the clients' own delays hardly count."""
    lab.visit(robust=0, fragile=0)
    lab.await_equal_counts()

    def logged(site: Instance) -> float:
        return lab.mean("app_request_duration_seconds", site.name)

    def measured(app: str) -> float:
        return lab.mean("lab_client_request_duration_seconds", app)

    for site in lab.sites:
        assert logged(site) <= measured(site.name)
    assert measured(lab.robust.name) <= 1.05 * logged(lab.robust) + measured(way_to(lab.robust))
    lab.visit(robust=SOME, fragile=ONE)  # as before


def test_a_notification_says_that_it_is_resolved(lab: Lab) -> None:
    lab.webhook.wait_for(lambda message: has_page(message, "resolved", lab.robust, "latency"), RESOLVED_SECONDS)


def test_a_busy_neighbour_is_named_as_the_cause_of_the_page(lab: Lab) -> None:
    lab.visit(robust=MANY, fragile=3 * FEW)
    lab.await_page(lab.fragile, "latency", cause="neighbour")


def test_the_sensor_has_counted_every_request_throughout(lab: Lab) -> None:
    lab.visit(robust=0, fragile=0)
    lab.await_equal_counts()
