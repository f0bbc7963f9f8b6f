"""Move sites between hosts, and compare their responses with those predicted: `make placements`, SEED=1 MOVES=10.

An interrupted run goes on where it stopped. Its Prometheus's data stays in .stack/placements until the next such run.
Exit status 0: all bars hold; 1: one is missed; 2: it can't be tried.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from deploy import programs
from deploy.interruption import interruptible
from deploy.programs import ProgramsError
from lab import LabError, cgroups, guard
from lab.scenario import MIN_ANSWERS
from lab.stage import get_sensors
from tests.proofs import CHECKOUT
from tests.proofs.placements import balancers, judgement, states, table
from tests.proofs.placements.asking import Answer, ask
from tests.proofs.placements.chain import prometheus
from tests.proofs.placements.hosts import Counted, Machine, running
from tests.proofs.placements.judgement import Observed, State, as_document, from_document
from tests.proofs.placements.plan import HOSTS, Step, plan
from tests.proofs.placements.states import NoDataError
from tests.support import Prometheus

RESULTS = CHECKOUT / ".stack" / "placements"
RUNNING = RESULTS / "running"  # a guard removes what a killed run leaves here
UNTRIED = 2  # exit status
SITES, MOVES = 4, 40
# The rules' rates are over two minutes, and a scrape more.
SETTLE_SECONDS, MEASURE_SECONDS = 130.0, 50.0
PROBING_SECONDS, PROBING_CLIENTS, PROBING_THINK_SECONDS = 40.0, 10, 0.5
# The sites' objective, in CPU seconds of a request: a request's processes queue for each other even on an idle host.
OBJECTIVE_REQUESTS = 6.0
TICK_SECONDS = 1.0


class Untried(Exception):
    """This machine can't run it; the message has a remedy."""


_FAILURES = (Untried, NoDataError, LabError, ProgramsError, AssertionError)


@dataclass(frozen=True)
class Run:
    """What determines a run, and what was measured at its start: the first line of its results."""

    seed: int
    moves: int
    sites: int
    settle: float
    measure: float
    request_cpu_seconds: float = 0.0  # 0: not measured yet

    @property
    def objective_seconds(self) -> float:
        return round(OBJECTIVE_REQUESTS * self.request_cpu_seconds, 4)

    @property
    def steps(self) -> tuple[Step, ...]:
        return plan(self.seed, self.moves, [f"auction-{number}" for number in range(1, self.sites + 1)])

    def with_cost(self, request_cpu_seconds: float) -> Run:
        return Run(**{**asdict(self), "request_cpu_seconds": request_cpu_seconds})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.placements", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--moves", type=int, default=MOVES, metavar="NUMBER")
    given = parser.parse_args()
    run = Run(given.seed, given.moves, SITES, SETTLE_SECONDS, MEASURE_SECONDS)
    results = RESULTS / f"{run.seed}-{run.sites}-{run.moves}-{run.settle:g}.jsonl"
    interruptible()
    try:
        observed = carry_out(run, results)
    except _FAILURES as error:
        print(f"error: {error}", file=sys.stderr)
        return UNTRIED
    except KeyboardInterrupt:
        print("Interrupted; the same command goes on where it stopped.", file=sys.stderr)
        return 130
    about = (
        f"Seed {run.seed}, {run.sites} sites. A state was measured for {run.measure:g} s, "
        f"{run.settle:g} s after the move or the change of loads."
    )
    text = table.text(observed, [about])
    results.with_suffix(".md").write_text(f"{text}\n")
    print(f"\n{text}\n\nAlso in {results.with_suffix('.md').relative_to(CHECKOUT)}")
    return {True: 0, False: 1, None: UNTRIED}[judgement.holds(judgement.bars(observed))]


