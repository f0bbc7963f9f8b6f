"""The steps of a consolidation: applications are started and loaded with clients, each load is held and measured."""

from __future__ import annotations

import time

from rich.console import Console

from lab import batch, calibration, machine, sensors
from lab.calibration import Scale
from lab.cgroups import PARENT
from lab.clients.child import Counts
from lab.clients.metrics import LATE_SECONDS, LATE_SHARE
from lab.progress import Course
from lab.scenario import RUNNING, STUDY, Scenario, Step
from lab.stage import Stage
from lab.state import State
from tools import programs


def carry_out(what: Scenario, state: State, console: Console, prometheus_port: int) -> None:
    """Run the steps that aren't finished. Raises `LabError`; in any case everything is cleaned up."""
    sensors.get()
    programs.root(programs.LAB)
    steps = [step for step in what.steps if step.name not in state.finished]
    with (
        Stage(what, state.folder, prometheus_port) as stage,
        Course(_planned_seconds(what, steps, state), console) as course,
    ):
        facts = {"seed": str(what.seed), **machine.description()}
        stage.metrics.describe_run(state.run, STUDY, what.name, len(what.steps), facts)
        stage.await_scrapes()
        if state.scale is None:
            state.calibrated(_calibrate(what, stage, course))
        assert state.scale is not None
        stage.metrics.describe_scale(state.run, state.scale)
        for step in steps:
            _measure(what, step, state, stage, course)


def plan(what: Scenario) -> list[str]:
    """What a run makes on this machine, as lines to read."""
    number = max(what.instances)
    return [
        f"On this machine, the cgroups {PARENT}/auction-1-web and -db to auction-{number}-web and -db:",
        "  in each web tier Apache and PHP, in each db tier MariaDB, as nobody, with files in .stack/lab",
        *([f"  in {PARENT}/{batch.NAME} {' '.join(batch.COMMAND)}"] if RUNNING in what.batch else []),
        "  outside of them clients, Telegraf and cAdvisor",
        "  all are removed at the end",
    ]


def planned_seconds(what: Scenario) -> float:
    """How long a whole run takes, about."""
    return what.calibration + len(what.steps) * (what.warm_up + what.duration)


def _measure(what: Scenario, step: Step, state: State, stage: Stage, course: Course) -> None:
    """One step: set up, warm up, measure."""
    assert state.scale is not None
    clients = state.scale.clients(step.clients)
    course.doing(f"{step.name}: starting")
    cpu_count = stage.set_up(step.instances, step.placement, beside_batch=step.batch == RUNNING)
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
        f"{step.name}: {instances} with {clients} clients each (the study's {step.clients}), {step.setting}: "
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
