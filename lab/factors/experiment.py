"""The steps of influence factors: each case under its workload, one after the other."""

import contextlib
import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deploy import programs
from lab import LabError, machine
from lab.cgroups import PARENT
from lab.environments import Base, Environment
from lab.factors import scenario, servers, workloads
from lab.factors.scenario import BASE, COMPUTING, Case, Factors, Step
from lab.factors.workloads import BENCHMARKS, Benchmark
from lab.metrics import Measurement
from lab.progress import Course
from lab.stage import INSTANCES
from lab.study import Experiment, Outcome, Run, Study

BETWEEN_SECONDS = 4.0  # approximate; cgroups are made, and a step waits until its values are scraped


@contextlib.contextmanager
def ready(what: Factors, run: Run) -> Iterator[Experiment]:
    available = sorted(os.sched_getaffinity(0))
    if what.cpus > len(available):
        raise LabError(
            f"the scenario takes {what.cpus} CPUs, and this machine has {len(available)}: change its key cpus"
        )
    programs.root(programs.BENCHMARKS)
    with contextlib.ExitStack() as ending:
        for guest in what.guests:
            ending.enter_context(guest.ready())
        yield Experiment(Cases(what, available, run.course).measure, machine.host(), what.steps)


def plan(what: Factors) -> list[str]:
    def commands(wanted: Sequence[str]) -> list[str]:
        found = (one.command(what.warm_up, what.duration) for workload in wanted for one in BENCHMARKS[workload])
        return [" ".join(command) for command in found]

    most = max(step.case.servers for step in what.steps)
    of_guests = {step.case for step in what.steps}
    computing = [workload for workload in what.workloads if workload in COMPUTING]
    return [
        f"On this machine, the cgroups {PARENT}/factors-1 to -{most} on its last {what.cpus} CPUs, removed at the end:",
        *(f"  in each: {command}" for command in commands(what.workloads)),
        *([f"  in {PARENT}/factors-peers: iperf3 --server, on loopback"] if "network" in what.workloads else []),
        *(
            f"On {one.ssh}: {command}"
            for one in what.guests
            if scenario.of_guest(one) in of_guests
            for command in commands(computing)
        ),
    ]


def planned_seconds(what: Factors, steps: Sequence[Step]) -> float:
    return sum(workloads.seconds(step.workload, what.warm_up, what.duration) + BETWEEN_SECONDS for step in steps)


@dataclass(frozen=True)
class Cases:
    """Steps on this machine, with these CPUs."""

    what: Factors
    available: Sequence[int]
    course: Course

    def measure(self, step: Step) -> Outcome:
        self.course.doing(f"{step.name}: measuring")
        found = [
            measurement
            for benchmark in BENCHMARKS[step.workload]
            for measurement in self._measured(step, benchmark, self._values(step.case, benchmark))
        ]
        values = (f"{one.environment}: {one.test} {one.value:.4g} {one.unit}" for one in found)
        return Outcome(f"{step.name}: {', '.join(values)}", found)

    def _measured(self, step: Step, benchmark: Benchmark, values: Sequence[float]) -> Iterator[Measurement]:
        where, case = self._where(step.case), step.case
        of = {case.name: statistics.fmean(values)}
        if case.weights:
            of |= {case.of_server(server): value for server, value in enumerate(values)}
        platform = (where.virtualization, where.emulated) if where else ("cgroup", False)
        for name, value in of.items():
            yield Measurement(name, *platform, benchmark.name, benchmark.unit, "higher", step.repetition, value)

    def _where(self, case: Case) -> Environment | None:
        if case.elsewhere == BASE:
            return Base(str(self.available[-1]))
        return next((guest for guest in self.what.guests if scenario.of_guest(guest) == case), None)

    def _values(self, case: Case, benchmark: Benchmark) -> list[float]:
        command = benchmark.command(self.what.warm_up, self.what.duration)
        others = ",".join(map(str, self.available[: -case.cpus] or self.available))
        with contextlib.ExitStack() as ending:
            commands = [command] * case.servers
            if benchmark.has_peer:
                ports = ending.enter_context(servers.peers(case.servers, others, INSTANCES / "factors-peers"))
                commands = [[*command, str(port)] for port in ports]
            return [benchmark.read(text) for text in self._said(case, commands)]

    def _said(self, case: Case, commands: Sequence[list[str]]) -> list[str]:
        seconds = self.what.warm_up + self.what.duration + workloads.TAIL
        where = self._where(case)
        if where is None:
            cpus = list(self.available[-case.cpus :])
            return servers.side_by_side(
                case, cpus, INSTANCES / "factors", commands, seconds=seconds, pass_time=self.course.pass_time
            )
        [command] = commands
        with servers.own_folder(INSTANCES / "factors") if case.elsewhere == BASE else contextlib.nullcontext() as state:
            there = servers.enclosed(state, command) if state else command
            return [where.run(there, 2 * seconds + servers.START_SECONDS)]


STUDY = Study("factors", Factors.parse, plan, planned_seconds, ready)
