"""lab/compose.yaml: the auction site on Docker with a limit per tier, built and run on a real engine."""

import re
from pathlib import Path

import pytest
import requests
import yaml

from lab.servers.database import MARIADBD
from lab.servers.instance import APACHE, PHP_OPTIONS, TIERS
from tests.compose import compose_file, images
from tests.compose.compose_file import CHECKOUT
from tests.compose.engine import Engine
from tests.support.ports import free_port
from tests.support.waiting import wait_for

DOCKERFILE = (CHECKOUT / "lab" / "Dockerfile").read_text()
PORTS = {"AUCTION_1_PORT": "18081", "AUCTION_2_PORT": "18082", "LAB_CPUS": "1"}
INSTANCES = ("auction-1", "auction-2")
BUILD_SECONDS = 1200  # the first build installs Apache, PHP and MariaDB
NO_DNS_SECONDS = 60  # a removed name takes this long to fail: the tests' engine has no upstream DNS


def test_tiers_are_containers_of_their_names_limited_confined_and_reached_by_their_own_instance_alone() -> None:
    services = compose_file.services(PORTS, compose_file.LAB)
    written = yaml.safe_load(compose_file.LAB.read_text())  # 1.29 and v2 print limits and ports differently
    assert set(services) == {f"{instance}-{tier}" for instance in INSTANCES for tier in TIERS}
    for name, service in services.items():
        instance, _, tier = name.rpartition("-")
        assert service["container_name"] == name  # cAdvisor's label `name`, and so the label `vserver`
        assert service["build"]["target"] == tier
        assert {"cpus", "cpu_shares", "mem_limit"} <= written["services"][name].keys(), name
        assert (service["cpuset"], service["cap_drop"], service["read_only"]) == ("1", ["ALL"], True), name
        assert (service["security_opt"], service.get("privileged")) == (["no-new-privileges:true"], None), name
        ports = written["services"][name].get("ports", [])  # only web servers have ports
        assert [port.startswith("127.0.0.1:") for port in ports] == ([True] if tier == "web" else []), name
        assert instance in service["networks"]
        assert not set(INSTANCES) & set(service["networks"]) - {instance}
    for instance in INSTANCES:
        assert set(services[f"{instance}-db"]["networks"]) == {instance}
        assert written["networks"][instance] == {"internal": True}
        assert services[f"{instance}-web"]["environment"]["DB_HOST"] == f"{instance}-db"


def test_images_are_of_one_exact_release_and_run_the_servers_as_they_run_without_docker() -> None:
    bases = re.findall(r"^FROM (\S+) AS (\S+)", DOCKERFILE, re.MULTILINE)
    exporters = re.findall(r"^FROM \S+-(\d{8}-slim)", (CHECKOUT / "exporters" / "Dockerfile").read_text(), re.MULTILINE)
    assert {base for base, _ in bases} - {stage for _, stage in bases} == {f"debian:bookworm-{exporters[0]}"}
    sent = [line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for copied in re.findall(r"^COPY (lab/\S+)", DOCKERFILE, re.MULTILINE):
        assert (CHECKOUT / copied).exists()
        assert any(Path(copied).is_relative_to(allowed) for allowed in sent)
    for program, *flags in (["php-fpm8.2", *PHP_OPTIONS], APACHE, MARIADBD):
        assert [word for word in (Path(program).name, *flags) if word not in DOCKERFILE] == []


@pytest.mark.long
@pytest.mark.timeout(BUILD_SECONDS + 600)
def test_pages_come_and_a_dead_database_is_an_error(building_engine: Engine, tmp_path: Path) -> None:
    ports = [free_port() for _ in INSTANCES]
    variables = {f"AUCTION_{number}_PORT": str(port) for number, port in enumerate(ports, 1)}
    override = tmp_path / "override.yaml"
    override.write_text(images.override(compose_file.services(variables, compose_file.LAB)))
    compose = [*compose_file.command(), "--project-name=lab", f"--file={compose_file.LAB}", f"--file={override}"]

    def statuses() -> list[int]:
        pages = [f"http://127.0.0.1:{port}/item?id=5" for port in ports]
        return [requests.get(page, timeout=NO_DNS_SECONDS).status_code for page in pages]

    try:
        building_engine.run([*compose, "up", "--build", "--detach"], variables, seconds=BUILD_SECONDS)
        wait_for(statuses, 60, every=0.5, until=[200, 200].__eq__)
        building_engine.docker("kill", "auction-1-db")
        assert statuses() == [503, 200]
    finally:
        building_engine.clear()
