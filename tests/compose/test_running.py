"""`make compose-up` on a real engine: all of compose.yaml, with images built by the tests (images.STAND_INS)."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.compose import PERFMON_ENGINE
from deploy.exporters import OF_ANY_PLATFORM
from deploy.parts import DOCKER_PARTS, PROMETHEUS
from deploy.targets import JOBS, this_machine
from tests.compose.docker_checkout import DockerCheckout
from tests.compose.engine import Engine
from tests.support.waiting import wait_for

EVERYWHERE = {"prometheus", "alertmanager", "grafana", "node-exporter", "cadvisor", "telegraf"}
WITH_PERFMON = {f"{exporter}-exporter" for exporter in OF_ANY_PLATFORM}

# The first run builds the programs of the images.
pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def services(engine: Engine) -> set[str]:
    major = int(engine.docker("version", "--format", "{{.Server.Version}}").partition(".")[0])
    return EVERYWHERE | WITH_PERFMON if major >= PERFMON_ENGINE else EVERYWHERE


@pytest.fixture(scope="module")
def stack(
    engine: Engine, services: set[str], override: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DockerCheckout]:
    checkout = DockerCheckout(tmp_path_factory.mktemp("s") / "checkout", engine, override)
    said = checkout.compose("up")
    try:
        assert checkout.url(PROMETHEUS.port_variable) in said
        checkout.wait_until_healthy(dict.fromkeys(services, "healthy"))
        yield checkout
    finally:
        engine.clear()


def labels(stack: DockerCheckout, expr: str, label: str) -> set[str]:
    return {series["metric"].get(label, "") for series in stack.query(expr)}


def test_prometheus_scrapes_all_parts_and_sends_alerts(stack: DockerCheckout, services: set[str]) -> None:
    jobs = {
        job
        for job, part in JOBS.items()
        if part in DOCKER_PARTS and part.platform is None and (part.name not in WITH_PERFMON or part.name in services)
    }
    wait_for(lambda: labels(stack, "up == 1", "job"), 60, until=jobs.__eq__)
    assert labels(stack, "up", "host") == {this_machine().host}
    found = stack.get("PROMETHEUS_PORT", "/api/v1/alertmanagers").json()["data"]["activeAlertmanagers"]
    assert [manager["url"] for manager in found] == [stack.url("ALERTMANAGER_PORT", "/api/v2/alerts")]


def test_node_exporter_sees_the_host(stack: DockerCheckout) -> None:
    assert labels(stack, "node_uname_info", "nodename") == {os.uname().nodename}
    (root,) = stack.query('node_filesystem_size_bytes{mountpoint="/"}')
    disk = os.statvfs("/")
    assert int(root["value"][1]) == disk.f_blocks * disk.f_frsize
    wait_for(  # other tests create interfaces, too
        lambda: labels(stack, "node_network_info", "device"),
        until=lambda found: found == {device.name for device in Path("/sys/class/net").iterdir()},
    )


def test_containers_are_virtual_servers_by_their_names(stack: DockerCheckout, services: set[str]) -> None:
    names = {stack.container(service) for service in services}
    wait_for(lambda: labels(stack, "vserver:cpu_usage:rate", "vserver"), 90, until=names.__le__)


def test_grafana_s_user_can_read_what_it_is_given(stack: DockerCheckout) -> None:
    """Grafana itself doesn't run here. Its files are mounted where settings expect them, and not world-readable."""
    password = (stack.folder / ".stack/secrets/grafana-admin-password").read_text()
    command = ["exec", stack.container("grafana"), "sh", "-c"]
    assert stack.engine.docker(*command, 'cat "$GF_SECURITY_ADMIN_PASSWORD__FILE"').strip() == password
    pages = stack.engine.docker(*command, 'cat "$VIRTSCOPE_DASHBOARDS"/*.json | busybox grep -c schemaVersion')
    assert int(pages) == len(list((stack.folder / "dashboards/json").glob("*.json")))
    assert "virtscope" in stack.engine.docker(*command, 'cat "$GF_PATHS_PROVISIONING"/datasources/*.yml')
    stack.engine.docker(*command, 'busybox wget -q -O - "$PROMETHEUS_URL/-/ready"')  # reachable


def test_up_again_reads_edited_rules_and_keeps_the_containers(stack: DockerCheckout) -> None:
    before = stack.engine.docker("container", "ls", "--quiet", "--no-trunc")
    rule = "groups: [{name: edited, rules: [{record: 'edited:one', expr: '1'}]}]\n"
    (stack.folder / "prometheus/rules/edited.yml").write_text(rule)
    stack.compose("up")
    assert stack.engine.docker("container", "ls", "--quiet", "--no-trunc") == before
    wait_for(lambda: stack.query("edited:one"))
