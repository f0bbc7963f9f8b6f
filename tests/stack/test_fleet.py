"""A fleet on this machine, whole: two shards, the store and the central rules, started, asked, changed and stopped."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from fleet import FleetError, native, settings
from fleet.parts import Part, alertmanagers, parts, prometheus, queries, rules, writes_to
from fleet.settings import REPLICAS, Settings
from tests.support.endpoints import Exposition
from tests.support.program import program_path

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

SECONDS = 240  # until something is everywhere, on a busy machine
HOSTS = [f"host-{number}" for number in range(6)]  # in each of two, and of three, shards are some of them


@pytest.fixture(scope="module")
def fleet() -> Iterator[tuple[Settings, Path]]:
    """A running fleet that watches HOSTS: the shop's web tier on the first of them."""
    for program in ("prometheus3", "alertmanager034", "thanos"):
        program_path(program)
    started = time.time()

    def web() -> str:
        seconds = time.time() - started
        labels = 'app="shop",tier="web",method="GET",status="2xx"'
        return (
            "# TYPE app_request_duration_seconds histogram\n"
            f'app_request_duration_seconds_bucket{{{labels},le="0.3"}} {10 * seconds}\n'
            f'app_request_duration_seconds_bucket{{{labels},le="+Inf"}} {10 * seconds}\n'
            f"app_request_duration_seconds_sum{{{labels}}} {seconds}\n"
            f"app_request_duration_seconds_count{{{labels}}} {10 * seconds}\n"
        )

    with (
        tempfile.TemporaryDirectory(prefix="fleet-") as name,  # pytest's own are root's, and parts are nobody's
        Exposition(web) as application,
        Exposition("process_start_time_seconds 1\n") as exporter,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        targets = folder / "targets"
        targets.mkdir()
        (targets / "telegraf.yml").write_text(yaml.safe_dump([application.group(HOSTS[0], "cgroup")]))
        (targets / "perf.yml").write_text(yaml.safe_dump([exporter.group(host, "cgroup") for host in HOSTS]))
        chosen = dataclasses.replace(
            settings.read(), targets=targets, first_port=free_ports(), scrape_interval="2s", evaluation_interval="5s"
        )
        try:
            native.up(chosen, folder)
            yield chosen, folder
        finally:
            native.down(folder)


def free_ports() -> int:
    """The first of 400 loopback ports that nothing listens on, below those that tests/support/program.py gives away."""
    for first in range(20_000, 23_600, 400):
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            for port in range(first, first + 400):
                probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise RuntimeError("no 400 ports in a row are free")


def query(part: Part, expr: str) -> list[dict[str, Any]]:
    """The result of an expression, by one part's API."""
    answer = requests.get(f"{part.url}/api/v1/query", params={"query": expr}, timeout=30)
    answer.raise_for_status()
    result: list[dict[str, Any]] = answer.json()["data"]["result"]
    return result


def wait_for(part: Part, expr: str, wanted: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """The result of an expression once it is as wanted; AssertionError with the last one if it doesn't become so."""
    deadline = time.monotonic() + SECONDS
    while not wanted(result := query(part, expr)):
        assert time.monotonic() < deadline, f"{expr} at {part.name}: {result}"
        time.sleep(1)
    return result


def hosts(result: list[dict[str, Any]]) -> list[str]:
    return sorted(series["metric"]["host"] for series in result)


def are_of(wanted: list[str]) -> Callable[[list[dict[str, Any]]], bool]:
    """Whether a result has one series of each of these hosts."""
    return lambda result: hosts(result) == wanted


def divided(chosen: Settings) -> list[list[str]]:
    """The hosts of each shard, once each of HOSTS is in one, each has some, and both of its pair scrape them."""
    deadline = time.monotonic() + SECONDS
    while True:
        of_replica = {
            replica: [
                hosts(query(prometheus(chosen, shard, replica), 'up{job="perf"}')) for shard in range(chosen.shards)
            ]
            for replica in REPLICAS
        }
        found = of_replica["a"]
        if found == of_replica["b"] and all(found) and sorted(itertools.chain(*found)) == HOSTS:
            return found
        assert time.monotonic() < deadline, of_replica
        time.sleep(1)


def test_each_host_is_one_shards_and_both_of_a_pair_have_it(fleet: tuple[Settings, Path]) -> None:
    chosen, folder = fleet
    divided(chosen)
    assert native.status(chosen, folder)


def test_a_query_answers_for_all_hosts_as_one_prometheus_would(fleet: tuple[Settings, Path]) -> None:
    chosen, _ = fleet
    for part in queries(chosen):
        up = wait_for(part, 'up{job="perf"}', lambda result: hosts(result) == HOSTS)
        assert {tuple(sorted(series["metric"])) for series in up} == {
            ("__name__", "host", "instance", "job", "platform")
        }
        # Records without a host are made in each shard, and are one here.
        wait_for(
            part, 'slo:objective:ratio{sloth_slo="latency", sloth_service="rubis"}', lambda result: len(result) == 1
        )
        wait_for(part, "app:requests:rate", lambda result: hosts(result) == HOSTS[:1])


def test_each_shard_knows_the_requests_to_web_tiers_of_others(fleet: tuple[Settings, Path]) -> None:
    """The web tier's own shard reads it from nowhere else, and the store has it once."""
    chosen, _ = fleet
    own = next(number for number, found in enumerate(divided(chosen)) if HOSTS[0] in found)
    for shard, replica in itertools.product(range(chosen.shards), REPLICAS):
        part = prometheus(chosen, shard, replica)
        elsewhere, here = ([], HOSTS[:1]) if shard == own else (HOSTS[:1] * len(REPLICAS), [])
        wait_for(part, "app:requests_elsewhere:rate > 8 < 12", are_of(elsewhere))
        wait_for(part, "requests:of_web_tier:rate1m > 8 < 12", are_of(here))
    for part in queries(chosen):
        (requested,) = wait_for(part, "requests:of_web_tier:rate1m > 8 < 12", bool)
        labels = {"__name__": "requests:of_web_tier:rate1m", "host": HOSTS[0], "platform": "cgroup", "app": "shop"}
        assert requested["metric"] == labels
        assert query(part, "app:requests_elsewhere:rate") == []


def test_both_of_the_central_pair_evaluate_what_no_shard_does(fleet: tuple[Settings, Path]) -> None:
    """No shipped file is for an application with one name, so the alert has nothing to say."""
    chosen, _ = fleet
    deadline = time.monotonic() + SECONDS
    for part in rules(chosen):
        while True:
            groups = requests.get(f"{part.url}/api/v1/rules", timeout=30).json()["data"]["groups"]
            found = [(rule["name"], rule["health"]) for group in groups for rule in group["rules"]]
            if found == [("ObjectiveWithoutRequests", "ok")]:
                break
            assert time.monotonic() < deadline, found
            time.sleep(1)


def test_both_alertmanagers_have_each_alert_once(fleet: tuple[Settings, Path]) -> None:
    """Watchdog is one of each shard, from both Prometheus of its pair."""
    chosen, _ = fleet
    for part in alertmanagers(chosen):
        deadline = time.monotonic() + SECONDS
        while True:
            found = requests.get(f"{part.url}/api/v2/alerts?filter=alertname=Watchdog", timeout=30).json()
            labels = sorted((alert["labels"]["shard"], "replica" in alert["labels"]) for alert in found)
            if labels == [("0", False), ("1", False)]:
                break
            assert time.monotonic() < deadline, labels
            time.sleep(1)
        cluster = requests.get(f"{part.url}/api/v2/status", timeout=30).json()["cluster"]
        assert (cluster["status"], len(cluster["peers"])) == ("ready", 2)


def test_the_answer_stays_whole_without_a_receiver_and_a_replica(fleet: tuple[Settings, Path]) -> None:
    chosen, folder = fleet
    here = native.supervisor(folder)
    both = (writes_to(chosen, 0, "a").name, prometheus(chosen, 0, "a").name)
    for stopped in both:
        here.stop_program(stopped)
    try:
        since = time.time()
        recent = f'timestamp(up{{job="perf"}}) > {since + 20}'
        for part in queries(chosen):
            wait_for(part, recent, lambda result: hosts(result) == HOSTS)
        assert not native.status(chosen, folder)
    finally:
        native.up(chosen, folder)  # starts what is stopped


def test_a_folder_that_nobody_may_not_enter_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root: parts run as whoever starts them")
    tmp_path.chmod(0o700)
    with pytest.raises(FleetError, match="user nobody, which the parts run as, can't enter /"):
        native.up(dataclasses.replace(settings.read(), first_port=free_ports()), tmp_path / "fleet")


def test_a_new_shard_takes_hosts_over_while_the_others_go_on(fleet: tuple[Settings, Path]) -> None:
    chosen, folder = fleet
    before = divided(chosen)
    pids = {name: process.pid for name, process in native.supervisor(folder).processes().items()}
    more = dataclasses.replace(chosen, shards=3)
    native.up(more, folder)
    try:
        *others, newest = divided(more)
        assert others == [[host for host in had if host not in newest] for had in before]
        wait_for(queries(more)[0], 'up{job="perf"}', lambda result: hosts(result) == HOSTS)
        after = {name: process.pid for name, process in native.supervisor(folder).processes().items()}
        assert {name: after[name] for name in pids} == pids
    finally:
        native.up(chosen, folder)
    assert {part.name for part in parts(chosen)} == set(native.supervisor(folder).processes())
