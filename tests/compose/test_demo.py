"""`make compose-demo` on a real engine, with images built from our Dockerfiles."""

import time
from pathlib import Path

import pytest

from deploy.compose import DEMO_HISTORY, DEMO_SERVICES
from deploy.parts import GRAFANA, OVERVIEW, PROMETHEUS
from tests.compose.docker_checkout import DockerCheckout
from tests.compose.engine import Engine
from tests.support.waiting import wait_for

HOSTS = {"demo-xen", "demo-kvm", "demo-openvz", "demo-base"}


@pytest.mark.system
@pytest.mark.timeout(1800)  # the first run builds two images
def test_it_has_a_day_of_history_goes_on_and_leaves_nothing(
    building_engine: Engine, override: Path, tmp_path: Path
) -> None:
    demo = DockerCheckout(tmp_path / "checkout", building_engine, override)

    def hosts(expr: str) -> set[str]:
        return {series["metric"]["host"] for series in demo.query(expr)}

    try:
        said = demo.compose("demo")
        assert "all data is simulated" in said
        assert demo.url(PROMETHEUS.port_variable) in said
        demo.wait_until_healthy({**dict.fromkeys([*DEMO_SERVICES, GRAFANA.name], "healthy"), DEMO_HISTORY: ""})
        assert hosts("app:response_seconds:mean offset 24h") == HOSTS
        later = f"timestamp(vserver:cpu_usage:rate) > {time.time():.0f}"
        wait_for(lambda: hosts(later), until=HOSTS.__eq__)
        assert demo.query("up == 0") == []
        overview = demo.get(PROMETHEUS.port_variable, OVERVIEW).text
        assert [host for host in HOSTS if host not in overview] == []
        exporter = demo.container("demo-xentop-exporter")  # of the image that every exporter has
        found = building_engine.docker("exec", exporter, "find", "/usr/lib", "-name", "libxenstat.so.*")
        assert "libxenstat.so.4." in found
        building_engine.docker("stop", "--time=10", exporter)
        assert building_engine.docker("inspect", "--format={{.State.ExitCode}}", exporter).strip() == "0"
        demo.compose("down")
        assert demo.health() == {}
    finally:
        building_engine.clear()
