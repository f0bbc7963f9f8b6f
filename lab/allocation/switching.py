"""The steps of dynamic allocation: caps are switched on a schedule, and everything is sampled each second."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from lab import machine, scrapes, targets
from lab.allocation.containers import Containers
from lab.allocation.metrics import Attempt, Metrics, Sample, Sums, since
from lab.allocation.scenario import CONTROL, DYNAMIC, STATIC, Allocation, Step
from lab.progress import Course
from lab.servers import guard
from lab.stage import FOLDER
from lab.state import State

INSTANCES = FOLDER / "instances"  # what a killed lab's guards remove
SCRAPE_SECONDS = 5  # prometheus.yml's; the rules are evaluated as often
BETWEEN_SECONDS = 5.0  # about; a step waits for the scrape of its last values, the next for its second to begin at
TICKS = os.sysconf("SC_CLK_TCK")


def carry_out(what: Allocation, state: State, console: Console, prometheus_port: int) -> None:
    """Run the steps that aren't finished. Raises `LabError`; in any case everything is cleaned up."""
    steps = [step for step in what.steps if step.name not in state.finished]
    with contextlib.ExitStack() as ending, Course(_planned_seconds(what, len(steps)), console) as course:
        guard.await_all(INSTANCES)
        metrics = Metrics()
        ending.callback(metrics.stop)
        metrics.describe_run(state.run, what.name, len(what.steps), machine.host())
        ports = {"lab": (metrics.port,)}
        ending.callback(targets.remove)
        targets.write(ports)
        scrapes.await_targets(prometheus_port, ports, lambda: None)
        switching = _Switching(what, state, metrics, course, prometheus_port)
        done = itertools.count(1)
        for (number, pinning), group in itertools.groupby(steps, key=lambda step: (step.containers, step.pinning)):
            cpus = str(max(os.sched_getaffinity(0))) if pinning == "pinned" else None
            log = state.folder / "containers.log"
            with Containers(number, cpus, INSTANCES / "allocation", log) as containers:
                for step in group:
                    summary = switching.measure(step, containers)
                    course.reach(_planned_seconds(what, next(done)))
                    course.say(summary)


@dataclass(frozen=True)
class _Switching:
    """A run's steps, one after the other."""

    what: Allocation
    state: State
    metrics: Metrics
    course: Course
    prometheus_port: int

    def measure(self, step: Step, containers: Containers) -> str:
        """Warm up with the first caps, measure, and return a summary once Prometheus has all of it."""
        _write_caps(step, 0, containers)
        self.course.doing(f"{step.name}: warming up")
        warm_up = self.what.warm_up
        self.course.pass_time(warm_up + _until_its_second(time.time() + warm_up, step.repetition), containers.check)
        self.course.doing(f"{step.name}: measuring")
        attempt = Attempt(self.state.run, self.what.name, step, int(time.time()), self.what.duration)
        try:
            sums = self._switch(attempt, containers)
            self._await_last_values(attempt, sums, containers)
        finally:
            self.metrics.clear()
        self.state.finish_step(step.name)
        return _summary(step, sums)

    def _switch(self, attempt: Attempt, containers: Containers) -> Sums:
        """Sample each second, and write the caps on schedule, right after a sample."""
        step, sums, begun = attempt.step, Sums(), time.monotonic()
        caps = [step.cap(container, 0) for container in range(step.containers)]
        before, switched = _sample(containers), None
        for second in range(1, attempt.planned + 1):
            self.course.pass_time(max(0.0, begun + second - time.monotonic()), containers.check)
            now = _sample(containers)
            sums.add(before, now, since(None if switched is None else second - 1 - switched), caps)
            before = now
            self.metrics.show(attempt, sums)
            if step.mode != STATIC and second % step.interval == 0 and second < attempt.planned:
                cpu, clock = time.thread_time(), time.monotonic()
                caps = _write_caps(step, second // step.interval, containers)
                sums.call_cpu += time.thread_time() - cpu
                sums.call_seconds += time.monotonic() - clock
                sums.calls += 1
                switched = second
        return sums

    def _await_last_values(self, attempt: Attempt, sums: Sums, containers: Containers) -> None:
        labels = ", ".join(f'{name}="{value}"' for name, value in attempt.labels.items())
        enough = sum(sums.seconds.values()) - 0.001  # floating point
        query = f"sum(lab_allocation_seconds_total{{{labels}}}) >= {enough}"
        unseen = f"not the end of step {attempt.step.name}"
        scrapes.await_samples(self.prometheus_port, lambda: query, unseen, containers.check)


def _write_caps(step: Step, switches: int, containers: Containers) -> list[float]:
    """Write all caps as they are after this number of switches; a control's never change."""
    caps = [step.cap(container, switches) for container in range(step.containers)]
    for container, cap in enumerate(caps):
        containers.cap(container, cap)
    return caps


def _until_its_second(now: float, repetition: int) -> float:
    """How long from `now`, a Unix time, until a step of this repetition may begin.

    What happens every 5 s, scrapes above all, would fall into the same second after each switch if caps are switched
    every 10 s. So a repetition's steps all begin at the same second of the 5, and the next repetition's at the next.
    """
    return (repetition - now) % SCRAPE_SECONDS


def _sample(containers: Containers) -> Sample:
    return Sample(time.monotonic(), machine_cpu_seconds(), containers.cpu_seconds(), containers.tasks())


def machine_cpu_seconds(procfs: Path = Path("/proc")) -> float:
    """CPU time used on the whole machine so far, by whoever: user, nice, system, irq and softirq of /proc/stat."""
    user, nice, system, _idle, _iowait, irq, softirq = (procfs / "stat").read_text().split(maxsplit=8)[1:8]
    return sum(map(int, (user, nice, system, irq, softirq))) / TICKS


def _planned_seconds(what: Allocation, steps: int) -> float:
    return steps * (what.warm_up + what.duration + BETWEEN_SECONDS)


def _summary(step: Step, sums: Sums) -> str:
    seconds = sum(sums.seconds.values())
    used = sum(sums.container_cpu.values()) / seconds
    others = sum(sums.machine_cpu.values()) / seconds - used
    caps = f"caps of {step.low:g} and {step.high:g}" if step.mode == DYNAMIC else f"caps of {step.low:g}"
    what = {
        STATIC: f"{caps}, never written",
        CONTROL: f"{caps}, written again every {step.interval} s",
        DYNAMIC: f"{caps}, switched every {step.interval} s",
    }[step.mode]
    return (
        f"{step.name}: {step.containers} containers, {what}: {sums.tasks / seconds:.1f} tasks/s, "
        f"{used:.3f} CPU, all else {others:.3f} CPU"
    )
