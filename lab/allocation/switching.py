"""The steps of dynamic allocation: caps are switched on a schedule, with samples each second."""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence

from lab import LabError, machine
from lab.allocation import containers
from lab.allocation.containers import Containers
from lab.allocation.results import NEVER, Sums, measurements
from lab.allocation.scenario import STATIC, Allocation, Step
from lab.cgroups import PARENT, cap_setting, mounted
from lab.progress import Course
from lab.stage import INSTANCES
from lab.study import Experiment, Outcome, Run, Study

SCRAPE_SECONDS = 5  # from prometheus.yml; also the rules' evaluation interval
LATE_SECONDS = 2.0  # maximum delay of a sample over ssh
BETWEEN_SECONDS = 5.0  # approximate; a step waits for the scrape of its last values, the next one for its second


@contextlib.contextmanager
def ready(what: Allocation, run: Run) -> Iterator[Experiment]:
    target = what.target
    where = {
        "virtualization": target.platform if target else "cgroup",
        "emulated": "yes" if target and target.emulated else "no",
        "target": target.host if target else "",
    }
    yield Experiment(lambda step: measure(step, what, run.course), {**machine.host(), **where}, what.steps)


def measure(step: Step, what: Allocation, course: Course) -> Outcome:
    """Measure a step in containers of its own."""
    cpus = str(max(os.sched_getaffinity(0))) if step.pinning == "pinned" else None
    of_cgroups = containers.cgroups(step.containers, cpus, step.load, INSTANCES / "allocation")
    course.doing(f"{step.name}: starting")
    with containers.guests(what.target) if what.target else of_cgroups as running:
        _write_caps(step, 0, running)
        course.doing(f"{step.name}: warming up")
        course.pass_time(what.warm_up + _until_its_second(time.time() + what.warm_up, step.repetition), running.check)
        course.doing(f"{step.name}: measuring")
        sums = switched(step, what, course, running)
    where = (what.target.platform, what.target.emulated) if what.target else ("cgroup", False)
    used = f"{sums.capacity:.3f} CPU, all else {sums.host():.3f} CPU"
    summary = f"{step.name}: {sums.tasks / sums.duration:.1f} {step.unit}/s, {used}"
    return Outcome(summary, measurements(step, sums, where[0], emulated=where[1]))


def switched(step: Step, what: Allocation, course: Course, running: Containers) -> Sums:
    """Sample each second, and write the caps on schedule, right after a sample."""
    sums, begun, planned = Sums(), time.monotonic(), what.duration
    caps = [step.cap(container, 0) for container in range(step.containers)]
    before, last_switch = running.sample(), None
    for second in range(1, planned + 1):
        course.pass_time(max(0.0, begun + second - time.monotonic()), running.check)
        now = running.sample()
        if what.target and (late := time.monotonic() - begun - second) > LATE_SECONDS:
            raise LabError(f"{what.target.host} answers too slowly: a sample, and so a switch, was {late:.1f} s late")
        sums.add(before, now, NEVER if last_switch is None else second - 1 - last_switch, caps)
        before = now
        if step.mode != STATIC and second % step.interval == 0 and second < planned:
            cpu, clock = time.thread_time(), time.monotonic()
            caps = _write_caps(step, second // step.interval, running)
            if not what.target:  # a target has the host's own commands instead
                sums.call_cpu += time.thread_time() - cpu
            sums.call_seconds += time.monotonic() - clock
            sums.calls += 1
            last_switch = second
    return sums


def plan(what: Allocation) -> list[str]:
    caps = sorted({cap for step in what.steps for cap in (step.low, step.high)})
    if what.targets:
        return [line for target in what.targets for line in containers.commands(target, caps)]
    number = max(step.containers for step in what.steps)
    name, _ = cap_setting(caps[0], mounted().version)
    values = ", ".join(f'"{cap_setting(cap, mounted().version)[1]}"' for cap in caps)
    return [
        f"On this machine, the cgroups {PARENT}/allocation-1 to -{number}, which are removed at the end:",
        f"  {name} of each is one of {values}",
        f"  in each a load, {' and '.join(what.load)}, by python3 -m lab.allocation.loads",
    ]


def planned_seconds(what: Allocation, steps: Sequence[Step]) -> float:
    return len(steps) * (what.warm_up + what.duration + BETWEEN_SECONDS)


def _write_caps(step: Step, switches: int, running: Containers) -> list[float]:
    """Write all caps for this number of switches; a control's never change."""
    caps = [step.cap(container, switches) for container in range(step.containers)]
    for container, cap in enumerate(caps):
        running.cap(container, cap)
    return caps


def _until_its_second(now: float, repetition: int) -> float:
    """Seconds from `now`, a Unix time, until a step of this repetition may begin.

    With caps switched every 10 s, events every 5 s, such as scrapes, would fall into the same second after each switch.
    So all steps of a repetition begin at the same second of the 5, and steps of the next repetition one second later.
    """
    return (repetition - now) % SCRAPE_SECONDS


STUDY = Study("allocation", Allocation.parse, plan, planned_seconds, ready, runs=lambda what: what.runs)
