"""compose.fleet.yaml on a real engine: all parts of a fleet as containers, and queries over all shards."""

import sys
from pathlib import Path

import pytest
import yaml

from deploy.fleet import compose, settings
from deploy.fleet.parts import parts, queries
from deploy.fleet.settings import REPLICAS
from tests.compose import compose_file, images
from tests.compose.docker_checkout import DockerCheckout
from tests.compose.engine import Engine
from tests.support import Exposition
from tests.support.promql import PrometheusClient
from tests.support.waiting import wait_for

SHIPPED = settings.read()
HOSTS = [f"host-{number}" for number in range(6)]  # both shards get some of them


@pytest.mark.long
@pytest.mark.timeout(1800)  # the first run builds the programs of the images
def test_each_query_answers_for_the_hosts_of_all_shards_which_read_each_other(engine: Engine, tmp_path: Path) -> None:
    """With the commands in the file's first lines. Each part is a target of exactly one shard."""
    written = tmp_path / compose.FILE.name
    written.write_text(compose.text(SHIPPED))
    services = compose_file.services({}, written)
    thanos = [service for service in services.values() if service["image"] == compose.THANOS_IMAGE]
    images.make_stand_ins(engine, thanos, tmp_path / "images")
    override = tmp_path / "override.yaml"
    override.write_text(images.override(services))
    files = {"COMPOSE_FILE": f"{compose.FILE.name}:{override}", "COMPOSE_PROJECT_NAME": "virtscope-fleet"}
    checkout = DockerCheckout(tmp_path / "checkout", engine, override, **files)
    with Exposition("process_start_time_seconds 1\n") as exporter:
        targets = [exporter.group(host, "cgroup") for host in HOSTS]
        (checkout.folder / "prometheus/targets/perf.yml").write_text(yaml.safe_dump(targets))
        try:
            for command in (
                [sys.executable, "-m", "deploy.fleet", "compose"],
                [*compose_file.command(), "up", "--detach"],
            ):
                engine.run(command, checkout.environment, checkout.folder, seconds=600)
            checkout.wait_until_healthy(dict.fromkeys(services, "healthy"), seconds=300)
            assert_answers_as_one()
            assert not (checkout.folder / ".stack/fleet/data").exists()  # containers write to volumes
            volumes = engine.docker("volume", "ls", "--format={{.Name}}").split()
            of_parts = {f"virtscope-fleet_{part.name}-data" for part in parts(SHIPPED) if part.kind != "query"}
            assert of_parts <= set(volumes)
        finally:
            engine.clear()


def assert_answers_as_one() -> None:
    for part in queries(SHIPPED):
        client = PrometheusClient(part.url)
        wait_for(
            lambda: sorted(series["metric"]["host"] for series in client.query('up{job="perf"} == 1')),  # noqa: B023
            until=HOSTS.__eq__,
        )
    shards = [PrometheusClient(part.url) for part in parts(SHIPPED) if part.kind == "prometheus"]

    def up() -> tuple[set[str], set[int]]:
        """The parts that any shard scrapes, and the number of other shards' Prometheus that each one reads."""
        found = [[series["metric"] for series in shard.query("up == 1")] for shard in shards]
        scraped = {metric["part"] for metrics in found for metric in metrics if "part" in metric}
        return scraped, {[metric["job"] for metric in metrics].count("virtscope_shards") for metrics in found}

    wait_for(up, until=({part.name for part in parts(SHIPPED)}, {len(REPLICAS)}).__eq__)
