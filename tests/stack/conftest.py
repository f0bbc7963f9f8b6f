"""A checkout of the tests' own, in which the stack is started by the same commands that a person gives."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tools.parts import DEMO_PARTS, DOCKER_PARTS, PARTS

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("VIRTSCOPE_CACHE") or ROOT / ".stack" / "cache")
NOT_COPIED = shutil.ignore_patterns(".git", ".stack", ".venv", "local", "__pycache__", ".*_cache", ".hypothesis")
NO_SITE = "http://127.0.0.1:9"  # no downloads of releases: packages do here, and what Go has built
NOBODY = 65534  # Debian's user and group nobody


class Checkout:
    """A copy of this checkout with ports of its own. `user` gives the commands; None is the user who runs the tests."""

    def __init__(self, folder: Path, user: int | None = None, ports: Iterable[int] | None = None) -> None:
        self.folder = folder
        self.user = user
        shutil.copytree(ROOT, folder, ignore=NOT_COPIED)
        variables = {part.port_variable for part in (*PARTS, *DOCKER_PARTS, *DEMO_PARTS)}
        self.ports = dict(zip(variables, ports or free_ports(), strict=False))
        self.environment = {
            **os.environ,
            "VIRTSCOPE_CACHE": str(CACHE),
            "VIRTSCOPE_MIRROR": NO_SITE,
            **{variable: str(port) for variable, port in self.ports.items()},
        }

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """`python3 ARGUMENTS` in the checkout; both outputs in `stdout`."""
        return subprocess.run(
            ["python3", *arguments],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=240,
        )

    def make(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """`make ARGUMENTS` in the checkout; both outputs in `stdout`, as a person sees them."""
        with self.making(*arguments, **environment) as process:
            output, _ = process.communicate(timeout=240)
        return subprocess.CompletedProcess(arguments, process.returncode, output)

    def making(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """The same, without waiting; it leads a process group, as in a terminal."""
        return subprocess.Popen(
            ["make", "--silent", *arguments],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
            process_group=0,
        )

    def url(self, variable: str, path: str = "") -> str:
        return f"http://127.0.0.1:{self.ports[variable]}{path}"

    def query(self, expression: str, **parameters: str) -> list[dict[str, Any]]:
        """What Prometheus answers to an instant query."""
        answer = requests.get(
            self.url("PROMETHEUS_PORT", "/api/v1/query"), params={"query": expression, **parameters}, timeout=10
        )
        result: list[dict[str, Any]] = answer.json()["data"]["result"]
        return result

    def processes(self) -> dict[int, str]:
        """All processes that run in this checkout: command line by pid."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "cwd").resolve().is_relative_to(self.folder):
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if command:  # else it has ended and nobody has asked for its status
                        found[int(process.name)] = command
        return found

    def pid(self, text: str) -> int:
        """The one process whose command line holds this text."""
        [pid] = [pid for pid, command in self.processes().items() if text in command]
        return pid

    def kill_all(self) -> None:
        """Again, as supervisord and liveness start each other."""
        while pids := self.processes():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def free_ports() -> Iterator[int]:
    """Free ports, none of them twice, nor in another process of pytest. Not of those that the kernel gives to
    connections (ip_local_port_range begins at 32768): a stopped stack's port would soon be somebody's."""
    first = 12_000 + 2_000 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for port in random.sample(range(first, first + 2_000), 2_000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port


def eventually(condition: Callable[[], bool], seconds: float = 120) -> bool:
    """Whether the condition has become true within this time; a connection refused meanwhile is not yet."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(requests.RequestException):
            if condition():
                return True
        time.sleep(0.1)
    return False


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout whose path holds what paths may hold, and in which nothing has been started."""
    checkout = Checkout(tmp_path_factory.mktemp("s") / "100% mine; it's")
    yield checkout
    checkout.make("down")
    checkout.kill_all()


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout in which nothing has ever been done. Downloads of others are at its disposal."""
    fresh = Checkout(tmp_path_factory.mktemp("s") / "checkout")  # a path short enough for supervisord's socket
    yield fresh
    fresh.kill_all()


@pytest.fixture
def running(checkout: Checkout) -> Checkout:
    """The checkout with the stack running in it."""
    up = checkout.make("up")
    assert up.returncode == 0, up.stdout
    return checkout


@pytest.fixture
def stopped(checkout: Checkout) -> Checkout:
    """The checkout with nothing running in it."""
    checkout.make("down")
    assert checkout.processes() == {}
    return checkout
