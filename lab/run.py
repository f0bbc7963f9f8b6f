"""`python -m lab run SCENARIO`: run a scenario's steps one after the other, and write the report."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from types import FrameType
from typing import Any, NoReturn

from rich.console import Console

from lab import LabError, calibration, machine, scenario, sensors
from lab.calibration import Scale
from lab.clients.child import Counts
from lab.clients.metrics import LATE_SECONDS, LATE_SHARE
from lab.progress import Course
from lab.scenario import Scenario, Step
from lab.stage import FOLDER, Stage
from lab.state import State
from tools import StackError, programs, stack, supervision
from tools.parts import PROMETHEUS
from tools.programs import CHECKOUT, ProgramsError

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def add_to(commands: Any) -> None:
    """Add the subcommand to argparse's; `func` of its arguments runs it and returns the exit status."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run", help="run a scenario and write its report", description=__doc__
    )
    shipped = ", ".join(sorted(file.stem for file in scenario.FOLDER.glob("*.yml")))
    parser.add_argument("scenario", metavar="SCENARIO", help=f"{shipped}, or the path of a .yml file")
    parser.add_argument("--new", action="store_true", help="start over, even if the latest run is unfinished")
    parser.set_defaults(func=main)


def main(arguments: argparse.Namespace) -> int:
    """Return the exit status: 0 if all steps are done, 1 if something failed, 130 if interrupted."""
    os.umask(0o022)  # the stack's Prometheus, which may run as another user, reads these files
    for number in STOP_SIGNALS:
        signal.signal(number, _interrupt)
    try:
        run(scenario.load(scenario.find(arguments.scenario)), new=arguments.new)
    except KeyboardInterrupt:
        print("Interrupted; everything was stopped. The same command continues where it stopped.", file=sys.stderr)
        return 130
    except (LabError, StackError, ProgramsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def run(what: Scenario, *, new: bool = False) -> None:
    """Run a scenario, or the rest of its latest run. Raises `LabError`; in any case everything is cleaned up."""
    if os.geteuid() != 0:
        raise LabError("the lab creates cgroups, which needs root: use sudo")
    console = Console()
    with _alone():
        prometheus_port = _stack()
        sensors.get()
        programs.root(programs.LAB)
        state = (None if new else State.unfinished(what)) or State.begin(what, datetime.now(UTC))
        steps = [step for step in what.steps if step.name not in state.finished]
        going_on = f", going on after {len(state.finished)} of {len(what.steps)} steps" if state.finished else ""
        console.print(f"Run {state.run}{going_on}: {what.about}", highlight=False, markup=False, soft_wrap=True)
        with (
            Stage(what, state.folder, prometheus_port) as stage,
            Course(_planned_seconds(what, steps, state), console) as course,
        ):
            stage.metrics.describe_run(state.run, what, machine.description())
            stage.await_scrapes()
            if state.scale is None:
                state.calibrated(_calibrate(what, stage, course))
            assert state.scale is not None
            stage.metrics.describe_scale(state.run, state.scale)
            for step in steps:
                _measure(what, step, state, stage, course)
        state.finish()
    _report(state.run, prometheus_port)


def _measure(what: Scenario, step: Step, state: State, stage: Stage, course: Course) -> None:
    """One step: set up, warm up, measure."""
    assert state.scale is not None
    clients = state.scale.clients(step.clients)
    course.doing(f"{step.name}: starting")
    cpu_count = stage.set_up(step.instances, step.placement)
    stage.visit(clients, seed=f"{what.seed}/{step.name}")
    course.doing(f"{step.name}: warming up")
    course.pass_time(what.warm_up, stage.check)
    course.doing(f"{step.name}: measuring")
    before, cpu_before, began = stage.counts(), stage.cpu_seconds(), time.monotonic()
    stage.metrics.begin_step(state.run, what, step, clients, cpu_count)
    try:
        course.pass_time(what.duration, stage.check)
        stage.await_step(state.run, step.name, what.duration)
        seconds = time.monotonic() - began
    finally:
        stage.metrics.end_step()
    counts, cpu_seconds = stage.counts().since(before), stage.cpu_seconds() - cpu_before
    state.finish_step(step.name)
    course.say(_summary(step, clients, counts, cpu_seconds, seconds))
    if counts.late_starts > LATE_SHARE * counts.starts:
        share = counts.late_starts / counts.starts
        course.say(
            f"  Warning: {share:.1%} of the requests were started more than {LATE_SECONDS * 1000:.0f} ms late: "
            "the clients lacked CPU, and their response times are not only the application's."
        )


def _summary(step: Step, clients: int, counts: Counts, cpu_seconds: float, seconds: float) -> str:
    answers = sum(counts.answers.values()) / seconds
    instances = "1 instance" if step.instances == 1 else f"{step.instances} instances"
    return (
        f"{step.name}: {instances} with {clients} clients each (the study's {step.clients}), {step.placement}: "
        f"{answers:.1f} requests/s, {cpu_seconds / seconds:.2f} CPU"
    )


def _calibrate(what: Scenario, stage: Stage, course: Course) -> Scale:
    """Measure the cost of a request on this machine, with one instance under light load."""
    if not what.calibration:
        return Scale()
    course.doing("calibrating: measuring the cost of a request")
    stage.set_up(1, what.placement[0])
    stage.visit(calibration.PROBING_CLIENTS, f"{what.seed}/calibration", calibration.PROBING_THINK_SECONDS)
    warm_up = what.calibration / 3
    course.pass_time(warm_up, stage.check)
    before, cpu_before = stage.counts(), stage.cpu_seconds()
    course.pass_time(what.calibration - warm_up, stage.check)
    answers = sum(stage.counts().since(before).answers.values())
    scale = calibration.scale(stage.cpu_seconds() - cpu_before, answers, what.think_time)
    course.say(
        f"A request takes {scale.request_cpu_seconds * 1000:.1f} ms of CPU here, so {scale.clients(800)} clients "
        "stand for the study's 800."
    )
    return scale


def _planned_seconds(what: Scenario, steps: list[Step], state: State) -> float:
    calibrating = what.calibration if state.scale is None else 0.0
    return calibrating + len(steps) * (what.warm_up + what.duration)


def _stack() -> int:
    """The port of the stack's Prometheus; starts the stack if it isn't running."""
    if not supervision.is_running():
        print("The stack does not run yet: make up", flush=True)
        up = subprocess.run([sys.executable, "-m", "tools.stack", "up"], cwd=CHECKOUT, check=False)
        if up.returncode:
            raise LabError("the lab needs the stack, and it did not start: see above")
    return stack.ports_in_use()[PROMETHEUS.name]


def _report(run_name: str, prometheus_port: int) -> None:
    """Write the report, and print its summary and path."""
    command = [sys.executable, "-m", "lab", "report", run_name, "--prometheus", f"http://127.0.0.1:{prometheus_port}"]
    if subprocess.run(command, cwd=CHECKOUT, check=False).returncode:
        again = f"{sys.executable} -m lab report {run_name}"
        raise LabError(f"the run is complete but has no report; to try again: {again}")


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Allow one run at a time in this checkout; runs in other checkouts are excluded by their cgroups' locks."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError("another run is active in this checkout: wait for it, or stop it with Ctrl-C") from None
        yield


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Handle all signals like Ctrl-C; only once, so that nothing disturbs the cleanup."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
