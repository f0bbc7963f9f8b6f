"""OTLP into Prometheus 3 as in docs/opentelemetry.md: series are stored as after a scrape, and rules work on them.

The Collector's messages are built here like its Prometheus receiver does (receiver/prometheusreceiver/internal): an
attribute per label, except job and instance, which become service.name and service.instance.id of the resource;
counters as cumulative monotonic sums, everything else as gauges, names unchanged.
"""

import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from prometheus_client.parser import text_string_to_metric_families

from deploy.exporters import FOLDERS
from tests.e2e.test_what_a_target_may_say import golden_pages
from tests.support import Exposition, Prometheus
from tests.support.endpoints import Group

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "opentelemetry.md").read_text()
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]

Json = Any
pytestmark = pytest.mark.system


def documented(key: str) -> Json:
    """The page's YAML block with this top-level key."""
    (block,) = (block for block in BLOCKS if key in block)
    return block


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus 3 with the page's additions. It scrapes every golden page, of hosts that don't send OTLP."""
    with ExitStack() as stack:
        jobs: dict[str, list[Group]] = {exporter: [] for exporter in FOLDERS}
        for name, (exporter, text) in golden_pages().items():
            jobs[exporter].append(stack.enter_context(Exposition(text)).group(f"scraped {name}", "test"))
        folder, flags = tmp_path_factory.mktemp("otlp"), ["--web.enable-otlp-receiver"]
        server = Prometheus(folder, jobs, interval="3s", program="prometheus3", flags=flags)
        configuration = server.folder / "prometheus" / "prometheus.yml"
        settings = {**yaml.safe_load(configuration.read_text()), **documented("otlp")}
        configuration.write_text(yaml.safe_dump(settings))
        shutil.copy(
            ROOT / "deploy/packages/opentelemetry/rules.yml", server.folder / "prometheus/rules/opentelemetry.yml"
        )
        stack.enter_context(server)
        yield server


def point(attributes: Mapping[str, str], value: float, at: float) -> Json:
    return {
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in attributes.items() if text],
        "timeUnixNano": str(int(at * 1e9)),
        "asDouble": value,
    }


def gauge(name: str, points: list[Json]) -> Json:
    return {"name": name, "gauge": {"dataPoints": points}}


def cumulative(name: str, points: list[Json], *, unit: str = "", monotonic: bool = True) -> Json:
    total = {"dataPoints": points, "aggregationTemporality": 2, "isMonotonic": monotonic}
    return {"name": name, "unit": unit, "sum": total}


def scraped(text: str, labels: Mapping[str, str], at: float) -> list[Json]:
    """A page as converted by the Prometheus receiver."""
    made = []
    for family in text_string_to_metric_families(text):
        points = [point({**sample.labels, **labels}, sample.value, at) for sample in family.samples]
        if points:
            counts = family.type == "counter"
            made.append(cumulative(f"{family.name}_total", points) if counts else gauge(family.name, points))
    return made


def send(prometheus: Prometheus, resource: Mapping[str, str], metrics: list[Json]) -> None:
    attributes = [{"key": key, "value": {"stringValue": text}} for key, text in resource.items()]
    of_resource = {"resource": {"attributes": attributes}, "scopeMetrics": [{"metrics": metrics}]}
    payload = {"resourceMetrics": [of_resource]}
    answer = requests.post(f"{prometheus.url}/api/v1/otlp/v1/metrics", json=payload, timeout=30)
    assert answer.status_code == 200, answer.text


def target(job: str, instance: str) -> dict[str, str]:
    host, _, port = instance.rpartition(":")
    server = {"server.address": host, "server.port": port, "url.scheme": "http"}
    return {"service.name": job, "service.instance.id": instance, **server}


def test_names_and_labels_arrive_as_a_scrape_stores_them(prometheus: Prometheus) -> None:
    for name, (exporter, text) in golden_pages().items():
        prometheus.wait_for(f'up{{host="scraped {name}"}} == 1', seconds=60)
        scrape = series(prometheus, f"scraped {name}")
        sent = {"host": f"sent {name}", "platform": "test"}
        send(prometheus, target(exporter, "dom0.example.org:1"), scraped(text, sent, time.time()))
        assert series(prometheus, f"sent {name}") == scrape, name
        assert scrape, name


def series(prometheus: Prometheus, host: str) -> set[frozenset[tuple[str, str]]]:
    """The labels of all series of a host, except those of the host and of the scraped address."""
    own = {"host", "instance"}
    found = prometheus.query(f'{{host="{host}", __name__!~"up|scrape_.*|.*:.*|ALERTS.*"}}')
    return {frozenset((key, value) for key, value in each["metric"].items() if key not in own) for each in found}


def assert_recorded(prometheus: Prometheus, expected: Mapping[str, float]) -> None:
    """Each expression has one result, with this value, and no rule fails on any page."""
    for record, value in expected.items():
        (found,) = prometheus.wait_for(record, seconds=30)
        assert float(found["value"][1]) == pytest.approx(value, rel=0.01)
    rules = [rule for group in prometheus.get("rules", {})["groups"] for rule in group["rules"]]
    assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []


def test_rules_work_on_what_is_sent_and_it_ends_with_its_target(prometheus: Prometheus) -> None:
    dom0, web = ({"domid": str(domid), "domain": name} for domid, name in enumerate(("Domain-0", "web")))
    labels = {"host": "xen1", "platform": "xen"}
    now = time.time()
    ticks = range(-120, 1, 15)

    def over_time(own: Mapping[str, str], rate: float) -> list[Json]:
        return [point({**labels, **own}, 1000 + rate * (120 + tick), now + tick) for tick in ticks]

    metrics = [
        cumulative("xen_domain_cpu_seconds_total", over_time(dom0, 0.5) + over_time(web, 1.5)),
        gauge("xen_host_cpus", [point(labels, 4, now)]),
        gauge("up", [point(labels, 1, now)]),
    ]
    send(prometheus, target("xentop", "dom0.example.org:10290"), metrics)
    expected = {
        'vserver:cpu_usage:rate{host="xen1", vserver="web", role="guest"}': 1.5,
        'host:overhead_cpu:rate{host="xen1"}': 0.5,
        'host:cpu_capacity:cpus{host="xen1"}': 4,
    }
    assert_recorded(prometheus, expected)
    assert prometheus.value('up{host="xen1", job="xentop", instance="dom0.example.org:10290"}') == 1
    gone = {**point(labels, 0, time.time()), "flags": 1}  # the flag "no recorded value"
    del gone["asDouble"]
    send(prometheus, target("xentop", "dom0.example.org:10290"), [gauge("xen_host_cpus", [gone])])
    assert prometheus.query('xen_host_cpus{host="xen1"}') == []


def test_the_pages_rules_make_a_machine_of_host_metrics(prometheus: Prometheus) -> None:
    """Names, units and attributes are from the receiver's documentation."""
    now = time.time()

    def rising(name: str, unit: str, keys: tuple[str, str], rates: dict[tuple[str, str], float]) -> Json:
        points = [
            point(dict(zip(keys, own, strict=True)), 1000 + rate * (60 + tick), now + tick)
            for own, rate in rates.items()
            for tick in range(-60, 1, 15)
        ]
        return cumulative(name, points, unit=unit)

    states = {"user": 0.25, "system": 0.1, "idle": 0.6, "wait": 0.04, "steal": 0.01}
    cpu = {(cpu, state): rate for cpu in ("cpu0", "cpu1") for state, rate in states.items()}
    network = {("eth0", "receive"): 2000.0, ("eth0", "transmit"): 1000.0, ("br0", "receive"): 2000.0}
    disk = {("sda", "read"): 300.0, ("sda1", "read"): 300.0, ("sda", "write"): 400.0}
    memory = [point({"state": state}, value, now) for state, value in (("used", 3e9), ("free", 1e9), ("cached", 2e9))]
    metrics = [
        rising("system.cpu.time", "s", ("cpu", "state"), cpu),
        cumulative("system.memory.usage", memory, unit="By", monotonic=False),
        rising("system.network.io", "By", ("device", "direction"), network),
        rising("system.disk.io", "By", ("device", "direction"), disk),
    ]
    resource = {each["key"]: each["value"] for each in documented("processors")["processors"]["resource"]["attributes"]}
    send(prometheus, {"os.type": "linux", **resource}, metrics)
    machine = '{host="web1", platform="base", vserver="web1", role="host"%s}'
    expected = {
        'host:cpu_usage:rate{host="web1", platform="base"}': 0.7,
        "vserver:cpu_usage:rate" + machine % "": 0.7,
        'host:cpu_capacity:cpus{host="web1", platform="base"}': 2,
        'host:cpu_steal:rate{host="web1", platform="base"}': 0.02,
        "vserver:memory:bytes" + machine % "": 3e9,
        "vserver:network_bytes:rate" + machine % ', direction="receive"': 2000,
        "vserver:network_bytes:rate" + machine % ', direction="transmit"': 1000,
        "vserver:disk_bytes:rate" + machine % ', direction="read"': 300,
        "vserver:disk_bytes:rate" + machine % ', direction="write"': 400,
    }
    assert_recorded(prometheus, expected)
