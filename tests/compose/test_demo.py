"""`make compose-demo` as its users see it, where there is a Docker engine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import requests

from tests.compose import compose_file
from tests.compose.compose_file import CHECKOUT
from tests.live.program import free_port
from tools.parts import DEMO_PARTS, GRAFANA, PROMETHEUS

HOSTS = {"demo-xen", "demo-openvz", "demo-base"}
START_SECONDS = 1200  # the first time downloads images, and builds two

pytestmark = pytest.mark.timeout(START_SECONDS + 300)


def run(command: list[str], variables: dict[str, str], seconds: float = 60) -> str:
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    """The ports of the demo's parts by their names, while it runs; nothing of it is left behind."""
    compose_file.require_engine()
    found = {part.name: free_port() for part in DEMO_PARTS}
    variables = {part.port_variable: str(found[part.name]) for part in DEMO_PARTS}
    variables["COMPOSE_PROJECT_NAME"] = f"virtscope-test-{os.getpid()}"
    ours = [sys.executable, "-m", "tools.compose"]
    try:
        said = run([*ours, "demo"], variables, START_SECONDS)
        assert "all data is simulated" in said
        assert f"http://127.0.0.1:{found[PROMETHEUS.name]}" in said
        yield found
        run([*ours, "down"], variables)
        label = f"label=com.docker.compose.project={variables['COMPOSE_PROJECT_NAME']}"
        assert run(["docker", "ps", "--all", "--quiet", "--filter", label], {}) == ""
    finally:
        run([*compose_file.command(), "down", "--volumes"], {**variables, "COMPOSE_PROFILES": "demo"})


def query(ports: dict[str, int], expr: str) -> list[dict[str, str]]:
    """The labels of the series that `expr` gives now; none while Prometheus does not answer yet."""
    try:
        url = f"http://127.0.0.1:{ports[PROMETHEUS.name]}/api/v1/query"
        answer = requests.get(url, params={"query": expr}, timeout=10).json()
    except requests.ConnectionError:
        return []
    return [series["metric"] for series in answer["data"]["result"]]


def wait_for_hosts(ports: dict[str, int], expr: str) -> None:
    """Until `expr` gives series of all three hosts, and of no other."""
    deadline = time.monotonic() + 120
    while {labels["host"] for labels in query(ports, expr)} != HOSTS:
        assert time.monotonic() < deadline, query(ports, "up")
        time.sleep(1)


def test_it_has_a_day_of_history_and_goes_on(ports: dict[str, int]) -> None:
    wait_for_hosts(ports, "app:response_seconds:mean offset 24h")
    wait_for_hosts(ports, f"timestamp(vserver:cpu_usage:rate) > {time.time():.0f}")
    assert query(ports, "up == 0") == []


def test_grafana_has_the_dashboards_and_reaches_prometheus(ports: dict[str, int]) -> None:
    grafana = f"http://127.0.0.1:{ports[GRAFANA.name]}"
    login = ("admin", (CHECKOUT / ".stack/secrets/grafana-admin-password").read_text())
    deadline = time.monotonic() + 120
    while True:
        try:
            found = requests.get(f"{grafana}/api/search?type=dash-db", auth=login, timeout=10).json()
            break
        except requests.ConnectionError:
            assert time.monotonic() < deadline
            time.sleep(1)
    assert len(found) == len(list((CHECKOUT / "dashboards/json").glob("*.json")))
    asked = f"{grafana}/api/datasources/proxy/uid/virtscope/api/v1/query?query=count(up)"
    assert requests.get(asked, auth=login, timeout=10).json()["data"]["result"] != []
