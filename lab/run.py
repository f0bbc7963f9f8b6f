"""`python -m lab run SCENARIO`: run a scenario of any study, one step after the other, and write the report."""

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from deploy import StackError, documents, supervision
from deploy.documents import FileError, nearest
from deploy.interruption import interruptible
from deploy.parts import PROMETHEUS
from deploy.plan import ports_in_use
from deploy.programs import CHECKOUT, ProgramsError
from lab import LabError, cgroups, consolidation, guard, scenario
from lab.allocation import switching
from lab.controller import experiment as controller
from lab.factors import experiment as factors
from lab.keys import Scenario, ScenarioError
from lab.metrics import RunnerMetrics
from lab.network import experiment as network
from lab.progress import Course
from lab.scrapes import Scrapes, targets_written
from lab.stage import FOLDER, INSTANCES, SENSORS
from lab.state import State
from lab.study import Run, Study
from lab.suites import running as suites

CONSOLIDATION = consolidation.STUDY
STUDIES: Mapping[str, Study] = {
    study.name: study
    for study in (CONSOLIDATION, switching.STUDY, controller.STUDY, factors.STUDY, network.STUDY, suites.STUDY)
}


def load(file: Path) -> tuple[Study, Scenario]:
    """Read a scenario of any study; raises `ScenarioError`."""
    try:
        text = documents.read_text(file)
        document = documents.parse(text, file.name)
        name = document.content.get("study") if isinstance(document.content, dict) else None
        others = [name for name in STUDIES if name != CONSOLIDATION.name]
        if name is not None and name not in others:
            problem = f"there is no study {name!r}{nearest(str(name), others)}"
            raise document.error(f"{problem}; without this key it is {CONSOLIDATION.name}", "study")
    except FileError as error:
        raise ScenarioError(str(error)) from None
    study = STUDIES[name or CONSOLIDATION.name]
    found: Scenario = study.parse(text, file.name)
    return study, found


def main(arguments: argparse.Namespace) -> int:
    """Return the exit status: 0 if all steps are done, 1 if something failed, 130 if interrupted."""
    os.umask(0o022)  # the stack's Prometheus may run as another user, and reads these files
    interruptible()
    try:
        study, what = load(scenario.find(arguments.scenario))
        if arguments.dry_run:
            print("\n".join(plan(study, what)))
        else:
            run(study, what, new=arguments.new)
    except KeyboardInterrupt:
        print("Interrupted; everything was stopped. The same command continues where it stopped.", file=sys.stderr)
        return 130
    except (LabError, StackError, ProgramsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def run(study: Study, what: Scenario, *, new: bool = False) -> None:
    """Run a scenario, or the rest of its latest run. Raises `LabError`; in any case everything is cleaned up."""
    if os.geteuid() != 0:
        raise LabError("the lab creates cgroups, which needs root: use sudo")
    console, runs = Console(), study.runs(what)
    with _alone() as lock:
        prometheus_port = _stack()
        unfinished = [] if new else [(run, state) for run in runs if (state := State.unfinished(run))]
        now = datetime.now(UTC)
        for one, state in unfinished or [(run, State.begin(run, now)) for run in runs]:
            with guard.watching(INSTANCES, SENSORS, holding=[lock]):
                _carry_out(study, one, state, console, prometheus_port)
            state.over = True
            state.save()
            _report(state.run, prometheus_port)


def _carry_out(study: Study, what: Scenario, state: State, console: Console, prometheus_port: int) -> None:
    going_on = f", going on after {len(state.finished)} of {len(what.steps)} steps" if state.finished else ""
    about = "\n".join([f"Run {state.run}{going_on}: {what.about}", *study.plan(what)])
    console.print(about, highlight=False, markup=False, soft_wrap=True)
    left = [step for step in what.steps if step.name not in state.finished]
    with contextlib.ExitStack() as ending:
        course = ending.enter_context(Course(study.planned_seconds(what, left), console))
        metrics = RunnerMetrics()
        ending.callback(metrics.stop)
        scrapes = Scrapes(prometheus_port)
        experiment = ending.enter_context(study.ready(what, Run(state, course, metrics, scrapes)))
        metrics.describe_run(state.run, study.name, what.name, len(experiment.steps), experiment.facts)
        ports = {**experiment.ports, "lab": (metrics.port, *experiment.ports.get("lab", ()))}
        ending.enter_context(targets_written(ports))
        scrapes.await_targets(ports, experiment.check)
        done = []
        for step in (step for step in experiment.steps if step.name not in state.finished):
            outcome = experiment.measure(step)
            if found := outcome.measurements:
                metrics.add(state.run, step.name, found)
                scrapes.await_measurements(state.run, step.name, found, experiment.check)
            state.finished.append(step.name)
            state.save()
            done.append(step)
            course.reach(study.planned_seconds(what, done))
            course.say(outcome.summary)


def plan(study: Study, what: Scenario) -> list[str]:
    runs, steps = len(study.runs(what)), [f"  {step.name}" for step in what.steps]
    several = " on each host" if runs > 1 else ""
    hours, minutes = divmod(max(1, round(study.planned_seconds(what, what.steps) * runs / 60)), 60)
    duration = f"{hours} h {minutes} min" if hours else f"{minutes} min"
    return [what.about, *study.plan(what), f"{len(steps)} steps{several}, about {duration}:", *steps]


def _stack() -> int:
    if not supervision.is_running():
        print("The stack does not run yet: make up", flush=True)
        up = subprocess.run([sys.executable, "-m", "deploy.stack", "up"], cwd=CHECKOUT, check=False)
        if up.returncode:
            raise LabError("the lab needs the stack, and it did not start: see above")
    return ports_in_use()[PROMETHEUS.name]


def _report(run_name: str, prometheus_port: int) -> None:
    command = [sys.executable, "-m", "lab", "report", run_name, "--prometheus", f"http://127.0.0.1:{prometheus_port}"]
    if subprocess.run(command, cwd=CHECKOUT, check=False).returncode:
        again = f"{sys.executable} -m lab report {run_name}"
        raise LabError(f"the run is complete but has no report; to try again: {again}")


@contextlib.contextmanager
def _alone() -> Iterator[int]:
    """Allow one run at a time in this checkout; the guard of a killed one holds the lock until it has cleaned up.

    Runs in other checkouts are excluded by their cgroups' locks.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    lock = cgroups.lock(FOLDER)
    try:
        yield lock
    finally:
        os.close(lock)
