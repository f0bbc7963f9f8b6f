"""The exporters' image, built and run on a real engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.compose import compose_file
from tests.compose.compose_file import CHECKOUT
from tests.compose.engine import Engine
from tests.support.ports import free_port
from tests.support.waiting import wait_for

TAG = "virtscope/exporters:under-test"
PORT = free_port()

# The first build installs Python and Xen's libraries.
pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def service() -> dict[str, Any]:
    """The service that compose.yaml describes."""
    return compose_file.services({"XENTOP_PORT": str(PORT)})["xentop-exporter"]


@pytest.fixture(scope="module")
def container(building_engine: Engine, service: dict[str, Any]) -> Iterator[str]:
    """The service's container with its privileges, except for Xen's devices, which are in Dom0 alone."""
    build = ["docker", "build", "--network=host", "--file=exporters/Dockerfile", f"--tag={TAG}", "."]
    building_engine.run(build, folder=CHECKOUT, seconds=1200)
    confinement = ["--network=host", "--read-only", f"--user={service['user']}", f"--memory={service['mem_limit']}"]
    confinement += [f"--cap-drop={capability}" for capability in service["cap_drop"]]
    confinement += [f"--security-opt={option}" for option in service["security_opt"]]
    name = building_engine.docker("run", "--detach", *confinement, TAG, *service["command"]).strip()
    try:
        yield name
    finally:
        building_engine.docker("rm", "--force", name)


def test_it_is_healthy_without_xen_says_so_and_stops_on_sigterm(
    engine: Engine, container: str, service: dict[str, Any]
) -> None:
    kind, *check = service["healthcheck"]["test"]
    assert kind == "CMD"
    wait_for(lambda: engine.docker("exec", container, *check) is not None, 30, not_yet=(AssertionError,))
    assert "\nxentop_up 0.0\n" in requests.get(f"http://127.0.0.1:{PORT}/metrics", timeout=10).text
    library = engine.docker("exec", container, "find", "/usr/lib", "-name", "libxenstat.so.*")
    assert "libxenstat.so.4." in library  # through which Xen is asked
    engine.docker("stop", "--time=10", container)
    assert engine.docker("inspect", "--format={{.State.ExitCode}}", container).strip() == "0"
