"""The exporters' image, built and run on a real engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.compose import compose_file
from tests.compose.compose_file import CHECKOUT
from tests.compose.engine import Engine
from tests.support.ports import free_port

TAG = "virtscope/exporters:under-test"

# The first build installs Python and Xen's libraries.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def image(building_engine: Engine) -> str:
    build = ["docker", "build", "--network=host", "--file=exporters/Dockerfile", f"--tag={TAG}", "."]
    building_engine.run(build, folder=CHECKOUT, seconds=1200)
    return TAG


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def service(port: int) -> dict[str, Any]:
    """The service that compose.yaml describes."""
    return compose_file.services({"XENTOP_PORT": str(port)})["xentop-exporter"]


@pytest.fixture(scope="module")
def container(engine: Engine, image: str, service: dict[str, Any]) -> Iterator[str]:
    """The service's container with its privileges, except for Xen's devices, which are in Dom0 alone."""
    confinement = ["--network=host", "--read-only", f"--user={service['user']}", f"--memory={service['mem_limit']}"]
    confinement += [f"--cap-drop={capability}" for capability in service["cap_drop"]]
    confinement += [f"--security-opt={option}" for option in service["security_opt"]]
    name = engine.docker("run", "--detach", *confinement, image, *service["command"]).strip()
    try:
        yield name
    finally:
        engine.docker("rm", "--force", name)


def test_the_health_check_passes(engine: Engine, container: str, service: dict[str, Any]) -> None:
    kind, *check = service["healthcheck"]["test"]
    assert kind == "CMD"
    deadline = time.monotonic() + 30
    while True:
        try:
            engine.docker("exec", container, *check)
        except AssertionError:
            assert time.monotonic() < deadline, engine.docker("logs", container)
            time.sleep(0.5)
        else:
            break


@pytest.mark.usefixtures("container")
def test_without_xen_it_answers_and_says_so(port: int) -> None:
    assert "\nxentop_up 0.0\n" in requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text


def test_it_stops_on_sigterm(engine: Engine, container: str) -> None:
    engine.docker("stop", "--time=10", container)
    assert engine.docker("inspect", "--format={{.State.ExitCode}}", container).strip() == "0"


def test_it_has_the_library_that_xen_is_asked_through(engine: Engine, image: str) -> None:
    confinement = ("--rm", "--network=none", "--entrypoint=find")
    found = engine.docker("run", *confinement, image, "/usr/lib", "-name", "libxenstat.so.*")
    assert "libxenstat.so.4." in found
