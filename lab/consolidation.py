"""The steps of a consolidation: applications are started and loaded with clients; each load is held and measured."""

import contextlib
import math
import time
from collections.abc import Iterator, Sequence

from deploy import programs
from lab import batch, machine, measuring
from lab.cgroups import PARENT
from lab.progress import Course
from lab.prometheus import Recorded
from lab.scenario import RUNNING, THROTTLED, Consolidation, Scale, Step, calibrated
from lab.stage import Stage, get_sensors
from lab.study import Experiment, Outcome, Run, Study

STEP_SCRAPES = 3  # per step, the minimum for comparisons: see lab.measuring
SCRAPE_SECONDS = 5.0  # from prometheus.yml
# This many clients with this short think time give a steady load that any machine can handle.
PROBING_CLIENTS, PROBING_THINK_SECONDS = 10, 0.5


@contextlib.contextmanager
def ready(what: Consolidation, run: Run) -> Iterator[Experiment]:
    get_sensors()
    programs.root(programs.LAB)
    facts = {"seed": str(what.seed), **machine.description()}
    stage = Stage(what, run.state.folder)
    with stage.ready():
        yield Experiment(lambda step: _measure(what, step, run, stage), facts, what.steps, stage.ports, stage.check)


def plan(what: Consolidation) -> list[str]:
    number = max(what.instances)
    cgroup, command = (batch.BACKUP, batch.READS) if what.disk else (batch.COMPUTING, batch.COMPUTES)
    return [
        f"On this machine, the cgroups {PARENT}/auction-1-web and -db to auction-{number}-web and -db:",
        "  in each web tier Apache and PHP, in each db tier MariaDB, as nobody, with files in .stack/lab",
        *([f"  the databases on a disk in memory, which serves a request in {what.disk:g} s"] if what.disk else []),
        *([f"  in {PARENT}/{cgroup} {command}"] if {RUNNING, THROTTLED}.intersection(what.batch) else []),
        "  outside of them clients, Telegraf and cAdvisor",
        "  all are removed at the end",
    ]


def planned_seconds(what: Consolidation, steps: Sequence[Step]) -> float:
    return what.calibration + len(steps) * (what.warm_up + what.duration + 2 * SCRAPE_SECONDS)


def _measure(what: Consolidation, step: Step, run: Run, stage: Stage) -> Outcome:
    course, check, prometheus = run.course, stage.check, run.scrapes.prometheus
    if run.state.scale is None:  # once per run
        run.state.scale = calibrate(what, course, stage)
        run.state.save()
    scale = run.state.scale
    clients = scale.clients(step.clients)
    course.doing(f"{step.name}: starting")
    cpu_count = stage.set_up(step.instances, step.placement, step.batch)
    stage.visit([clients] * step.instances, seed=f"{what.seed}/{step.name}")
    course.doing(f"{step.name}: warming up")
    course.pass_time(what.warm_up, check)
    course.doing(f"{step.name}: measuring")
    before, cpu_before, began = stage.clients.answers(), stage.cpu_seconds(), time.monotonic()

    def marks() -> list[Recorded]:
        seconds = math.ceil(time.monotonic() - began)
        return prometheus.recorded(f'lab_step_info{{run="{run.state.run}", step="{step.name}"}}[{seconds}s]')

    labels = (what.name, step.name, step.instances, step.clients, step.setting, step.repetition)
    with run.metrics.measuring(run.state.run, *labels):
        course.pass_time(what.duration, check)
        # Scrapes may fail on an overloaded machine; a step without samples must not count as done.
        too_few = f"step {step.name} less than {STEP_SCRAPES} times"
        run.scrapes.await_samples(lambda: [one for one in marks() if len(one.samples) >= STEP_SCRAPES], too_few, check)
        seconds = time.monotonic() - began
    answers, cpu_seconds = stage.clients.answers() - before, stage.cpu_seconds() - cpu_before
    course.pass_time(SCRAPE_SECONDS, check)  # until Prometheus has its last samples and rules of all targets
    planned = {"step_clients": clients, "step_cpus": cpu_count, **vars(scale)}
    [series] = run.scrapes.ask(marks, check)
    span = measuring.span(series)
    found = run.scrapes.ask(lambda: measuring.measured(prometheus, step, span, planned), check)
    instances = "1 instance" if step.instances == 1 else f"{step.instances} instances"
    return Outcome(
        f"{step.name}: {instances} with {clients} clients each (the study's {step.clients}), {step.setting}: "
        f"{answers / seconds:.1f} requests/s, {cpu_seconds / seconds:.2f} CPU",
        found,
    )


def calibrate(what: Consolidation, course: Course, stage: Stage) -> Scale:
    """The cost of a request on this machine, with one instance under light load."""
    if not what.calibration:
        return Scale()
    course.doing("calibrating: measuring the cost of a request")
    stage.set_up(1, what.placement[0])
    stage.visit([PROBING_CLIENTS], f"{what.seed}/calibration", PROBING_THINK_SECONDS)
    warm_up = what.calibration / 3
    course.pass_time(warm_up, stage.check)
    before, cpu_before = stage.clients.answers(), stage.cpu_seconds()
    course.pass_time(what.calibration - warm_up, stage.check)
    answers = stage.clients.answers() - before
    scale = calibrated(stage.cpu_seconds() - cpu_before, answers, what.think_time)
    course.say(f"A request takes {scale.request_cpu_seconds * 1000:.1f} ms of CPU here.")
    return scale


STUDY = Study("consolidation", Consolidation.parse, plan, planned_seconds, ready)
