"""compose.fleet.yaml on a real engine: all parts of a fleet as containers, and an answer for all shards' hosts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import yaml

from fleet import compose, settings
from fleet.parts import Part, alertmanagers, parts, prometheus, queries
from fleet.settings import REPLICAS
from tests.compose import compose_file, images
from tests.compose.docker_checkout import DockerCheckout
from tests.compose.engine import Engine
from tests.stack.conftest import eventually
from tests.support import Exposition

SHIPPED = settings.read()
HOSTS = [f"host-{number}" for number in range(6)]  # in each of two shards are some of them

# The first run builds the programs of the images.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def fleet(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCheckout]:
    """The fleet by the commands in the file's first lines, all of it healthy. It watches HOSTS."""
    services = compose_file.services({}, compose.FILE)
    thanos = [service for service in services.values() if service["image"] == compose.THANOS_IMAGE]
    images.make_stand_ins(engine, thanos, tmp_path_factory.mktemp("images"))
    override = tmp_path_factory.mktemp("compose") / "override.yaml"
    override.write_text(images.override(services))
    checkout = DockerCheckout(
        tmp_path_factory.mktemp("f") / "checkout",
        engine,
        override,
        COMPOSE_FILE=f"{compose.FILE.name}:{override}",
        COMPOSE_PROJECT_NAME="virtscope-fleet",
    )
    with Exposition("process_start_time_seconds 1\n") as exporter:
        targets = [exporter.group(host, "cgroup") for host in HOSTS]
        (checkout.folder / "prometheus/targets/perf.yml").write_text(yaml.safe_dump(targets))
        engine.run([sys.executable, "-m", "fleet", "compose"], checkout.environment, checkout.folder)
        try:
            up = [*compose_file.command(), "up", "--detach"]
            engine.run(up, checkout.environment, checkout.folder, seconds=600)
            checkout.wait_until_healthy(dict.fromkeys(services, "healthy"), seconds=300)
            yield checkout
        finally:
            engine.clear()


def api(part: Part, path: str, **parameters: str) -> Any:
    answer = requests.get(f"{part.url}{path}", params=parameters, timeout=30)
    answer.raise_for_status()
    return answer.json()


@pytest.mark.usefixtures("fleet")
def test_each_query_answers_for_the_hosts_of_all_shards() -> None:
    def hosts() -> list[list[str]]:
        results = [
            api(part, "/api/v1/query", query='up{job="perf"} == 1')["data"]["result"] for part in queries(SHIPPED)
        ]
        return [sorted(series["metric"]["host"] for series in result) for result in results]

    assert eventually(lambda: hosts() == [HOSTS] * SHIPPED.queries, seconds=120), hosts()


@pytest.mark.usefixtures("fleet")
def test_shards_scrape_all_parts_and_each_other() -> None:
    """Each part is a target of one shard; with two shards, each pair reads the other."""

    def down_or_missing() -> set[str]:
        missing = {part.name for part in parts(SHIPPED)}
        for shard in range(SHIPPED.shards):
            for replica in REPLICAS:
                result = api(prometheus(SHIPPED, shard, replica), "/api/v1/query", query="up")["data"]["result"]
                up = [series["metric"] for series in result if series["value"][1] == "1"]
                missing -= {metric.get("part") for metric in up}
                if [metric["job"] for metric in up].count("virtscope_shards") != len(REPLICAS):
                    missing.add(f"the other shard at {shard}-{replica}")
        return missing

    assert eventually(lambda: down_or_missing() == set(), seconds=120), down_or_missing()


@pytest.mark.usefixtures("fleet")
def test_no_rule_fails_and_alertmanagers_are_a_cluster() -> None:
    for shard in range(SHIPPED.shards):
        groups = api(prometheus(SHIPPED, shard, "a"), "/api/v1/rules")["data"]["groups"]
        assert [rule["lastError"] for group in groups for rule in group["rules"] if rule.get("lastError")] == []
        assert groups
    for part in alertmanagers(SHIPPED):
        cluster = api(part, "/api/v2/status")["cluster"]
        assert (cluster["status"], len(cluster["peers"])) == ("ready", len(alertmanagers(SHIPPED)))


def test_what_containers_write_is_in_their_volumes_alone(fleet: DockerCheckout) -> None:
    generated = fleet.folder / ".stack/fleet"
    assert generated.is_dir()
    assert not (generated / "data").exists()
    volumes = fleet.engine.docker("volume", "ls", "--format={{.Name}}").split()
    written = [part for part in parts(SHIPPED) if part.kind != "query"]
    assert {f"virtscope-fleet_{part.name}-data" for part in written} <= set(volumes)
