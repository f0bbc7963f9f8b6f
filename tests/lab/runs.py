"""Runs of the lab in a checkout, and what they leave behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from lab.cgroups import mounted
from tests.stack.conftest import Checkout
from tests.support.waiting import wait_for


class Study(NamedTuple):
    """A scenario as short as may be, and how to see where its run is.

    steps: all of them. first: those that are finished when the output has a line that starts with `shown`, and
    something that contains `works` is there.
    cgroups: a pattern for the names of those that it makes.
    """

    scenario: str
    steps: set[str]
    first: list[str]
    shown: str
    works: str
    cgroups: str
    others_left: Callable[[], list[str]] = list  # besides what is looked for with every study


@contextlib.contextmanager
def running_stack(folder: Path, scenario: str) -> Iterator[Checkout]:
    """A checkout with the stack running in it, and this scenario as its short.yml.

    folder: for the checkout; its path must leave room for supervisord's socket.
    """
    checkout = Checkout(folder / "c")
    checkout.environment["PATH"] = os.environ["PATH"]
    try:
        up = checkout.make("up")
        assert up.returncode == 0, up.stdout
        (checkout.folder / "short.yml").write_text(scenario)
        yield checkout
    finally:
        checkout.make("down")
        checkout.kill_all()


def start(checkout: Checkout, scenario: str = "short.yml", **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lab", "run", scenario],
        cwd=checkout.folder,
        env={**checkout.environment, "PYTHONUNBUFFERED": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def survive(checkout: Checkout, study: Study, run_seconds: float) -> str:
    """Kill a run, resume it, then interrupt another one; neither may leave anything behind. Returns the run's name."""
    stack = set(checkout.processes())

    def remains() -> list[str]:
        return [*left(checkout, stack, study.cgroups), *study.others_left()]

    # Killed in the middle of a step, it can't clean up; its guards do.
    with start(checkout) as run:
        said = read_until(run, study.shown)
        wait_for(lambda: any(study.works in thing for thing in remains()))
        run.send_signal(signal.SIGKILL)
    assert "going on" not in said
    # The next run removes the folder of its sensors.
    wait_for(lambda: [thing for thing in remains() if "/sensors/" not in thing], until=lambda found: not found)
    assert finished_steps(checkout) == [study.first]

    # The same command runs only the steps that are left.
    with start(checkout) as run:
        said, _ = run.communicate(timeout=run_seconds)
    assert run.returncode == 0, said
    assert f"going on after {len(study.first)} of {len(study.steps)} steps" in said
    assert f"{study.first[0]}:" not in said
    wait_for(remains, until=lambda found: not found)
    [finished] = finished_steps(checkout)
    assert len(finished) == len(study.steps)
    assert set(finished) == study.steps
    [name] = [file.parent.name for file in lab(checkout, "runs").glob("*/state.json")]
    assert (lab(checkout, "reports") / name / "report.html").is_file()

    # A completed run isn't resumed: a new one starts. Interrupted, it leaves nothing behind.
    with start(checkout) as run:
        said = read_until(run, "Run ")
        wait_for(lambda: any(study.works in thing for thing in remains()))
        os.kill(run.pid, signal.SIGINT)
        os.kill(run.pid, signal.SIGINT)  # people press Ctrl-C twice
        rest, _ = run.communicate(timeout=run_seconds)
    assert run.returncode == 130, said + rest
    assert "going on" not in said + rest
    assert "Interrupted; everything was stopped." in rest
    # A guard that is just starting may be interrupted too; then it does the rest, and ends.
    wait_for(remains, until=lambda found: not found)
    return name


def read_until(run: subprocess.Popen[str], text: str) -> str:
    """The run's output up to the line that starts with this."""
    assert run.stdout is not None
    said = ""
    while not (line := run.stdout.readline()).startswith(text):
        assert line, said  # it has ended
        said += line
    return said + line


def left(checkout: Checkout, stack: set[int], cgroup: str) -> list[str]:
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


def report(checkout: Checkout, name: str) -> str:
    return (lab(checkout, "reports") / name / "report.md").read_text()


def finished_steps(checkout: Checkout) -> list[list[str]]:
    """The finished steps of each run, oldest first."""
    return [json.loads(file.read_text())["finished"] for file in sorted(lab(checkout, "runs").glob("*/state.json"))]


def values(checkout: Checkout, query: str, label: str) -> dict[str, float]:
    """The value of each series by this label."""
    return {series["metric"][label]: float(series["value"][1]) for series in checkout.query(query)}
