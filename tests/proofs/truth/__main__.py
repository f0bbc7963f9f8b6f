"""Inject neighbours, and compare who is named: `make truth`, SEED=1 RESOURCE=disk EPISODES=20 COMPARE=1.

An interrupted run goes on where it stopped. Exit status 0: all bars hold; 1: one is missed; 2: it can't be tried.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from deploy import programs
from deploy.go_programs import GoProgramsError
from deploy.interruption import interruptible
from deploy.programs import ProgramsError
from lab import LabError, slow_disk
from lab.cgroups import mounted
from tests.kvm.guests import GuestError, why_not_here
from tests.proofs import CHECKOUT
from tests.proofs.truth import episodes, guests, table
from tests.proofs.truth.chain import LIMIT, WINDOW, Chain, NoWaitsError
from tests.proofs.truth.comparison import compare
from tests.proofs.truth.episodes import DiskName, Episode
from tests.proofs.truth.injection import Injection, Machine, WorkerError, build
from tests.proofs.truth.judgement import Observed, Resource, as_document, bars, from_document, judge
from tests.proofs.truth.trace import TraceError

RESULTS = CHECKOUT / ".stack" / "truth"
UNTRIED = 2  # exit status
# The disk that serves side by side is slower: so the time that requests share outside of it hardly counts.
SERVICE_SECONDS: Mapping[DiskName, float] = {"serial": 0.002, "other": 0.002, "parallel": 0.01}


class Untried(Exception):
    """This machine can't run it; the message has a remedy."""


_FAILURES = (Untried, NoWaitsError, LabError, GuestError, TraceError, WorkerError, ProgramsError, GoProgramsError)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.truth", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resource", choices=get_args(Resource), help="only episodes about this one")
    parser.add_argument("--episodes", type=int, metavar="NUMBER")
    parser.add_argument("--short", action="store_true", help="six episodes, without guests, in four minutes")
    parser.add_argument("--compare", action="store_true", help="with what other estimators say of each episode")
    given = parser.parse_args()
    kinds = episodes.of([given.resource] if given.resource else get_args(Resource))
    number = given.episodes or episodes.shares(kinds)
    plan = episodes.short(given.seed) if given.short else episodes.plan(given.seed, kinds, number)
    left_out = []
    if (reason := why_not_here()) and any(each.guests for each in plan):
        plan = [each for each in plan if not each.guests]
        left_out.append(f"Without KVM guests: {reason}.")
    if (reason := slow_disk.why_not_here()) and any(each.disks for each in plan):
        plan = [each for each in plan if not each.disks]
        left_out.append(f"Without disks: {reason}.")
    if given.compare:
        plan = [each for each in plan if not each.guests]
        left_out.append("Without KVM guests: estimators are compared in containers.")
    how = "-compared" if given.compare else ""
    results = RESULTS / f"{given.resource or 'all'}-{given.seed}-{len(plan)}{how}.jsonl"
    if given.short:
        results.unlink(missing_ok=True)
    interruptible()
    try:
        observed = run(plan, results, compares=given.compare)
    except _FAILURES as error:
        print(f"error: {error}", file=sys.stderr)
        return UNTRIED
    except KeyboardInterrupt:
        print("Interrupted; the same command goes on where it stopped.", file=sys.stderr)
        return 130
    judgement = judge(observed, LIMIT)
    if strange := len(observed) - len(judgement.episodes):
        left_out.append(f"{strange} episodes don't count: other virtual servers of this machine were in the way.")
    text = table.text(judgement, WINDOW, left_out)
    if given.compare:
        text = f"{text}\n\n{table.comparison(compare(judgement))}"
    results.with_suffix(".md").write_text(f"{text}\n")
    print(f"\n{text}\n\nAlso in {results.with_suffix('.md').relative_to(CHECKOUT)}")
    return 0 if table.holds(bars(judgement)) else 1


def run(plan: Sequence[Episode], results: Path, *, compares: bool) -> list[Observed]:
    """The outcome of each episode; `results` has the finished ones, and a complete run starts over.

    Raises `Untried`, `NoWaitsError`, and errors of cgroups, guests, loads and programs.
    """
    if os.geteuid() != 0:
        raise Untried("only root may load the program that counts waits, and make cgroups: use sudo")
    cpus = sorted(os.sched_getaffinity(0))[-2:]
    if len(cpus) < 2:
        raise Untried("it needs two CPUs: one for the victims, one for who is not in their way")
    programs.path("prometheus")  # fails with the reason if it isn't available
    observed = finished(plan, results)
    left = plan[len(observed) :]
    results.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="truth-") as name, contextlib.ExitStack() as ending:
        folder = Path(name)
        worker = build(folder)
        domains = {}
        if any(each.guests for each in left):
            domains = ending.enter_context(guests.paused(folder / "guests", cpus[episodes.VICTIMS]))
        chain = ending.enter_context(Chain(folder, guests=bool(domains)))
        devices = {
            disk: str(ending.enter_context(_disk(disk, folder)))
            for disk in sorted(frozenset[DiskName]().union(*(each.disks for each in left)))
        }
        machine = Machine(worker, cpus, mounted(), domains, devices, compares)
        file = ending.enter_context(results.open("a" if observed else "w"))
        injections = [Injection(episode, machine) for episode in left]
        for injection in injections[:1]:
            ending.callback(injection.remove)
            injection.make()
        for injection, following in zip(injections, [*injections[1:], None], strict=True):
            if following:  # prepare one episode ahead
                ending.callback(following.remove)
                following.make()
            found = injection.carry_out(chain)
            injection.remove()
            observed.append(found)
            file.write(f"{json.dumps(as_document(found))}\n")
            file.flush()
            print(table.line(found, LIMIT), flush=True)
    return observed


def _disk(name: DiskName, folder: Path) -> contextlib.AbstractContextManager[Path]:
    return slow_disk.slow_disk(folder / name, SERVICE_SECONDS[name], parallel=name == "parallel")


def finished(plan: Sequence[Episode], results: Path) -> list[Observed]:
    """The finished episodes of this plan; none if all are finished, or if the file is of another plan."""
    try:
        found = [from_document(json.loads(line)) for line in results.read_text().splitlines()]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError):  # its last line may be incomplete
        print(f"{results} is damaged: starting over", file=sys.stderr)
        return []
    same = [(each.number, each.kind, each.to_name) for each in found] == [
        (each.number, each.kind, each.to_name) for each in plan[: len(found)]
    ]
    return found if same and len(found) < len(plan) else []


if __name__ == "__main__":
    sys.exit(main())
