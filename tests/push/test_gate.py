"""docs/push.md with the real programs: who may push which series, and alerts about missing hosts."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.push.gate import PASSWORDS, WAIT, Gate, Scraped
from tests.push.remote_write import Labels
from tests.support import Exposition
from tests.support.endpoints import answers
from tests.support.program import Program, program_path
from tools.push import FOLDER

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def sensor() -> Iterator[Exposition]:
    with Exposition(answers(5, 6, "0.3", "1", "+Inf")) as sensor:
        yield sensor


@pytest.fixture(scope="module")
def gate(sensor: Exposition, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """It scrapes one host, `scraped`, which has the same exporter and sensor as the pushing host."""
    with Exposition(Scraped()) as exporter:
        scraped = {"kvm": [exporter.group("scraped", "kvm")], "telegraf": [sensor.group("scraped", "kvm")]}
        with Gate(tmp_path_factory.mktemp("push"), scraped) as gate:
            yield gate


def series(name: str, job: str = "node", **labels: str) -> Labels:
    return sorted({"__name__": name, "job": job, "instance": "a", "platform": "kvm", **labels}.items())


HOSTILE: dict[str, Labels] = {
    "another host": series("node_hostile", host="host2"),
    "another host, after its own": [*series("node_hostile", host="host1"), ("host", "host2")],
    "another host, before its own": [("host", "host2"), *series("node_hostile", host="host1")],
    "another host, by the gate's label": series("node_hostile", __gate_host="host2"),
    "another host, by the gate's own label": series("node_hostile", __from_host="host2"),
    "a record": series("hostile:cpu_usage:rate"),
    "a record, of a sensor": series("hostile:cpu_usage:rate", job="telegraf"),
    "an alert": series("ALERTS", job="app", alertname="hostile", alertstate="firing"),
    "an alert, after an empty name": [("__name__", ""), *series("ALERTS", job="app", alertname="hostile")],
    "an alert, after another name": [("__name__", "hostile_x"), *series("ALERTS", job="app", alertname="hostile")],
    "another job's metric": series("kvm_hostile", job="node"),
    "another job's metric, of an application": series("kvm_hostile", job="app"),
    "Prometheus's own": series("up", job="prometheus"),
    "no job": series("node_hostile", job=""),
    "two jobs": [("job", "node"), *series("kvm_hostile", job="kvm")],
    "a guest's cgroups": series("perf_cgroup_hostile", job="guest", vserver="web02"),
    "a guest without a name": series("node_hostile_guest", job="guest"),
    "no name": [("job", "node"), ("instance", "a")],
}


def test_what_an_agent_may_not_write_is_not_stored(gate: Gate) -> None:
    for number, (attack, labels) in enumerate(HOSTILE.items()):
        marker = f"node_after_{number}"
        before = hosts_and_names(gate)
        gate.push("host1", [labels])
        # Sent one after the other: since the later one is stored, the earlier ones would be too.
        assert gate.push("host2", [series(marker)]).ok
        gate.prometheus.wait_for(f'{marker}{{host="host2"}}', seconds=WAIT)
        new = hosts_and_names(gate) - before - {("host2", marker)}
        assert new <= {("host1", "node_hostile")}, attack  # about itself, under its own name


def hosts_and_names(gate: Gate) -> set[tuple[str, str]]:
    """The stored series of pushing hosts, and all hostile ones."""
    found = gate.prometheus.query('{host=~"host.*", __name__=~"node_.+|.*hostile.*"}')
    found += gate.prometheus.query('{alertname="hostile"} or {__name__=~".*hostile.*"} or up{job="prometheus"}')
    return {(one["metric"].get("host", ""), one["metric"]["__name__"]) for one in found}


def test_one_agent_s_refused_samples_take_no_other_s_with_them(gate: Gate) -> None:
    """vmagent batches simultaneous samples into one request, which Prometheus answers as bad."""
    twice = [("a", "1"), ("a", "2"), *series("node_refused")]
    for _ in range(20):
        gate.push("host1", [twice])
        assert gate.push("host2", [series("node_beside")]).ok
    gate.prometheus.wait_for('node_beside{host="host2"}', seconds=WAIT)
    assert gate.prometheus.query("node_refused") == []


def test_an_agent_in_a_guest_is_that_guest(gate: Gate) -> None:
    for number, (labels, stored) in enumerate((
        (series("node_load1", job="guest"), True),
        (series("app_x_total", job="app"), True),
        (series("node_load1", job="node"), False),
        (series("kvm_hostile", job="kvm"), False),
        ([("__gate_vserver", ""), *series("node_load5", job="node")], False),
        ([("__gate_vserver", "web02"), *series("node_load5", job="node")], False),
    )):  # fmt: skip
        name, job = dict(labels)["__name__"], dict(labels)["job"]
        assert gate.push("host1-web01", [[*labels, ("vserver", "db01")]], 99).ok
        assert gate.push("host1-web01", [series(f"app_after{number}_total", job="app")]).ok
        gate.prometheus.wait_for(f'app_after{number}_total{{vserver="web01"}}', seconds=WAIT)
        found = gate.prometheus.query(f'{name}{{job="{job}", instance="a"}} == 99')
        assert [(one["metric"]["host"], one["metric"]["vserver"]) for one in found] == [("host1", "web01")] * stored


def test_nothing_else_of_the_gate_is_reached_nor_without_the_password(gate: Gate) -> None:
    for user in ("host3", "nobody", ""):
        assert gate.push(user, [series("node_hostile_stranger")]).status_code == 401, user
    api = ("/api/v1/import/prometheus", "/api/v1/write/../../-/reload", "/targets", "/debug/pprof/")
    for path in ("/", "/metrics", "/-/reload", *api):
        assert gate.push("host1", [series("node_hostile_path")], path=path).status_code in {400, 401, 404}, path


def test_the_address_can_t_name_another_host(gate: Gate) -> None:
    path = "/api/v1/write?extra_label=__gate_host=host2&extra_label=host=host2"
    assert gate.push("host1", [series("node_by_address")], path=path).ok
    found = gate.prometheus.wait_for("node_by_address", seconds=WAIT)
    assert [one["metric"]["host"] for one in found] == ["host1"]


class _Collector(Program):
    """It doesn't listen: readiness is in its log."""

    def is_ready(self) -> bool:
        return "Everything is ready" in self.log.read_text(errors="replace")


