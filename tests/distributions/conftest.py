"""A machine with another release, and a checkout in its user's home."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest
import requests

from deploy import programs
from deploy.parts import DEMO_PARTS, OVERVIEW, PARTS
from tests.console.page import Page
from tests.distributions import chroots
from tests.distributions.chroots import USER, Release
from tests.distributions.machine import HOME, Machine
from tests.stack.conftest import NOT_COPIED, ROOT
from tests.support.ports import free_port
from tests.support.promql import PrometheusClient

CHECKOUT = HOME / "virtscope"
NO_RELEASES = "http://127.0.0.1:1"  # unreachable


class Checkout:
    """A checkout owned by an ordinary user of another release, without access to the release sites."""

    def __init__(self, machine: Machine, release: Release) -> None:
        self.machine = machine
        self.release = release
        self.outside = machine.home / CHECKOUT.name  # path as seen by the tests
        shutil.copytree(ROOT, self.outside, ignore=NOT_COPIED)
        subprocess.run(["chown", "-R", f"{USER}:{USER}", self.outside], check=True)
        self.ports = {part.port_variable: str(free_port()) for part in {*PARTS, *DEMO_PARTS}}
        self.prometheus = PrometheusClient(f"http://127.0.0.1:{self.ports['PROMETHEUS_PORT']}")

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the checkout; stdout and stderr in `stdout`."""
        return self.machine.run(command, CHECKOUT, {"VIRTSCOPE_MIRROR": NO_RELEASES, **self.ports, **variables})

    def must(self, target: str) -> str:
        """The output of `make TARGET`, which must succeed."""
        made = self.run("make", "--silent", target)
        assert made.returncode == 0, made.stdout
        return made.stdout

    def overview(self) -> Page:
        """The console page; AssertionError if this Prometheus refuses it."""
        answer = requests.get(f"{self.prometheus.url}{OVERVIEW}", timeout=60)
        assert answer.status_code == 200, answer.text
        return Page(answer.text)


@pytest.fixture(scope="module")
def checkout(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout on a machine with the parametrized release. Nothing has been started in it."""
    release: Release = request.param
    root = chroots.root_or_skip(release)
    cache = programs.cache("chroots") / f"{release.suite}.downloads"
    home = tmp_path_factory.mktemp("home")
    try:
        with Machine(root, home, cache) as machine:
            yield Checkout(machine, release)
    finally:
        shutil.rmtree(home)  # a gigabyte, which pytest would keep for three runs
