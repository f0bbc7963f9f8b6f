"""A machine with another release, and a checkout in its user's home."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from deploy import programs
from tests.distributions import chroots
from tests.distributions.chroots import USER, Release
from tests.distributions.machine import HOME, Machine
from tests.stack import conftest as stack

CHECKOUT = HOME / "virtscope"
NO_RELEASES = "http://127.0.0.1:1"  # unreachable


class Checkout(stack.Checkout):
    """A checkout owned by an ordinary user of another release, without access to the release sites."""

    def __init__(self, machine: Machine, release: Release) -> None:
        super().__init__(machine.home / CHECKOUT.name)
        self.machine = machine
        self.release = release
        subprocess.run(["chown", "-R", f"{USER}:{USER}", self.folder], check=True)

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        ports = {variable: str(port) for variable, port in self.ports.items()}
        return self.machine.run(command, CHECKOUT, {"VIRTSCOPE_MIRROR": NO_RELEASES, **ports, **environment})


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
