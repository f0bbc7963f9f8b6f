"""The steps of the controller: sites under loads that change by phase, with caps that are set in each interval."""

import contextlib
import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from advise.model import Predicted
from deploy import programs
from lab import LabError, consolidation, machine
from lab.clients.metrics import Ended
from lab.controller.caps import MIN_REQUESTS, Caps, Loop, Seen, equal
from lab.controller.scenario import EQUAL, NONE, ONE_NODE, PREDICTED, Controller, Step
from lab.metrics import Measurement
from lab.progress import Course
from lab.scenario import MAX_CLIENTS
from lab.servers.instance import TIERS
from lab.stage import Stage, get_sensors
from lab.study import Experiment, Outcome, Run, Study

RESPONSE, MISSED, RESERVED = "mean response", "objective missed", "CPUs reserved"
ANSWERED, FAILED, OBJECTIVE = "requests", "failed requests", "objective"
ERROR, INSIDE = "prediction error", "predictions inside"
UNITS = {
    RESPONSE: ("s", "lower"),
    MISSED: ("%", "lower"),
    RESERVED: ("CPUs", "lower"),
    ANSWERED: ("requests/s", "higher"),
    FAILED: ("%", "lower"),
    OBJECTIVE: ("s", "lower"),
    ERROR: ("%", "lower"),
    INSIDE: ("%", "higher"),
}
BETWEEN_SECONDS = 5.0  # approximate; clients are replaced, and a step waits until its values are scraped


@dataclass(frozen=True)
class Interval:
    """An interval of all sites, the CPUs reserved for them, and the responses predicted at its beginning."""

    seen: Mapping[str, Seen]
    reserved: float
    predicted: Mapping[str, Predicted]


@contextlib.contextmanager
def ready(what: Controller, run: Run) -> Iterator[Experiment]:
    get_sensors()
    programs.root(programs.LAB)
    stage = Stage(what.stage, run.state.folder)
    with stage.ready():
        facts = {"seed": str(what.seed), **machine.description()}
        yield Experiment(lambda step: _measure(what, step, run, stage), facts, what.steps, stage.ports, stage.check)


def plan(what: Controller) -> list[str]:
    return [
        *consolidation.plan(what.stage),
        *(["  caps of all tiers, equal for each site, until the end of the step"] if EQUAL in what.caps else []),
        *([f"  caps of all tiers, set every {what.interval} s"] if PREDICTED in what.caps else []),
    ]


def planned_seconds(what: Controller, steps: Sequence[Step]) -> float:
    return what.calibration + len(steps) * (what.warm_up + len(what.loads) * what.phase + BETWEEN_SECONDS)


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


class _Sites:
    """The running sites, watched from one reading of their counters to the next one."""

    def __init__(self, what: Controller, stage: Stage, course: Course, cost: float) -> None:
        """`cost`: CPU seconds of a request. Raises `LabError` if a load is too small or too large to be measured."""
        self.what = what
        self.stage = stage
        self._course = course
        per_second = [[load / cost for load in phase] for phase in what.loads]
        self._clients = [[max(1, round(rate * (what.think_time + cost))) for rate in phase] for phase in per_second]
        if (few := min(map(min, per_second)) * what.interval) < MIN_REQUESTS:
            raise LabError(
                f"the smallest load is {few:.0f} requests in an interval, fewer than {MIN_REQUESTS}: raise either"
            )
        if (most := max(map(sum, self._clients))) > MAX_CLIENTS:
            raise LabError(f"the loads need {most} clients, more than {MAX_CLIENTS}: give them a shorter think_time")
        self._latest = self._counters()

    def visit(self, phase: int, seed: str) -> None:
        """From now on they have the load of this phase. Earlier clients get their last answers first."""
        self.stage.visit(self._clients[phase], f"{self.what.seed}/{seed}/{phase}")

    def watch(self, seconds: float) -> dict[str, Seen]:
        """What has happened since the latest reading, once so much time has passed."""
        self._course.pass_time(seconds, self.stage.check)
        began, ended_then, cpu_then = self._latest
        self._latest = at, ended, cpu = self._counters()
        found = {}
        for site, used in cpu.items():
            none = Ended(0.0, 0.0, 0.0)
            requests, waited, failed = (
                now - then for now, then in zip(ended.get(site, none), ended_then.get(site, none), strict=True)
            )
            response = waited / requests if requests else math.inf
            by_tier = {tier: used[tier] - cpu_then[site][tier] for tier in used}
            found[site] = Seen(at - began, requests, response, by_tier, failed)
        return found

    def _counters(self) -> tuple[float, dict[str, Ended], dict[str, dict[str, float]]]:
        return time.monotonic(), self.stage.clients.ended(), self.stage.cpu_by_tier()


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
    for phase in range(len(what.loads)):
        if phase > 0:
            sites.visit(phase, str(step.repetition))
        predicted = dict[str, Predicted]()  # nobody knows of a new load
        for _ in range(what.intervals):
            seen = sites.watch(what.interval)
            reserved = cpus if step.caps == NONE else sum(sum(of.values()) for of in caps.values())
            yield Interval(seen, reserved, predicted)
            if step.caps == PREDICTED:
                before = caps
                loop.learn(before, seen)
                caps = loop.decide(before, seen)
                stage.cap(caps)
                predicted = loop.predict(before, seen, caps)


def values(intervals: Sequence[Interval], objective: float) -> dict[str, float]:
    """The values of a step, by test; `UNITS` has their units. Those of predictions only if there were some.

    Raises `LabError` if no request has ended.
    """
    seen = [of for each in intervals for of in each.seen.values()]
    requests = sum(of.requests for of in seen)
    if not requests:
        raise LabError("no request has ended in a whole step: read the logs of sites and clients")
    found = {
        RESPONSE: sum(of.requests * of.response for of in seen if of.requests) / requests,
        MISSED: 100 * statistics.fmean(of.response > objective for of in seen),
        RESERVED: statistics.fmean(each.reserved for each in intervals),
        ANSWERED: requests / sum(max(of.seconds for of in each.seen.values()) for each in intervals),
        FAILED: 100 * sum(of.failed for of in seen) / requests,
        OBJECTIVE: objective,
    }
    checked = [
        (predicted, response)
        for each in intervals
        for site, predicted in each.predicted.items()
        if math.isfinite(predicted.median) and math.isfinite(response := each.seen[site].response)
    ]
    if checked:
        found[ERROR] = 100 * statistics.median(abs(of.median - response) / response for of, response in checked)
        found[INSIDE] = 100 * statistics.fmean(of.low <= response <= of.high for of, response in checked)
    return found


STUDY = Study("controller", Controller.parse, plan, planned_seconds, ready)
