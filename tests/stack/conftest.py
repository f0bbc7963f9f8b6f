"""A separate checkout in which the stack is started with a user's commands."""

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from deploy.parts import DEMO_PARTS, DOCKER_PARTS, PARTS
from tests.support.ports import free_ports
from tests.support.privileges import python_of_everybody
from tests.support.promql import PrometheusClient
from tests.support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("VIRTSCOPE_CACHE") or ROOT / ".stack" / "cache")
NOT_COPIED = shutil.ignore_patterns(".git", ".stack", ".venv", "local", "__pycache__", ".*_cache", ".hypothesis")
NO_SITE = "http://127.0.0.1:9"  # no release downloads: the tests use packages and cached Go builds
VARIABLES = {part.port_variable for part in (*PARTS, *DOCKER_PARTS, *DEMO_PARTS)}


class Checkout:
    """A copy of this checkout or a clone of a commit, with separate ports.

    `user` runs the commands; None is the user who runs the tests.
    """

    def __init__(
        self, folder: Path, user: int | None = None, ports: Iterable[int] | None = None, commit: str = ""
    ) -> None:
        self.folder = folder
        self.user = user
        if commit:
            subprocess.run(["git", "clone", "--quiet", "--no-checkout", ROOT, folder], check=True)
            subprocess.run(["git", "-C", folder, "checkout", "--quiet", commit], check=True)
        else:
            shutil.copytree(ROOT, folder, ignore=NOT_COPIED)
        self.ports = dict(zip(VARIABLES, ports or itertools.count(free_ports(len(VARIABLES))), strict=False))
        self.environment = {
            **os.environ,
            "VIRTSCOPE_CACHE": str(CACHE),
            "VIRTSCOPE_MIRROR": NO_SITE,
            **{variable: str(port) for variable, port in self.ports.items()},
        }

    def start(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command in the checkout, with stdout and stderr in `stdout`; it leads a process group, as in a
        terminal."""
        return subprocess.Popen(
            command, cwd=self.folder, env={**self.environment, **environment}, text=True, process_group=0,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            user=self.user, group=self.user, extra_groups=None if self.user is None else [],
        )  # fmt: skip

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        with self.start(*command, **environment) as process:
            output, _ = process.communicate(timeout=900)
        return subprocess.CompletedProcess(command, process.returncode, output)

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("python3", *arguments, **environment)

    def making(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return self.start("make", "--silent", *arguments, **environment)

    def make(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("make", "--silent", *arguments, **environment)

    def must(self, *arguments: str, **environment: str) -> str:
        """The output of `make ARGUMENTS`, which must succeed."""
        made = self.make(*arguments, **environment)
        assert made.returncode == 0, made.stdout
        return made.stdout

    def status(self, **environment: str) -> str:
        """The output of `make status` once there are no problems."""
        return wait_for(
            lambda: self.make("status", **environment),
            until=lambda made: made.returncode == 0,
            explain=lambda: self.make("status", **environment).stdout,
        ).stdout

    def url(self, variable: str, path: str = "") -> str:
        return f"http://127.0.0.1:{self.ports[variable]}{path}"

    def get(self, variable: str, path: str = "") -> requests.Response:
        return requests.get(self.url(variable, path), timeout=10)

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        return PrometheusClient(self.url("PROMETHEUS_PORT")).query(expression, at)

    def processes(self) -> dict[int, str]:
        """All processes of this checkout: command line by pid."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "cwd").resolve().is_relative_to(self.folder):
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if command:  # otherwise a zombie
                        found[int(process.name)] = command
        return found

    def pids(self, text: str) -> list[int]:
        """The processes whose command line contains this text."""
        return [pid for pid, command in self.processes().items() if text in command]

    def pid(self, text: str) -> int:
        """The only such process."""
        [pid] = self.pids(text)
        return pid

    def facts(self, text: str) -> dict[str, str]:
        """A process's /proc/PID/status, for example its user and capabilities."""
        status = Path("/proc", str(self.pid(text)), "status").read_text()
        return dict(line.split(":", 1) for line in status.splitlines())

    def kill_all(self) -> None:
        """Repeatedly, because supervisord and liveness restart each other."""
        while pids := self.processes():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def assert_failed(made: subprocess.CompletedProcess[str], *words: str) -> None:
    """Assert that a command has failed with a single error line, which contains these words."""
    assert made.returncode != 0, made.stdout
    assert "Traceback" not in made.stdout
    [error] = [line for line in made.stdout.splitlines() if line.startswith("error: ")]
    assert [word for word in words if word not in error] == [], error


def assert_refused(made: subprocess.CompletedProcess[str], checkout: Checkout, *words: str) -> None:
    """Like `assert_failed`, and nothing runs."""
    assert_failed(made, *words)
    assert checkout.processes() == {}


@contextlib.contextmanager
def stopped_by(number: signal.Signals, pid: int) -> Iterator[None]:
    """The process, or the group of a negative number, is stopped within the block."""
    os.kill(pid, number)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def edited(file: Path, text: str) -> Iterator[None]:
    """The file with this text; restored afterwards."""
    before = file.read_text()
    file.write_text(text)
    try:
        yield
    finally:
        file.write_text(before)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout in a path with special characters, in which nothing has been started."""
    checkout = Checkout(tmp_path_factory.mktemp("s") / "100% mine; it's")
    yield checkout
    checkout.make("down")
    checkout.kill_all()


@pytest.fixture(scope="module")
def ordinary() -> Iterator[Checkout]:
    """A checkout of an ordinary user, in which nothing has ever been run; nobody, if root runs the tests."""
    with tempfile.TemporaryDirectory(prefix="s") as folder:  # pytest's own folders are closed to other users
        nobody = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
        checkout = Checkout(Path(folder, "checkout"), user=nobody)
        if nobody is not None:
            for kind in ("packages", "wheels"):
                if (CACHE / kind).exists():
                    shutil.copytree(CACHE / kind, Path(folder, "cache", kind), symlinks=True)
            subprocess.run(["chown", "-hR", "nobody:nogroup", folder], check=True)
            usable = python_of_everybody(nobody, "import sys, ensurepip; sys.exit(sys.version_info < (3, 11))")
            checkout.environment |= {"PYTHON": usable, "VIRTSCOPE_CACHE": f"{folder}/cache", "HOME": "/nonexistent"}
        yield checkout
        checkout.make("down")
        checkout.kill_all()


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout in which nothing has ever been run. It can use other checkouts' downloads."""
    fresh = Checkout(tmp_path_factory.mktemp("s") / "a clone")  # short enough for supervisord's socket
    yield fresh
    fresh.kill_all()


@pytest.fixture
def running(checkout: Checkout) -> Checkout:
    """That checkout with the running stack."""
    checkout.must("up")
    return checkout


@pytest.fixture
def stopped(checkout: Checkout) -> Checkout:
    """That checkout with nothing running in it."""
    checkout.make("down")
    assert checkout.processes() == {}
    return checkout
