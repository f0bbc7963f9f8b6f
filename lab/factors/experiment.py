"""The steps of influence factors: each case under its workload, one after the other."""

import contextlib
import os
import statistics
from collections.abc import Iterator, Sequence

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
        raise LabError(f"this machine has {len(available)} CPUs, not {what.cpus}: change the scenario's key cpus")
    programs.root(programs.BENCHMARKS)
    with contextlib.ExitStack() as ending:
        for guest in what.guests:
            ending.enter_context(guest.ready())
        yield Experiment(lambda step: measure(step, what, available, run.course), machine.host(), what.steps)


def plan(what: Factors) -> list[str]:
    most, cases = max(step.case.servers for step in what.steps), {step.case for step in what.steps}
    commands = [
        (" ".join(one.command(what.warm_up, what.duration)), workload in COMPUTING)
        for workload in what.workloads
        for one in BENCHMARKS[workload]
    ]
    guests = [guest.ssh for guest in what.guests if scenario.of_guest(guest) in cases]
    return [
        f"On this machine, the cgroups {PARENT}/factors-1 to -{most} on its last {what.cpus} CPUs, removed at the end:",
        *(f"  in each: {command}" for command, _ in commands),
        *([f"  in {PARENT}/factors-peers: iperf3 --server, on loopback"] if "network" in what.workloads else []),
        *(f"On {guest}: {command}" for guest in guests for command, computes in commands if computes),
    ]


def planned_seconds(what: Factors, steps: Sequence[Step]) -> float:
    return sum(workloads.seconds(step.workload, what.warm_up, what.duration) + BETWEEN_SECONDS for step in steps)


def measure(step: Step, what: Factors, available: Sequence[int], course: Course) -> Outcome:
    """Measure a step; the machine has these CPUs."""
    course.doing(f"{step.name}: measuring")
    case, found = step.case, list[Measurement]()
    where = _where(case, what)
    platform = (where.virtualization, where.emulated) if where else ("cgroup", False)
    for benchmark in BENCHMARKS[step.workload]:
        values = [benchmark.read(text) for text in _said(case, benchmark, what, available, course)]
        of = {case.name: statistics.fmean(values)}
        if case.weights:
            of |= {case.of_server(server): value for server, value in enumerate(values)}
        found += [
            Measurement(name, *platform, benchmark.name, benchmark.unit, "higher", step.repetition, value)
            for name, value in of.items()
        ]
    values_said = (f"{one.environment}: {one.test} {one.value:.4g} {one.unit}" for one in found)
    return Outcome(f"{step.name}: {', '.join(values_said)}", found)


def _where(case: Case, what: Factors) -> Environment | None:
    """Where a case runs; None for virtual servers."""
    if case.elsewhere == BASE:
        return Base()
    return next((guest for guest in what.guests if scenario.of_guest(guest) == case), None)


def _said(case: Case, benchmark: Benchmark, what: Factors, available: Sequence[int], course: Course) -> list[str]:
    """What the benchmark prints in each virtual server of a case, or where the case is."""
    seconds, where = what.warm_up + what.duration + workloads.TAIL, _where(case, what)
    with contextlib.ExitStack() as ending:
        commands = [benchmark.command(what.warm_up, what.duration)] * case.servers
        if benchmark.has_peer:
            others = ",".join(map(str, available[: -case.cpus] or available))
            ports = ending.enter_context(servers.peers(case.servers, others, INSTANCES / "factors-peers"))
            commands = [[*command, str(port)] for command, port in zip(commands, ports, strict=True)]
        if where is None:
            cpus, folder = list(available[-case.cpus :]), INSTANCES / "factors"
            return servers.side_by_side(case, cpus, folder, commands, seconds=seconds, pass_time=course.pass_time)
        [command] = commands
        if case.elsewhere == BASE:
            command = servers.enclosed(ending.enter_context(servers.own_folder(INSTANCES / "factors")), command)
        run = ending.enter_context(where.ready(str(available[-1])))
        return [run(command, 2 * seconds + servers.START_SECONDS)]


STUDY = Study("factors", Factors.parse, plan, planned_seconds, ready)
