"""A whole fleet on this machine: two shards, the store and the central rules; started, queried, changed and stopped."""

import copy
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from deploy import merge
from deploy.fleet import FleetError, native, settings
from deploy.fleet.parts import Part, alertmanagers, prometheus, queries, rules
from deploy.fleet.settings import REPLICAS, Settings
from tests.support.endpoints import Exposition, answers
from tests.support.needs import need_root
from tests.support.ports import free_ports
from tests.support.program import program_path
from tests.support.promql import PrometheusClient
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

SECONDS = 240  # for changes to arrive everywhere, on a busy machine
PORTS = 400
HOSTS = [f"host-{number}" for number in range(6)]  # distributed over all of two, and of three, shards
# A Prometheus uses an inotify instance per file_sd: 13 with the shipped jobs, 2 with these. A user has 128 by default;
# this test starts six Prometheus, and parallel tests start others as the same user.
JOBS = {"perf", "telegraf", "prometheus", "alertmanager"}
Running = tuple[Settings, Path]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Running]:
    """A running fleet that watches HOSTS. The first one has the shop's web tier with ten requests a second."""
    for program in ("prometheus3", "alertmanager034", "thanos"):
        program_path(program)
    started = time.time()

    def web() -> str:
        seconds = time.time() - started
        return answers(10 * seconds, seconds, "0.3", "+Inf")

    with (
        tempfile.TemporaryDirectory(prefix="fleet-") as name,  # pytest's own are root's, and parts run as nobody
        pytest.MonkeyPatch.context() as patch,
        Exposition(web) as application,
        Exposition("process_start_time_seconds 1\n") as exporter,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        targets = folder / "targets"
        targets.mkdir()
        (targets / "telegraf.yml").write_text(yaml.safe_dump([application.group(HOSTS[0], "cgroup")]))
        (targets / "perf.yml").write_text(yaml.safe_dump([exporter.group(host, "cgroup") for host in HOSTS]))
        shipped = merge.prometheus()
        shipped["scrape_configs"] = [job for job in shipped["scrape_configs"] if job["job_name"] in JOBS]
        patch.setattr(merge, "prometheus", lambda: copy.deepcopy(shipped))
        chosen = settings.read().model_copy(update={"targets": targets, "first_port": free_ports(PORTS)})
        chosen = chosen.model_copy(update={"scrape_interval": "2s", "evaluation_interval": "5s"})
        try:
            native.up(chosen, folder)
            yield chosen, folder
        finally:
            native.down(folder)


def query(part: Part, expr: str) -> list[dict[str, Any]]:
    return PrometheusClient(part.url).query(expr)


def wait_until(part: Part, expr: str, wanted: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """The result of an expression at one part, once it matches."""
    return wait_for(lambda: query(part, expr), SECONDS, until=wanted, every=1, explain=lambda: f"{expr} at {part.name}")


def hosts(result: list[dict[str, Any]]) -> list[str]:
    return sorted(series["metric"]["host"] for series in result)


def are_of(wanted: list[str]) -> Callable[[list[dict[str, Any]]], bool]:
    """Whether a result has exactly one series per host."""
    return lambda result: hosts(result) == wanted


def divided(chosen: Settings) -> list[list[str]]:
    """The hosts of each shard, once each host is in exactly one, none is empty, and both of a pair scrape them."""

    def of_replicas() -> list[list[list[str]]]:
        shards = range(chosen.shards)
        up = 'up{job="perf"}'
        return [[hosts(query(prometheus(chosen, shard, replica), up)) for shard in shards] for replica in REPLICAS]

    def whole(found: list[list[list[str]]]) -> bool:
        first, second = found
        return first == second and all(first) and sorted(itertools.chain(*first)) == HOSTS

    return wait_for(of_replicas, SECONDS, until=whole, every=1)[0]


def test_a_query_answers_for_all_hosts_as_one_prometheus_would(fleet: Running) -> None:
    """Each host belongs to one shard and is scraped by both of its pair."""
    chosen, folder = fleet
    divided(chosen)
    assert native.status(chosen, folder)
    for part in queries(chosen):
        labels = {tuple(sorted(series["metric"])) for series in wait_until(part, 'up{job="perf"}', are_of(HOSTS))}
        assert labels == {("__name__", "host", "instance", "job", "platform")}
        # Records without a host exist in each shard, and are merged here.
        objective = 'slo:objective:ratio{sloth_slo="latency", sloth_service="rubis"}'
        wait_until(part, objective, lambda result: len(result) == 1)
        wait_until(part, "app:requests:rate", are_of(HOSTS[:1]))


def test_each_shard_knows_the_requests_to_web_tiers_of_others(fleet: Running) -> None:
    """The web tier's own shard doesn't read it from others, and the store has it once."""
    chosen, _ = fleet
    own = next(number for number, found in enumerate(divided(chosen)) if HOSTS[0] in found)
    for shard, replica in itertools.product(range(chosen.shards), REPLICAS):
        part = prometheus(chosen, shard, replica)
        elsewhere, here = ([], HOSTS[:1]) if shard == own else (HOSTS[:1] * len(REPLICAS), [])
        wait_until(part, "app:requests_elsewhere:rate > 8 < 12", are_of(elsewhere))
        wait_until(part, "requests:of_web_tier:rate1m > 8 < 12", are_of(here))
    for part in queries(chosen):
        (requested,) = wait_until(part, "requests:of_web_tier:rate1m > 8 < 12", bool)
        labels = {"__name__": "requests:of_web_tier:rate1m", "host": HOSTS[0], "platform": "cgroup", "app": "shop"}
        assert requested["metric"] == labels
        assert query(part, "app:requests_elsewhere:rate") == []


def test_the_central_pair_evaluates_what_no_shard_does_and_alertmanagers_have_each_alert_once(fleet: Running) -> None:
    """No shipped file is for an application with one name, so the central alert has no results."""
    chosen, _ = fleet

    def evaluated(part: Part) -> list[tuple[str, str]]:
        groups = PrometheusClient(part.url).get("rules", {})["groups"]
        return [(rule["name"], rule["health"]) for group in groups for rule in group["rules"]]

    def watchdogs(part: Part) -> list[tuple[str, bool]]:
        alerts = requests.get(f"{part.url}/api/v2/alerts?filter=alertname=Watchdog", timeout=30).json()
        return sorted((alert["labels"]["shard"], "replica" in alert["labels"]) for alert in alerts)

    for part in rules(chosen):
        wait_for(lambda: evaluated(part), SECONDS, until=[("ObjectiveWithoutRequests", "ok")].__eq__)  # noqa: B023
    for part in alertmanagers(chosen):
        # One per shard, from both Prometheus of its pair.
        wait_for(lambda: watchdogs(part), SECONDS, until=[("0", False), ("1", False)].__eq__)  # noqa: B023
        cluster = requests.get(f"{part.url}/api/v2/status", timeout=30).json()["cluster"]
        assert (cluster["status"], len(cluster["peers"])) == ("ready", 2)


def test_a_folder_that_nobody_may_not_enter_is_refused(tmp_path: Path) -> None:
    need_root("has another user for the parts")
    tmp_path.chmod(0o700)
    with pytest.raises(FleetError, match="user nobody, which the parts run as, can't enter /"):
        native.up(settings.read().model_copy(update={"first_port": free_ports(PORTS)}), tmp_path / "fleet")
