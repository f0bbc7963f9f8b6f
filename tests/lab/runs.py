"""Runs of the lab in a checkout, and their leftovers."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from lab.cgroups import mounted
from tests.stack.conftest import Checkout


@contextlib.contextmanager
def running_stack(folder: Path, scenario: str) -> Iterator[Checkout]:
    """A checkout with the running stack, and this scenario as its short.yml.

    folder: parent of the checkout; its path must be short enough for supervisord's socket.
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


def start(checkout: Checkout, scenario: str = "short.yml") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lab", "run", scenario],
        cwd=checkout.folder,
        env={**checkout.environment, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def complete(checkout: Checkout, seconds: float) -> tuple[str, str]:
    """Run the scenario; return the name of the only run, and the output."""
    with start(checkout) as run:
        said, _ = run.communicate(timeout=seconds)
    assert run.returncode == 0, said
    [name] = [file.parent.name for file in lab(checkout, "runs").glob("*/state.json")]
    return name, said


def read_until(run: subprocess.Popen[str], text: str) -> str:
    """The run's output up to the line that starts with this text."""
    assert run.stdout is not None
    said = ""
    while not (line := run.stdout.readline()).startswith(text):
        assert line, said  # otherwise it has ended
        said += line
    return said + line


def left(checkout: Checkout, stack: set[int], *cgroups: str) -> list[str]:
    """Leftovers of a run: processes, these cgroups, target files, databases, mounts and loop devices."""
    processes = [command for pid, command in checkout.processes().items() if not is_of(stack, pid)]
    folders = [folder for root in mounted().roots for name in cgroups for folder in (root / "virtscope").glob(name)]
    targets = [str(file) for file in (checkout.folder / "prometheus/targets/local").glob("*-lab-*")]
    folders += [folder for name in ("instances", "sensors") for folder in lab(checkout, name).glob("*")]
    backing = [file.read_text().strip() for file in Path("/sys/block").glob("loop*/loop/backing_file")]
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    # A loop device's file has the second name once its file system is unmounted.
    of_kernel = [path for path in (*backing, *mounts) if path.startswith(str(checkout.folder)) or path == "/nbd"]
    return [*processes, *map(str, folders), *targets, *of_kernel]


def is_of(stack: set[int], pid: int) -> bool:
    """Whether a process belongs to the stack, which also starts short-lived ones, or has ended."""
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


def measured(checkout: Checkout, run: str, test: str, label: str = "environment") -> dict[str, float]:
    """The mean of each series of a test (a regular expression), by this label."""
    query = f'avg by ({label}) (last_over_time(lab_measurement{{run="{run}", test=~"{test}"}}[1h]))'
    return {series["metric"][label]: float(series["value"][1]) for series in checkout.query(query)}
