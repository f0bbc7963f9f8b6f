"""The steps of the controller: sites under loads that change by phase, with caps that are set in each interval."""

import contextlib
import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from advise.model import Predicted
from deploy import programs
from lab import consolidation, machine
from lab.controller.caps import Caps, Loop, Seen, equal
from lab.controller.scenario import NONE, ONE_NODE, PREDICTED, Controller, Step
from lab.metrics import Measurement
from lab.progress import Course
from lab.servers.instance import TIERS
from lab.stage import Stage, get_sensors
from lab.study import Experiment, Outcome, Run, Study

RESPONSE, MISSED, RESERVED, SERVED, OBJECTIVE = (
    *("mean response", "objective missed", "CPUs reserved", "requests", "objective"),
)
ERROR, INSIDE = "prediction error", "predictions inside"
UNITS = {
    RESPONSE: ("s", "lower"),
    MISSED: ("%", "lower"),
    RESERVED: ("CPUs", "lower"),
    SERVED: ("requests/s", "higher"),
    OBJECTIVE: ("s", "lower"),
    ERROR: ("%", "lower"),
    INSIDE: ("%", "higher"),
}
BETWEEN_SECONDS = 5.0  # approximate; clients are replaced, and a step waits until its values are scraped
SAME_LOAD = 0.3  # by so much, relatively, requests may differ from those that a prediction is for


@dataclass(frozen=True)
class Interval:
    """What was seen of each site, the CPUs reserved for all of them, and what had been predicted for which requests."""

    seen: Mapping[str, Seen]
    reserved: float
    predicted: Mapping[str, tuple[Predicted, float]]


@contextlib.contextmanager
def ready(what: Controller, run: Run) -> Iterator[Experiment]:
    get_sensors()
    programs.root(programs.LAB)
    stage = Stage(what.stage, run.state.folder)
    with stage.ready():
        facts = {"seed": str(what.seed), **machine.description()}
        yield Experiment(lambda step: _measure(what, step, run, stage), facts, what.steps, stage.ports, stage.check)


def plan(what: Controller) -> list[str]:
    caps = [f"  caps of all tiers, set every {what.interval} s, none at the end of each step"]
    return [*consolidation.plan(what.stage), *(caps if PREDICTED in what.caps else [])]


def planned_seconds(what: Controller, steps: Sequence[Step]) -> float:
    of_step = what.warm_up + len(what.loads) * what.intervals * what.interval + BETWEEN_SECONDS
    return what.calibration + len(steps) * of_step


def _measure(what: Controller, step: Step, run: Run, stage: Stage) -> Outcome:
    if run.state.scale is None:  # once per run
        run.state.scale = consolidation.calibrate(what.stage, run.course, stage)
        run.state.save()
    cost = run.state.scale.request_cpu_seconds
    objective = what.objective * cost
    run.course.doing(f"{step.name}: starting")
    cpus = stage.set_up(what.sites, ONE_NODE)
    run.course.doing(f"{step.name}: measuring")
    try:
        found = values(list(_intervals(step, _Sites(what, stage, run.course, cost), cpus, objective)), objective)
    finally:
        stage.cap(None)
    measurements = [
        Measurement(step.environment, "cgroup", False, test, *UNITS[test], step.repetition, value)
        for test, value in found.items()
    ]
    return Outcome(
        f"{step.name}: mean response {found[RESPONSE] * 1000:.0f} ms, objective of {objective * 1000:.0f} ms missed in "
        f"{found[MISSED]:.0f} % of the time, {found[RESERVED]:.2f} CPUs reserved",
        measurements,
    )


@dataclass(frozen=True)
class _Sites:
    """The running sites; `cost` is the CPU seconds of a request."""

    what: Controller
    stage: Stage
    course: Course
    cost: float

    def visit(self, phase: int, seed: str) -> None:
        """From now on they have the load of this phase."""
        loads = self.what.loads[phase]
        clients = [max(1, round(load / self.cost * (self.what.think_time + self.cost))) for load in loads]
        self.stage.visit(clients, f"{self.what.seed}/{seed}/{phase}")

    def watch(self, seconds: float) -> dict[str, Seen]:
        """What is seen of each in a time that passes."""
        began, waits, cpu = time.monotonic(), self.stage.clients.waits(), self.stage.cpu_by_tier()
        self.course.pass_time(seconds, self.stage.check)
        passed, waits_then, cpu_then = time.monotonic() - began, self.stage.clients.waits(), self.stage.cpu_by_tier()
        found = {}
        for site, used in cpu_then.items():
            (before, waited), (after, waited_then) = (of.get(site, (0.0, 0.0)) for of in (waits, waits_then))
            requests = after - before
            response = (waited_then - waited) / requests if requests else math.inf
            found[site] = Seen(passed, requests, response, {tier: used[tier] - cpu[site][tier] for tier in used})
        return found


def _intervals(step: Step, sites: _Sites, cpus: int, objective: float) -> Iterator[Interval]:
    """Each interval of a step, measured; caps are set in between."""
    what, stage = sites.what, sites.stage
    sites.visit(0, str(step.repetition))
    warm = sites.watch(what.warm_up)
    of_tiers = {tier: sum(seen.cpu[tier] for seen in warm.values()) for tier in TIERS}
    caps: Caps = dict.fromkeys(warm, equal(of_tiers, what.sites, cpus))
    loop = Loop(cpus, objective, caps)
    if step.caps != NONE:
        stage.cap(caps)
    predicted = dict[str, tuple[Predicted, float]]()
    for phase in range(len(what.loads)):
        if phase > 0:
            sites.visit(phase, str(step.repetition))
        for _ in range(what.intervals):
            seen = sites.watch(what.interval)
            reserved = cpus if step.caps == NONE else sum(sum(of.values()) for of in caps.values())
            yield Interval(seen, reserved, predicted)
            if step.caps == PREDICTED:
                loop.learn(caps, seen)
                caps = loop.decide(caps, seen)
                stage.cap(caps)
                predicted = {site: (found, seen[site].rate) for site, found in loop.predict(caps, seen).items()}


def values(intervals: Sequence[Interval], objective: float) -> dict[str, float]:
    """The values of a step, by test; `UNITS` has their units. Those of predictions only if there were some."""
    seen = [of for each in intervals for of in each.seen.values()]
    requests = sum(of.requests for of in seen)
    found = {
        RESPONSE: sum(of.requests * of.response for of in seen if of.requests) / requests if requests else math.inf,
        MISSED: 100 * statistics.fmean(of.response > objective for of in seen),
        RESERVED: statistics.fmean(each.reserved for each in intervals),
        SERVED: requests / sum(max(of.seconds for of in each.seen.values()) for each in intervals),
        OBJECTIVE: objective,
    }
    checked = [
        (predicted, each.seen[site].response)
        for each in intervals
        for site, (predicted, rate) in each.predicted.items()
        if abs(each.seen[site].rate / rate - 1) <= SAME_LOAD
    ]
    if checked:
        found[ERROR] = 100 * statistics.median(abs(of.median - response) / response for of, response in checked)
        found[INSIDE] = 100 * statistics.fmean(of.low <= response <= of.high for of, response in checked)
    return found


STUDY = Study("controller", Controller.parse, plan, planned_seconds, ready)
