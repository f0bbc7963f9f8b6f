"""References for counts: the running kernel, cgroups made for a test, and known loads in them."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self

import pytest

from tests.e2e.running_exporter import RunningExporter
from tests.support.needs import need, need_root
from tests.support.pages import Page
from virtscope.perf.cgroups import CONTROLLER
from virtscope.toolkit.collect import SourceUnavailable
from virtscope.toolkit.hierarchy import hierarchy

LOAD = Path(__file__).with_name("load.py")


def page(exporter: RunningExporter) -> Page:
    return Page.of(exporter.address)


class Load:
    """`tests/perf/load.py`, running."""

    def __init__(self, *before: str) -> None:
        """`before` is a prefix of the command."""
        command = [*before, sys.executable, str(LOAD)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self("cpu " + str(min(os.sched_getaffinity(0))))  # also waits until it has started

    def begin(self, order: str) -> None:
        """Send an order without waiting for it."""
        assert self._process.stdin
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()

    def wait(self) -> None:
        assert self._process.stdout
        assert self._process.stdout.readline() == "done\n"

    def __call__(self, order: str) -> None:
        self.begin(order)
        self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(30)


class Cgroup:
    """A cgroup made for this test; `path` is relative to the mount point."""

    def __init__(self, root: Path, name: str) -> None:
        self.folder = root / name
        self.path = f"/{name}"
        self.folder.mkdir()

    def load(self) -> Load:
        return Load("sh", "-c", f'echo $$ > "{self.folder}/cgroup.procs"; exec "$@"', "sh")

    def cpu_seconds(self) -> float:
        """The cgroup's usage by the kernel's CPU accounting, which is independent of perf events."""
        values = dict(line.split() for line in (self.folder / "cpu.stat").read_text().splitlines())
        return int(values["usage_usec"]) / 1e6

    def remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.folder.rmdir()


Make = Callable[[str], Cgroup]
Start = Callable[..., RunningExporter]


def require_perf() -> None:
    """Skip if perf isn't installed, or may not count whole CPUs."""
    need_root("may count whole CPUs")
    need(linux_perf="perf")


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[Start]:
    """Starts exporters that count but don't profile."""
    with contextlib.ExitStack() as running:

        def start(*flags: str, environment: Mapping[str, str] | None = None) -> RunningExporter:
            started = RunningExporter(tmp_path, *flags, package="virtscope.perf", environment=environment)
            return running.enter_context(started)

        yield start


@pytest.fixture
def make_cgroup() -> Iterator[Make]:
    """Creates cgroups in the hierarchy used by perf_event, in a folder for this test."""
    try:
        root = hierarchy(Path("/proc"), CONTROLLER).root
    except SourceUnavailable as error:
        pytest.skip(str(error))
    parent = root / f"virtscope-test-{os.getpid()}"
    try:
        parent.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made in {root}: {error.strerror}; run this as root of the machine")
    made: list[Cgroup] = []

    def make(name: str) -> Cgroup:
        made.append(Cgroup(root, f"{parent.name}/{name}"))
        return made[-1]

    try:
        yield make
    finally:
        for cgroup in reversed(made):
            cgroup.remove()
        parent.rmdir()
