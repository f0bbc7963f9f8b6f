"""The exporters' image, built and run for real where a Docker engine is."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.compose import compose_file
from tests.live.program import free_port

CHECKOUT = Path(__file__).resolve().parents[2]
TAG = "virtscope/exporters:under-test"

# The first build downloads Debian's base image, Python and Xen's libraries.
pytestmark = pytest.mark.timeout(1200)


def docker(*arguments: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    command = ["docker", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, check=False, capture_output=True, text=True, timeout=seconds)


@pytest.fixture(scope="module")
def image() -> str:
    compose_file.require_engine()
    built = docker("build", "--network=host", "--file=exporters/Dockerfile", f"--tag={TAG}", ".", seconds=1000)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    return TAG


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def service(port: int) -> dict[str, Any]:
    """The service that compose.yaml describes."""
    return compose_file.services({"XENTOP_PORT": str(port)})["xentop-exporter"]


@pytest.fixture(scope="module")
def container(image: str, service: dict[str, Any]) -> Iterator[str]:
    """The service's container with its privileges, except for Xen's devices, which are in Dom0 alone."""
    confinement = ["--network=host", "--read-only", f"--user={service['user']}", f"--memory={service['mem_limit']}"]
    confinement += [f"--cap-drop={capability}" for capability in service["cap_drop"]]
    confinement += [f"--security-opt={option}" for option in service["security_opt"]]
    started = docker("run", "--detach", *confinement, image, *service["command"])
    assert started.returncode == 0, started.stderr
    name = started.stdout.strip()
    try:
        yield name
    finally:
        docker("rm", "--force", name)


def test_the_health_check_passes(container: str, service: dict[str, Any]) -> None:
    kind, *check = service["healthcheck"]["test"]
    assert kind == "CMD"
    deadline = time.monotonic() + 30
    while docker("exec", container, *check).returncode != 0:
        assert time.monotonic() < deadline, docker("logs", container).stderr
        time.sleep(0.5)


@pytest.mark.usefixtures("container")
def test_without_xen_it_answers_and_says_so(port: int) -> None:
    assert "\nxentop_up 0.0\n" in requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text


def test_it_stops_on_sigterm(container: str) -> None:
    docker("stop", "--time=10", container)
    assert docker("inspect", "--format={{.State.ExitCode}}", container).stdout.strip() == "0"


def test_it_has_the_library_that_xen_is_asked_through(image: str) -> None:
    found = docker("run", "--rm", "--entrypoint=find", image, "/usr/lib", "-name", "libxenstat.so.*").stdout
    assert "libxenstat.so.4." in found