def start_collector(gate: Gate, folder: Path) -> Program:
    """OpenTelemetry's Collector on host2, with an operator's changes to the shipped file."""
    program_path("otelcol")
    document = yaml.safe_load((FOLDER / "otelcol.yml").read_text())
    client = document["extensions"]["basicauth/gate"]["client_auth"]
    client.update(username="host2", password_file=str(folder / "password"))
    document["exporters"]["prometheus_remote_write"]["http"].update(endpoint=gate.url, tls={"ca_file": gate.authority})
    document["receivers"]["prometheus"]["config"]["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    (folder / "otelcol.yml").write_text(yaml.safe_dump(document))
    program = _Collector("otelcol", folder)
    program.start(f"--config=file:{folder}/otelcol.yml")
    log = program.log.read_text()
    assert [line for line in log.splitlines() if "deprecated" in line] == [], "settings that are about to go"
    return program


def start_agent(gate: Gate, folder: Path) -> Program:
    """Prometheus in agent mode on host2, with an operator's changes to the shipped file."""
    text = (FOLDER / "prometheus.yml").read_text()
    for shipped, own in {
        "https://gate.example.org:8427/api/v1/write": gate.url,
        "username: host1": "username: host2",
        "/etc/virtscope/push-password": str(folder / "password"),
        "    queue_config:": f"    tls_config: {{ca_file: {gate.authority}}}\n    queue_config:",
        "scrape_interval: 15s": "scrape_interval: 1s",
        "scrape_timeout: 10s": "scrape_timeout: 1s",
    }.items():
        assert shipped in text
        text = text.replace(shipped, own)
    (folder / "prometheus.yml").write_text(text)
    program = Program("prometheus3", folder)
    listens, stores = f"--web.listen-address=127.0.0.1:{program.port}", f"--storage.agent.path={folder / 'data'}"
    program.start("--agent", f"--config.file={folder / 'prometheus.yml'}", listens, stores)
    return program


class Pushing(NamedTuple):
    """A program on host2 that pushes, and the scrapes of its exporter."""

    program: Program
    watched: Scraped


@pytest.fixture(scope="module", params=[start_collector, start_agent])
def pushing(
    request: pytest.FixtureRequest, gate: Gate, sensor: Exposition, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pushing]:
    """It has the same exporter and sensor as the scraped host."""
    folder, watched = tmp_path_factory.mktemp("pushing"), Scraped()
    (folder / "targets").mkdir()
    (folder / "password").write_text(PASSWORDS["host2"])
    with Exposition(watched) as exporter:
        for job, watch in (("kvm", exporter), ("telegraf", sensor)):
            # It claims to be another host, which the gate corrects.
            (folder / "targets" / f"{job}.yml").write_text(yaml.safe_dump([watch.group("scraped", "kvm")]))
        program = request.param(gate, folder)
        try:
            yield Pushing(program, watched)
        finally:
            program.stop()


def test_a_host_that_pushes_is_as_one_that_is_scraped_and_what_comes_while_the_gate_is_away_comes_later(
    gate: Gate, pushing: Pushing
) -> None:
    gate.prometheus.wait_for('up{host="host2", job="kvm"} == 1', seconds=WAIT)
    gate.prometheus.wait_for('vserver:cpu_usage:rate{host="host2", role="guest"}', seconds=WAIT)
    gate.prometheus.wait_for('requests:duration_seconds_bucket:rate1m{host="host2"}', seconds=WAIT)
    gate.wait_until_alike("host2", "scraped", "kvm")
    names = {dict(labels)["__name__"] for labels in gate.series_of("host2", "")}
    assert {"vserver:cpu_usage:rate", "host:cpu_usage:rate"} <= names
    edges = {dict(labels)["le"] for labels in gate.series_of("host2", "telegraf") if "le" in dict(labels)}
    # Prometheus writes 1.0, the Collector 1; the rules accept both.
    assert edges - {"1", "1.0"} == {"0.3", "+Inf"}
    gate.assert_scrapes_while_it_is_away_come_later("host2", pushing.watched)


def test_an_agent_that_dies_or_never_came_is_alerted_on(gate: Gate, pushing: Pushing) -> None:
    silent = 'ALERTS{{alertname="HostSilent", alertstate="firing", host="{}"}}'
    gate.prometheus.wait_for(silent.format("host3"), seconds=WAIT)
    gate.prometheus.wait_for('up{host="host2", job="kvm"} == 1', seconds=WAIT)
    gate.prometheus.wait_for(f"absent({silent.format('host2')})", seconds=WAIT)
    pushing.program.stop()
    (alert,) = gate.prometheus.wait_for(silent.format("host2"), seconds=WAIT)
    assert (alert["metric"]["severity"], alert["metric"].get("vserver")) == ("critical", None)
    assert gate.prometheus.query('up{host="host2"} == 0') == []  # no other alert can notice
