"""The report of dynamic allocation: the cost of switching caps, the containers' losses, and the delay of caps."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from lab.allocation.results import CALL_CPU, CALL_SECONDS, CAPACITY, CUT, HOST, RAISED, SWITCH, host_after
from lab.allocation.scenario import CONTROL, DYNAMIC, STATIC, TRANSACTIONAL, Step
from lab.cgroups import CAP_PERIOD
from lab.report.comparison import beyond_noise, by_step, furthest
from lab.report.page import SPREAD, Page, Section, Table, load_study, spread, table
from lab.report.recorded import Recording
from lab.report.statistics import Estimate, estimate, interval, slope
from lab.report.units import CPU_TIME, CPUS, RATE, RESPONSE, SHARE, Unit, significant

NEGLIGIBLE = 0.01  # of a CPU
# Of the machine's CPUs. Above it, switching takes CPU from other load: CPU use shows neither its cost nor a limit.
FULL = 0.95
SATURATED = 0.95  # of the one CPU that all caps add up to: below, caps weren't the only limit
_ORDER = (STATIC, CONTROL, DYNAMIC)


@dataclass(frozen=True)
class Group:
    """All steps with the same number of containers, pinning and load: they may be compared with each other.

    `steps` has each step's values by test; a case is a step with repetition 0.
    """

    name: str
    steps: Mapping[Step, Mapping[str, float]]

    @property
    def tasks(self) -> str:
        return next(iter(self.steps)).unit

    @property
    def cases(self) -> list[Step]:
        """Static and control first, then the magnitudes in ascending order; by interval."""
        found = {replace(step, repetition=0) for step in self.steps}
        return sorted(found, key=lambda case: (_ORDER.index(case.mode), -case.low, case.interval))

    def values(self, test: str, *, case: Step | None = None, mode: str = "", every: int = 0) -> list[float]:
        """A test's value in each step that has it; only for this case, mode, or interval."""
        return [
            found[test]
            for step, found in self.steps.items()
            if test in found
            and case in {None, replace(step, repetition=0)}
            and mode in {"", step.mode}
            and every in {0, step.interval}
        ]

    def mean(self, test: str, mode: str = DYNAMIC, every: int = 0) -> Estimate | None:
        return estimate(self.values(test, mode=mode, every=every))

    def loss(self, case: Step, test: str) -> Estimate | None:
        """The loss in the repetitions of a case, each relative to the static step of its own block.

        Steps of a block (an interval and a repetition) ran one after the other, so a slow drift of the machine affects
        both.
        """
        static = {(step.interval, step.repetition): of for step, of in self.steps.items() if step.mode == STATIC}
        losses = []
        for step, found in self.steps.items():
            before = static.get((step.interval, step.repetition), {}).get(test)
            if before and test in found and replace(step, repetition=0) == case:
                losses.append((before - found[test]) / before)
        return estimate(losses)

    def lost(self, test: str) -> list[tuple[Estimate, Step]]:
        switched = [case for case in self.cases if case.mode == DYNAMIC]
        return [(lost, case) for case in switched if (lost := self.loss(case, test)) is not None]

    def host_slope(self, mode: str) -> Estimate | None:
        """c of the host's CPU = static + c * f in CPU seconds per switch (or per call, for the control), f = 1 / T.

        The study's points follow this law. Static steps are at f = 0.
        """
        at = {step: 0.0 if step.mode == STATIC else 1 / step.interval for step in self.steps}
        return slope([(at[step], of[HOST]) for step, of in self.steps.items() if step.mode in {STATIC, mode}])


def groups(of: Recording) -> list[Group]:
    found: dict[tuple[str, bool, int], dict[Step, dict[str, float]]] = {}
    for step, values in by_step(of.measurements, Step.parse).items():
        found.setdefault((step.load, step.pinning != "unpinned", step.containers), {})[step] = values
    return [Group(_name(next(iter(steps))), steps) for _, steps in sorted(found.items(), key=lambda item: item[0])]


def _name(step: Step) -> str:
    return f"{step.containers} containers, {step.pinning}" + (f", {step.load}" if step.load == TRANSACTIONAL else "")


def write_up(recording: Recording) -> Page:
    study, of, known = load_study("allocation"), groups(recording), recording.info
    # This machine's number of CPUs; another host's is unknown.
    cpus = float(known["cpus"]) if known.get("cpus", "").isdecimal() and not known.get("target") else None
    overview = tuple(
        (group.name, what, *spread(found, unit.write), study["xen"].get(group.name, {}).get(what.partition(":")[0], ""))
        for group in of
        for what, found, unit in _answers(group)
    )
    sections = (("capacity", CAPACITY, CPUS), ("performance", "", RATE), ("host", HOST, CPUS))
    return Page(
        recording,
        verdict(of, cpus),
        [Section(key, _by_case(of, test, unit)) for key, test, unit in sections],
        overview=Table(("Containers", "", *SPREAD, f"{study['source']['short']}, Xen"), overview) if of else None,
        emulated=[known.get("target", "")] if known.get("emulated") == "yes" else [],
        platform=known.get("virtualization", "cgroup"),
    )


