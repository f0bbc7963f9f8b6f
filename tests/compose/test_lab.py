"""lab/compose.yaml: the auction site on Docker, limited tier by tier; built and run on a real engine."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from lab.servers import TIERS
from lab.servers.database import MARIADBD
from lab.servers.instance import APACHE, PHP_OPTIONS
from tests.compose import compose_file, images
from tests.compose.compose_file import CHECKOUT
from tests.compose.engine import Engine
from tests.stack.conftest import free_ports

DOCKERFILE = (CHECKOUT / "lab" / "Dockerfile").read_text()
PORTS = {"AUCTION_1_PORT": "18081", "AUCTION_2_PORT": "18082", "LAB_CPUS": "1"}
INSTANCES = ("auction-1", "auction-2")
BUILD_SECONDS = 1200  # the first time installs Apache, PHP and MariaDB
NO_DNS_SECONDS = 60  # for a name that is no longer in the network: the tests' engine reaches nobody who knows others


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    return compose_file.services(PORTS, compose_file.LAB)


def test_each_tier_of_each_instance_is_a_container_of_its_name(services: dict[str, dict[str, Any]]) -> None:
    assert set(services) == {f"{instance}-{tier}" for instance in INSTANCES for tier in TIERS}
    for name, service in services.items():
        assert service["container_name"] == name  # what cAdvisor's label `name` says, and so what `vserver` is
        assert service["build"]["target"] == name.rpartition("-")[2]


def test_each_tier_has_limits_and_is_confined(services: dict[str, dict[str, Any]]) -> None:
    # Docker's Compose v2 leaves out a limit that is 0, which is none: so from the file.
    written = yaml.safe_load(compose_file.LAB.read_text())["services"]
    for name, service in services.items():
        assert {"cpus", "cpu_shares", "mem_limit"} <= written[name].keys()
        assert service["cpuset"] == "1"
        assert not service.get("privileged")
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["read_only"] is True


def test_only_pages_are_published_and_on_loopback(services: dict[str, dict[str, Any]]) -> None:
    # Written differently by docker-compose 1.29 and v2: so from the file.
    written = yaml.safe_load(compose_file.LAB.read_text())
    for name in services:
        ports = written["services"][name].get("ports", [])
        assert all(port.startswith("127.0.0.1:") for port in ports)
        assert bool(ports) == name.endswith("-web")


def test_a_database_is_reached_by_its_own_web_tier_alone(services: dict[str, dict[str, Any]]) -> None:
    networks = yaml.safe_load(compose_file.LAB.read_text())["networks"]
    for instance in INSTANCES:
        assert set(services[f"{instance}-db"]["networks"]) == {instance}
        assert networks[instance] == {"internal": True}
        inside = {name for name, service in services.items() if instance in service["networks"]}
        assert inside == {f"{instance}-{tier}" for tier in TIERS}
        assert services[f"{instance}-web"]["environment"]["DB_HOST"] == f"{instance}-db"


def test_images_are_built_on_one_exact_release_of_what_is_sent() -> None:
    bases = re.findall(r"^FROM (\S+) AS (\S+)", DOCKERFILE, re.MULTILINE)
    stages = {stage for _, stage in bases}
    exporters = re.findall(r"^FROM \S+-(\d{8}-slim)", (CHECKOUT / "exporters" / "Dockerfile").read_text(), re.MULTILINE)
    assert {base for base, _ in bases} - stages == {f"debian:bookworm-{exporters[0]}"}
    sent = [line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for copied in re.findall(r"^COPY (lab/\S+)", DOCKERFILE, re.MULTILINE):
        assert (CHECKOUT / copied).exists()
        assert any(Path(copied).is_relative_to(allowed) for allowed in sent)


def test_images_run_the_servers_as_they_run_without_docker() -> None:
    """The same programs with the same files: what is tested there holds here."""
    for command in (["php-fpm8.2", *PHP_OPTIONS], APACHE, MARIADBD):
        program, *flags = command
        assert Path(program).name in DOCKERFILE
        for flag in flags:
            assert flag in DOCKERFILE


@pytest.fixture
def ports(building_engine: Engine, tmp_path: Path) -> Iterator[dict[str, int]]:
    """The port of each instance, while the lab's containers run."""
    ports = dict(zip(INSTANCES, free_ports(), strict=False))
    variables = {f"{instance.upper().replace('-', '_')}_PORT": str(port) for instance, port in ports.items()}
    override = tmp_path / "override.yaml"
    override.write_text(images.override(compose_file.services(variables, compose_file.LAB)))
    compose = [*compose_file.command(), "--project-name=lab", f"--file={compose_file.LAB}", f"--file={override}"]
    try:
        building_engine.run([*compose, "up", "--build", "--detach"], variables, seconds=BUILD_SECONDS)
        yield ports
    finally:
        building_engine.clear()


@pytest.mark.long
@pytest.mark.timeout(BUILD_SECONDS + 600)
def test_pages_come_and_a_dead_database_is_an_error(building_engine: Engine, ports: dict[str, int]) -> None:
    item = {instance: f"http://127.0.0.1:{port}/item?id=5" for instance, port in ports.items()}

    def status(instance: str) -> int:
        try:
            return requests.get(item[instance], timeout=NO_DNS_SECONDS).status_code
        except requests.RequestException:
            return 0

    deadline = time.monotonic() + 60
    while [status(instance) for instance in INSTANCES] != [200, 200]:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    building_engine.docker("kill", "auction-1-db")
    assert [status(instance) for instance in INSTANCES] == [503, 200]
