"""Instances of the lab's application, their requirements, and the stack in a checkout."""

import contextlib
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import requests

from deploy import programs
from lab import LabError
from lab.cgroups import Cgroup, Hierarchies, TierLimits, mounted
from lab.servers.instance import TIERS, Instance
from tests.ssh.sshd import Sshd
from tests.support.ports import free_port
from tests.support.program import shell_program


def get(instance: Instance, path: str) -> requests.Response:
    return requests.get(f"{instance.url}{path}", headers={"User-Agent": "-"}, timeout=30)


@contextlib.contextmanager
def reachable(
    folder: Path, *hosts: str, programs: Path | None = None, address: str = "127.0.0.1", within: Sequence[str] = ()
) -> Iterator[None]:
    """A real sshd, which the user's ssh reaches by these names of hosts, whose programs come first there.

    within: a prefix of sshd's command, which runs it where it has the address.
    """
    (folder / "ssh").mkdir()
    with pytest.MonkeyPatch.context() as patch, Sshd(folder / "ssh", address, within) as sshd:
        path = f"PATH={programs}:$PATH " if programs else ""
        for host in hosts:
            sshd.add_host(host, f'{path}sh -c "$SSH_ORIGINAL_COMMAND"')
        shell_program(folder / "bin", "ssh", f'exec {shutil.which("ssh")} -F {shlex.quote(str(sshd.config))} "$@"')
        patch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
        yield


UNLIMITED = dict.fromkeys(TIERS, TierLimits())


def name(suffix: str) -> str:
    """A name for an instance that no other run of these tests uses."""
    return f"test-{os.getpid()}-{suffix}"


def new_instance(suffix: str, folder: Path) -> Instance:
    return Instance(name(suffix), folder / suffix, {tier: free_port() for tier in TIERS})


def require_cgroups() -> Hierarchies:
    """The cgroup hierarchies; skips if cgroups can't be created."""
    if os.geteuid() != 0:
        pytest.skip("only root may create cgroups: run this as root")
    try:
        found = mounted()
        trial = Cgroup(name("trial"), found)
        trial.make(TierLimits())
        trial.remove()
    except LabError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    return found


def require_packages(*packages: programs.Packages) -> None:
    """Skip if the distribution has no such packages."""
    try:
        for each in packages:
            programs.root(each)
    except programs.ProgramsError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no packages: {error}")


def require_servers() -> None:
    """Skip if Apache and MariaDB aren't available, or can't be put into cgroups."""
    require_cgroups()
    require_packages(programs.LAB)


@pytest.fixture(scope="session")
def hierarchies() -> Hierarchies:
    return require_cgroups()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Instance, Instance]]:
    """Two instances at the same time."""
    require_servers()
    folder = tmp_path_factory.mktemp("pair")
    one, other = new_instance("a", folder), new_instance("b", folder)
    with contextlib.ExitStack() as ending:
        for each in (one, other):
            ending.callback(each.stop)
            each.start(UNLIMITED)
        yield one, other


@pytest.fixture
def instance(pair: tuple[Instance, Instance]) -> Instance:
    return pair[0]
