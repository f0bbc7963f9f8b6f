"""The exporters' image, built and run on a real engine."""

from __future__ import annotations

import pytest
import requests

from tests.compose import compose_file
from tests.compose.compose_file import CHECKOUT
from tests.compose.engine import Engine
from tests.support.ports import free_port
from tests.support.waiting import wait_for

TAG = "virtscope/exporters:under-test"


@pytest.mark.system
@pytest.mark.timeout(1800)  # the first build installs Python and Xen's libraries
def test_it_is_healthy_without_xen_says_so_and_stops_on_sigterm(building_engine: Engine) -> None:
    """With the options that compose.yaml has for the service, except Xen's devices, which only Dom0 has."""
    docker, port = building_engine.docker, free_port()
    service = compose_file.services({"XENTOP_PORT": str(port)})["xentop-exporter"]
    build = ["docker", "build", "--network=host", "--file=exporters/Dockerfile", f"--tag={TAG}", "."]
    building_engine.run(build, folder=CHECKOUT, seconds=1200)
    confinement = ["--network=host", "--read-only", f"--user={service['user']}", f"--memory={service['mem_limit']}"]
    confinement += [f"--cap-drop={capability}" for capability in service["cap_drop"]]
    confinement += [f"--security-opt={option}" for option in service["security_opt"]]
    container = docker("run", "--detach", *confinement, TAG, *service["command"]).strip()
    try:
        kind, *check = service["healthcheck"]["test"]
        assert kind == "CMD"
        wait_for(lambda: docker("exec", container, *check) is not None, 30, not_yet=(AssertionError,))
        assert "\nxentop_up 0.0\n" in requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
        library = docker("exec", container, "find", "/usr/lib", "-name", "libxenstat.so.*")
        assert "libxenstat.so.4." in library  # the library that queries Xen
        docker("stop", "--time=10", container)
        assert docker("inspect", "--format={{.State.ExitCode}}", container).strip() == "0"
    finally:
        docker("rm", "--force", container)
