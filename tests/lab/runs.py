"""Runs of the lab in a checkout, and what they leave behind."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from lab.cgroups import mounted
from tests.stack.conftest import Checkout


@contextlib.contextmanager
def running_stack(folder: Path, scenario: str) -> Iterator[Checkout]:
    """A checkout with the stack running in it, and this scenario as its short.yml.

    folder: for the checkout; its path must leave room for supervisord's socket.
    """
    checkout = Checkout(folder / "c")
    try:
        up = checkout.make("up")
        assert up.returncode == 0, up.stdout
        (checkout.folder / "short.yml").write_text(scenario)
        yield checkout
    finally:
        checkout.make("down")
        checkout.kill_all()


def start(checkout: Checkout, scenario: str = "short.yml") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lab", "run", scenario],
        cwd=checkout.folder,
        env={**checkout.environment, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read_until(run: subprocess.Popen[str], text: str) -> str:
    """The run's output up to the line that starts with this."""
    assert run.stdout is not None
    said = ""
    while not (line := run.stdout.readline()).startswith(text):
        assert line, said  # it has ended
        said += line
    return said + line


def left(checkout: Checkout, stack: set[int], cgroup: str = "auction-1-*") -> list[str]:
    """What a run has left behind: processes, its first cgroup, target files, databases."""
    processes = [command for pid, command in checkout.processes().items() if not is_of(stack, pid)]
    cgroups = [str(folder) for root in mounted().roots for folder in (root / "virtscope").glob(cgroup)]
    targets = [str(file) for file in (checkout.folder / "prometheus/targets/local").glob("*-lab-*")]
    folders = [str(folder) for name in ("instances", "sensors") for folder in lab(checkout, name).glob("*")]
    return [*processes, *cgroups, *targets, *folders]


def is_of(stack: set[int], pid: int) -> bool:
    """Whether a process belongs to the stack, which also starts short-lived ones, or has ended meanwhile."""
    while pid not in stack:
        try:
            pid = int(Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return True
        if pid <= 1:
            return False
    return True


def lab(checkout: Checkout, name: str) -> Path:
    return checkout.folder / ".stack" / "lab" / name


def finished_steps(checkout: Checkout) -> list[list[str]]:
    """The finished steps of each run, oldest first."""
    return [json.loads(file.read_text())["finished"] for file in sorted(lab(checkout, "runs").glob("*/state.json"))]