def carry_out(run: Run, results: Path) -> list[Observed]:
    """The outcome of each step; `results` has the finished ones, and a complete run starts over.

    Raises `Untried`, `NoDataError` and errors of the lab and of programs.
    """
    if os.geteuid() != 0:
        raise Untried("only root may make cgroups and count waits: use sudo")
    if len(os.sched_getaffinity(0)) < len(HOSTS):
        raise Untried("it needs two CPUs, one for each host")
    get_sensors()
    for program in ("prometheus", "node_exporter"):
        programs.path(program)
    programs.root(programs.LAB)
    run, observed = finished(run, results)
    with _alone(), contextlib.ExitStack() as ending:
        shutil.rmtree(RUNNING, ignore_errors=True)  # after a crash of the machine
        RUNNING.mkdir()
        steps = run.steps[len(observed) :]
        first = run.steps[len(observed) - 1] if observed else steps[0]  # the state before the next move
        machine = ending.enter_context(running(RUNNING, first.placement))
        print(f"{len(steps)} steps of {run.settle + run.measure:g} s are left", flush=True)
        if not run.request_cpu_seconds:
            run = run.with_cost(_probe(machine, run.seed))
        print(
            f"A request takes {run.request_cpu_seconds * 1000:.1f} ms of CPU; the objective of its mean response is "
            f"{run.objective_seconds * 1000:.0f} ms",
            flush=True,
        )
        os.sched_setaffinity(0, machine.cpus[HOSTS[1]])  # Prometheus, too, and whoever asks it
        recorded = results.with_suffix(".prometheus")
        if not observed:
            shutil.rmtree(recorded, ignore_errors=True)
        chain = ending.enter_context(prometheus(recorded, machine.targets, run.objective_seconds))
        print(f"Prometheus answers at {chain.url}", flush=True)
        course = Course(run, machine, chain)
        if observed:
            course.reach(first)
        file = ending.enter_context(results.open("w"))
        for document in (asdict(run), *map(as_document, observed)):
            file.write(f"{json.dumps(document)}\n")
        file.flush()
        for step in steps:
            found = course.take(step)
            observed.append(found)
            file.write(f"{json.dumps(as_document(found))}\n")
            file.flush()
            print(table.line(found), flush=True)
    return observed


class Course:
    """The steps of a run, each of which begins in the state that the one before it reached."""

    def __init__(self, run: Run, machine: Machine, chain: Prometheus) -> None:
        self._run = run
        self._machine = machine
        self._prometheus = chain
        self._state: State | None = None
        self._counted: Counted | None = None

    def take(self, step: Step) -> Observed:
        """Ask, then take the step, and measure what comes."""
        before = self._state if step.moved else None
        answer, source = Answer(None, ""), ""
        choices: dict[str, str] = {}
        if step.moved:
            assert self._counted is not None  # a plan begins with loads
            source = self._machine.placement[step.moved]
            answer, choices = self._ask(step.moved, source, self._counted)
        came = self.reach(step)
        target = step.placement[step.moved] if step.moved else ""
        return Observed(step.number, step.moved, source, target, step.utilisation, before, came, *answer, choices)

    def reach(self, step: Step) -> State:
        """The state that a step leads to, measured."""
        run, machine = self._run, self._machine
        machine.place(step.placement)
        if not step.moved or self._state is None:
            clients = step.clients(run.request_cpu_seconds, machine.host_cpus)
            machine.visit(clients, step.think_seconds, f"{run.seed}/{step.number}")
        self._pass_time(run.settle)
        counters = machine.counters()
        self._pass_time(run.measure)
        self._counted = machine.counted(counters)
        self._state = states.measure(self._prometheus, machine.placement, run.objective_seconds, self._counted)
        return self._state

    def _ask(self, site: str, source: str, counted: Counted) -> tuple[Answer, dict[str, str]]:
        answer = ask(site, self._prometheus.url, self._run.measure)
        hosts = states.hosts(self._prometheus, self._machine.placement, counted)
        guest = states.guest(self._prometheus, site, source, counted.ended)
        return answer, balancers.choices(hosts, guest, source)

    def _pass_time(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._machine.check()
            time.sleep(min(TICK_SECONDS, left))


def finished(run: Run, results: Path) -> tuple[Run, list[Observed]]:
    """The finished steps of a run, with its cost of a request; none if it is complete, or if the file is of another."""
    try:
        first, *lines = results.read_text().splitlines()
        header = Run(**json.loads(first))
    except FileNotFoundError:
        return run, []
    except (ValueError, TypeError):
        print(f"{results} is damaged: starting over", file=sys.stderr)
        return run, []
    found: list[Observed] = []
    with contextlib.suppress(ValueError):  # the last line may be incomplete
        found.extend(from_document(json.loads(line)) for line in lines)
    if run.with_cost(header.request_cpu_seconds) != header or len(found) >= len(run.steps):
        return run, []
    return header, found


def _probe(machine: Machine, seed: int) -> float:
    """The CPU seconds of a request, with light load on all sites."""
    machine.visit(dict.fromkeys(machine.instances, PROBING_CLIENTS), PROBING_THINK_SECONDS, f"{seed}/probe")
    time.sleep(PROBING_SECONDS)  # until caches are full
    before, cpu_before = machine.clients.answers(), machine.cpu_seconds()
    time.sleep(PROBING_SECONDS)
    answers = machine.clients.answers() - before
    if answers < MIN_ANSWERS:
        raise Untried(f"the sites gave only {answers} answers in {PROBING_SECONDS:g} s: let other programs end")
    return (machine.cpu_seconds() - cpu_before) / answers


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One run at a time in this checkout; the guard of a killed one holds the lock until it has cleaned up."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    lock = cgroups.lock(RESULTS)
    try:
        with guard.watching(RUNNING, holding=[lock]):
            yield
    finally:
        os.close(lock)


if __name__ == "__main__":
    sys.exit(main())