def _answers(group: Group) -> Iterator[tuple[str, Estimate | None, Unit]]:
    """The main results: the study's file has its own under the same names, up to a colon."""
    yield "Host's own CPU, static", group.mean(HOST, STATIC), CPUS
    intervals = [case.interval for case in group.cases]
    for every in sorted({min(intervals), max(intervals)}, reverse=True):
        yield f"Host's own CPU, switched every {every} s", group.mean(HOST, every=every), CPUS
    yield "CPU of a switch, from the fitted line", group.host_slope(DYNAMIC), CPU_TIME
    yield "of it the call, from the control's line", group.host_slope(CONTROL), CPU_TIME
    yield "CPU of a switch, from its first seconds", group.mean(SWITCH), CPU_TIME
    yield "CPU of writing all caps, in the lab's process", group.mean(CALL_CPU), CPU_TIME
    yield "Time that writing all caps takes", group.mean(CALL_SECONDS), RESPONSE
    for name, test in (("capacity", CAPACITY), ("performance", group.tasks)):
        if losses := group.lost(test):
            lost, case = max(losses, key=lambda one: one[0].value)
            yield f"Largest {name} overhead: {_often(case)}", lost, SHARE
    yield "Host's own CPU in the second of a switch", group.mean(host_after(0)), CPUS
    yield "Delay until a larger cap takes effect", group.mean(RAISED), RESPONSE
    yield "Delay until a smaller cap takes effect", group.mean(CUT), RESPONSE


def _by_case(of: Sequence[Group], test: str, unit: Unit) -> Table:
    """A row for each case with this test, or with its load's tasks if empty."""
    _, *more = SPREAD
    head = ("Containers", "Caps", "Interval", f"Mean, {unit.axis}", *more, "Overhead", "95 % interval of that")
    rows = []
    for group, case in [(each, case) for each in of for case in each.cases]:
        name = test or group.tasks
        if found := estimate(group.values(name, case=case)):
            lost = None if name == HOST or case.mode == STATIC else group.loss(case, name)
            caps = f"switched, [{case.low:g}, {case.high:g}]" if case.mode == DYNAMIC else case.mode
            overhead = SHARE.write(lost.value) if lost else "", interval(lost, SHARE.write)
            rows.append((group.name, caps, f"{case.interval} s", *spread(found, unit.number), *overhead))
    return table(rows, [(name, itemgetter(cell)) for cell, name in enumerate(head)])


# --- Verdict ----------------------------------------------------------------------------------------------------------


def verdict(of: Sequence[Group], cpus: float | None) -> list[str]:
    if not of:
        return ["No step was measured to its end, so there is nothing to compare."]
    costs = [f"{group.name}: {_cost(group, cpus)}" for group in of]
    return costs + [f"{group.name}: {sentence}" for group in of for sentence in _effects(group)]


def _cost(group: Group, cpus: float | None) -> str:
    used = sum(found[HOST] + found[CAPACITY] for found in group.steps.values()) / len(group.steps)
    if cpus and used > FULL * cpus:
        return (
            f"what switching the caps costs could not show, as {significant(used)} of the machine's {cpus:g} CPUs "
            "were used; repeat this with less other load."
        )
    fitted = group.host_slope(DYNAMIC)
    if fitted is None:
        return "too few steps to say what switching the caps costs."
    _, most = fitted.ends
    if most <= 0:
        return "the machine's other load was smaller the more often caps were switched, which hides what that costs."
    if fitted.differs():
        found = f"{CPU_TIME.write(fitted.value)} of CPU (95 % interval {interval(fitted, CPU_TIME.write)})"
        cost = f"switching the caps once costs {found}"
    else:
        cost = f"no cost of switching the caps was found; it is at most {CPU_TIME.write(most)} of CPU a time"
    seldom = max(1, math.ceil(most / NEGLIGIBLE))
    return f"{cost}, so that every {seldom} s or less often it is below {NEGLIGIBLE * 100:g} % of a CPU."


def _effects(group: Group) -> Iterator[str]:
    if cpu := group.mean(CALL_CPU):
        yield f"writing the caps took {CPU_TIME.write(cpu.value)} of CPU each time."
    elif seconds := group.mean(CALL_SECONDS):
        yield f"the commands for a switch took {RESPONSE.write(seconds.value)} each time."
    if (static := group.mean(CAPACITY, STATIC)) and static.value < SATURATED:
        yield (
            f"with static caps the containers used only {significant(static.value)} of the one CPU that they may use: "
            "other load took it from them, so neither what they lost by switching nor its delay can be judged."
        )
        return
    for what, test in (("CPU", CAPACITY), (group.tasks, group.tasks)):
        if losses := group.lost(test):
            lost, case = furthest(losses, 0)
            yield f"relative to static caps the containers lost {beyond_noise(lost)} of {what} with {_often(case)}."
    raised, cut = group.mean(RAISED), group.mean(CUT)
    if raised and cut:
        yield f"a larger cap took effect {_after(raised)}, a smaller one {_after(cut)}."


def _after(delay: Estimate) -> str:
    """At best within one period of the cap: in the first period a container still has the kernel's last refill."""
    _, most = delay.ends
    if most <= CAP_PERIOD or not delay.differs():
        return f"within {RESPONSE.write(max(CAP_PERIOD, most))}"
    return f"after {RESPONSE.write(max(CAP_PERIOD, delay.value))}"


def _often(case: Step) -> str:
    return f"[{case.low:g}, {case.high:g}] every {case.interval} s"
