"""The report of dynamic allocation: what a switch of caps costs, what the containers lose, how soon it takes effect."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lab.allocation.results import (
    CALL_CPU,
    CALL_SECONDS,
    CAPACITY,
    CUT,
    FOLLOWED,
    HOST,
    RAISED,
    SETTLED_HOST,
    SWITCH,
    host_after,
)
from lab.allocation.scenario import COMPUTATIONAL, CONTROL, DYNAMIC, STATIC, TRANSACTIONAL, Step
from lab.cgroups import CAP_PERIOD
from lab.report.charts import Curve, Panel, Point, XAxis, draw
from lab.report.page import SPREAD, Builder, Page, Study, Table, count, every_value, interval, spread
from lab.report.recorded import Recording
from lab.report.statistics import Estimate, Line, estimate, line, slope_through_origin
from lab.report.units import CPU_TIME, CPUS, RATE, RESPONSE, SHARE, Unit, significant

NEGLIGIBLE = 0.01  # of a CPU
# Of the machine's CPUs. Beyond, what a switch costs is taken from other load: CPU use can't rise, nor show a limit.
FULL = 0.95
SATURATED = 0.95  # of the one CPU that all caps add up to: below, caps weren't all that limited the containers
EMULATED = "Measured on an emulated machine: this proves that it works, and its values are no more than that."
ONE_INTERVAL = "A chart needs more than one interval; the table has the numbers."
_ORDER = (STATIC, CONTROL, DYNAMIC)

Block = tuple[int, int]
"""Interval and repetition of steps that ran one after the other."""


@dataclass(frozen=True)
class Group:
    """All steps with this number of containers, pinned or not, and this load, which may be compared with each other.

    `steps` has the values of each by test; a case is a step with repetition 0.
    """

    containers: int
    pinning: str
    load: str
    steps: Mapping[Step, Mapping[str, float]]

    @property
    def name(self) -> str:
        """In words."""
        load = f", {TRANSACTIONAL}" if self.load == TRANSACTIONAL else ""
        return f"{self.containers} containers, {self.pinning}{load}"

    @property
    def tasks(self) -> str:
        """The test of what its containers finish."""
        return next(iter(self.steps)).unit

    @property
    def cases(self) -> list[Step]:
        """Static and control first, then the magnitudes from the smallest on; by interval."""
        found = {replace(step, repetition=0) for step in self.steps}
        return sorted(found, key=lambda case: (_ORDER.index(case.mode), -case.low, case.interval))

    @property
    def intervals(self) -> list[int]:
        """Of all steps."""
        return sorted({step.interval for step in self.steps})

    def values(self, test: str, *, case: Step | None = None, mode: str = "", every: int = 0) -> list[float]:
        """A test of each step that has it, of this case, in this mode, or switched this often."""
        return [
            found[test]
            for step, found in self.steps.items()
            if test in found
            and case in {None, replace(step, repetition=0)}
            and mode in {"", step.mode}
            and every in {0, step.interval}
        ]

    def losses(self, case: Step, test: str) -> list[float]:
        """What each repetition of a case lost, relative to the static step of its own block.

        Steps of a block ran one after the other, so that a slow drift of the machine is in both.
        """
        static = {_block(step): found.get(test) for step, found in self.steps.items() if step.mode == STATIC}
        return [
            (before - found[test]) / before
            for step, found in self.steps.items()
            if replace(step, repetition=0) == case and test in found and (before := static.get(_block(step)))
        ]

    def lost(self, test: str) -> list[tuple[Step, Estimate]]:
        """What each switched case lost, if it can be compared."""
        switched = [case for case in self.cases if case.mode == DYNAMIC]
        return [(case, lost) for case in switched if (lost := estimate(self.losses(case, test))) is not None]

    def host_line(self, mode: str) -> Line | None:
        """The host's CPU = static + c * f; c in CPU seconds per switch (or per call, of the control), f = 1 / T.

        The law is the one that the study's points follow. Static steps are at f = 0.
        """
        return line(
            [
                (0.0 if step.mode == STATIC else 1 / step.interval, found[HOST])
                for step, found in self.steps.items()
                if step.mode in {STATIC, mode}
            ]
        )

    @property
    def reallocation(self) -> Estimate | None:
        """The part of c beyond the call, in CPU seconds: what switched steps used more than the control of their block.

        Over magnitudes the mean is taken first, as they are compared with the same control.
        """
        hosts: dict[tuple[str, Block], list[float]] = defaultdict(list)
        for step, found in self.steps.items():
            hosts[step.mode, _block(step)].append(found[HOST])
        return slope_through_origin(
            [
                (1 / block[0], sum(switched) / len(switched) - hosts[CONTROL, block][0])
                for (mode, block), switched in sorted(hosts.items())
                if mode == DYNAMIC and (CONTROL, block) in hosts
            ]
        )


def groups(of: Recording) -> list[Group]:
    """The steps by what they may be compared with."""
    found: dict[tuple[int, str, str], dict[Step, dict[str, float]]] = {}
    for one in of.measurements:
        if step := Step.parse(one.environment, one.repetition):
            steps = found.setdefault((step.containers, step.pinning, step.load), {})
            steps.setdefault(step, {})[one.test] = one.value
    order = sorted(found, key=lambda key: (key[2], key[1] != "unpinned", key))
    return [Group(*key, found[key]) for key in order]


def _block(step: Step) -> Block:
    return step.interval, step.repetition


def write_up(recording: Recording) -> Page:
    """The report of a run."""
    study, of, known = Study.load("allocation"), groups(recording), recording.info
    build = Builder(study, recording)
    # How many CPUs this machine has; those of another host aren't known.
    cpus = float(known["cpus"]) if known.get("cpus", "").isdecimal() and not known.get("target") else None
    return build.page(
        verdict(of, cpus, emulated=known.get("emulated") == "yes"),
        (
            build.section("capacity", _overheads(of, CAPACITY), _chart_of_losses(of, CAPACITY), absent=ONE_INTERVAL),
            build.section("performance", _overheads(of, None), _chart_of_losses(of, None), absent=ONE_INTERVAL),
            build.section("host", _host_table(of), _chart_of_host(of), absent=ONE_INTERVAL),
            build.section("switch", _switches(of), _chart_after(of), absent=ONE_INTERVAL),
        ),
        every_value(recording.measurements),
        overview=_overview(of, study),
        differences=known.get("virtualization", "cgroup"),
    )


# --- Verdict ----------------------------------------------------------------------------------------------------------


def verdict(of: Sequence[Group], cpus: float | None, *, emulated: bool = False) -> list[str]:
    """For readers who read no further: the cost of a switch first. `cpus` is how many the machine has, if known."""
    if not of:
        return ["No step was measured to its end, so there is nothing to compare."]
    found = [EMULATED] if emulated else []
    found += [f"{group.name}: {_cost(group, cpus)}" for group in of]
    for group in of:
        disturbed = _disturbed(group)
        judged = (disturbed,) if disturbed else (_lost(group), _effect(group))
        found += [f"{group.name}: {sentence}" for sentence in (_writing(group), *judged) if sentence]
    return found


def _cost(group: Group, cpus: float | None) -> str:
    used = sum(found[HOST] + found[CAPACITY] for found in group.steps.values()) / len(group.steps)
    if cpus and used > FULL * cpus:
        return (
            f"what switching the caps costs could not show, as {significant(used)} of the machine's {cpus:g} CPUs "
            "were used; repeat this with less other load."
        )
    fitted = group.host_line(DYNAMIC)
    slope = fitted.slope if fitted else None
    most = slope.high if slope else None
    if slope is None or most is None:
        return "too few steps to say what switching the caps costs."
    if most <= 0:
        return (
            "the rest of the machine used less CPU the more often caps were switched, which no cost explains: its "
            "other load changed meanwhile."
        )
    if slope.differs():
        found = f"{CPU_TIME.write(slope.value)} of CPU (95 % interval {interval(slope, CPU_TIME.write)})"
        cost = f"switching the caps once costs {found}"
    else:
        cost = f"no cost of switching the caps was found; it is at most {CPU_TIME.write(most)} of CPU a time"
    seldom = max(1, math.ceil(most / NEGLIGIBLE))
    return f"{cost}, so that every {seldom} s or less often it is below {NEGLIGIBLE * 100:g} % of a CPU."


def _disturbed(group: Group) -> str:
    static = estimate(group.values(CAPACITY, mode=STATIC))
    if static is None or static.value >= SATURATED:
        return ""
    return (
        f"with static caps the containers used only {significant(static.value)} of the one CPU that they may use: "
        "other load took it from them, so neither what they lost by switching nor its delay can be judged."
    )


def _writing(group: Group) -> str:
    if cpu := estimate(group.values(CALL_CPU, mode=DYNAMIC)):
        return f"writing the caps took {CPU_TIME.write(cpu.value)} of CPU each time."
    seconds = estimate(group.values(CALL_SECONDS, mode=DYNAMIC))
    return f"the commands for a switch took {RESPONSE.write(seconds.value)} each time." if seconds else ""


def _lost(group: Group) -> str:
    parts = [
        part
        for what, test in (("CPU", CAPACITY), (group.tasks, group.tasks))
        if (part := _beyond_noise(what, group.lost(test)))
    ]
    return f"relative to static caps the containers lost {' and '.join(parts)}." if parts else ""


def _beyond_noise(what: str, lost: Sequence[tuple[Step, Estimate]]) -> str:
    """In how many cases more was lost than noise explains, and how much at most; empty without repetitions."""
    ends = [found.high for _, found in lost if found.high is not None]
    if not ends:
        return ""
    real = [(case, found) for case, found in lost if found.differs() and found.value > 0]
    if not real:
        return f"{what} beyond noise in none of {count(len(lost), 'case')} (at most {SHARE.write(max(0.0, *ends))})"
    case, most = max(real, key=lambda one: one[1].value)
    of = f"{SHARE.write(most.value)} ± {SHARE.write(most.half)}"
    return f"{what} beyond noise in {len(real)} of {count(len(lost), 'case')}, most with {_often(case)}: {of}"


def _effect(group: Group) -> str:
    raised, cut = (estimate(group.values(test, mode=DYNAMIC)) for test in (RAISED, CUT))
    if raised is None or cut is None:
        return ""
    return f"a larger cap took effect {_after(raised)}, a smaller one {_after(cut)}."


def _after(delay: Estimate) -> str:
    """No sooner than within a period of the cap: in its first one a container still has what the kernel refills."""
    most = delay.value if delay.high is None else delay.high
    if most <= CAP_PERIOD or not delay.differs():
        return f"within {RESPONSE.write(max(CAP_PERIOD, most))}"
    return f"after {RESPONSE.write(max(CAP_PERIOD, delay.value))}"


def _often(case: Step) -> str:
    return f"[{case.low:g}, {case.high:g}] every {case.interval} s"


def _what(case: Step) -> str:
    return f"switched, [{case.low:g}, {case.high:g}]" if case.mode == DYNAMIC else case.mode


# --- Tables -----------------------------------------------------------------------------------------------------------

Row = tuple[str, Estimate | None, Unit, str]
"""A quantity, its value, its unit, and what the study prints of it."""


def _overview(of: Sequence[Group], study: Study) -> Table | None:
    """The main results of each group beside the study's; None if there are none."""
    rows = tuple(
        (group.name, what, *spread(found, unit.write), published)
        for group in of
        for what, found, unit, published in _answers(group, printed(study, group))
    )
    return Table(("Containers", "", *SPREAD, f"{study.short}, Xen"), rows) if rows else None


def printed(study: Study, of: Group | tuple[int, str, str]) -> Mapping[str, object]:
    """What the study prints of this configuration; empty if nothing. `cpu_of_a_switch` follows from its points."""
    wanted = (of.containers, of.pinning, of.load) if isinstance(of, Group) else of
    rows: list[dict[str, Any]] = study.content["xen"]
    [row] = [row for row in rows if (row["containers"], row["pinning"], row.get("load", COMPUTATIONAL)) == wanted] or [
        {}
    ]
    points = [(0.0, row.get("host_static")), *((1 / every, cpu) for every, cpu in row.get("host_dynamic", {}).items())]
    if len(points) < 2:
        return row
    fitted = line(points)
    (x, y), (x_other, y_other) = points[0], points[-1]
    return {**row, "cpu_of_a_switch": fitted.slope.value if fitted else (y_other - y) / (x_other - x)}


def _answers(group: Group, theirs: Mapping[str, object]) -> Iterator[Row]:
    def said(key: str, unit: Unit, change: Callable[[float], float] = float) -> str:
        found = theirs.get(key)
        return unit.write(change(found)) if isinstance(found, float) else ""

    yield "Host's own CPU, static", estimate(group.values(HOST, mode=STATIC)), CPUS, said("host_static", CPUS)
    dynamic = theirs.get("host_dynamic")
    for every in sorted({group.intervals[-1], group.intervals[0]}, reverse=True):
        cpu = dynamic.get(every) if isinstance(dynamic, Mapping) else None
        used = estimate(group.values(HOST, mode=DYNAMIC, every=every))
        yield f"Host's own CPU, switched every {every} s", used, CPUS, "" if cpu is None else CPUS.write(cpu)
    fitted, control = group.host_line(DYNAMIC), group.host_line(CONTROL)
    r_squared = fitted.r_squared if fitted else None
    what = "CPU of a switch, from the fitted line" + (
        f" (R² {significant(r_squared)})" if r_squared is not None else ""
    )
    yield what, fitted.slope if fitted else None, CPU_TIME, said("cpu_of_a_switch", CPU_TIME)
    call = "of it the call, from the control's line"
    yield call, control.slope if control else None, CPU_TIME, said("call_share", SHARE)
    rest = said("call_share", SHARE, lambda share: 1 - share)
    yield "of it the reallocation, beyond the control", group.reallocation, CPU_TIME, rest
    yield "CPU of writing all caps, in the lab's process", estimate(group.values(CALL_CPU, mode=DYNAMIC)), CPU_TIME, ""
    for name, test in (("capacity", CAPACITY), ("performance", group.tasks)):
        if worst := max(group.lost(test), key=lambda one: one[1].value, default=None):
            yield f"Largest {name} overhead: {_often(worst[0])}", worst[1], SHARE, said(f"{name}_overhead", SHARE)
    spike = estimate(group.values(host_after(0), mode=DYNAMIC))
    yield "Host's own CPU in the second of a switch", spike, CPUS, said("host_spike", CPUS)
    delays = theirs.get("delay_seconds")
    delay = " to ".join(map(RESPONSE.write, delays)) if isinstance(delays, list) else ""
    for size, test in (("larger", RAISED), ("smaller", CUT)):
        yield f"Delay until a {size} cap takes effect", estimate(group.values(test, mode=DYNAMIC)), RESPONSE, delay


def _overheads(of: Sequence[Group], test: str | None) -> Table:
    """A test of each case, of its tasks if None, and what it lost relative to the static steps."""
    unit = CPUS if test else RATE
    return Table(
        ("Containers", "Caps", "Interval", f"Mean, {unit.axis}", "Overhead", *SPREAD[1:]),
        tuple(
            (
                *_case(group, case),
                unit.number(found.value),
                *(("",) * 4 if case.mode == STATIC else spread(estimate(group.losses(case, name)), SHARE.write)),
            )
            for group in of
            for name in (test or group.tasks,)
            for case in group.cases
            if (found := estimate(group.values(name, case=case)))
        ),
    )


def _host_table(of: Sequence[Group]) -> Table:
    rows = [
        (*_case(group, case), *spread(estimate(group.values(HOST, case=case)), CPUS.write))
        for group in of
        for case in group.cases
    ]
    return Table(("Containers", "Caps", "Interval", *SPREAD), tuple(rows))


_AT_A_SWITCH = (
    ("Host's own CPU in the second of it", host_after(0), CPUS),
    ("Host's own CPU from 2 s after it on", SETTLED_HOST, CPUS),
    ("CPU of one, from its first seconds", SWITCH, CPU_TIME),
    ("CPU of the writing itself", CALL_CPU, CPU_TIME),
    ("Time that the writing takes", CALL_SECONDS, RESPONSE),
    ("Delay until a larger cap takes effect", RAISED, RESPONSE),
    ("Delay until a smaller cap takes effect", CUT, RESPONSE),
)


def _switches(of: Sequence[Group]) -> Table:
    rows = [
        (group.name, "switch" if mode == DYNAMIC else mode, what, *spread(estimate(values), unit.write))
        for group in of
        for mode in (CONTROL, DYNAMIC)
        for what, test, unit in _AT_A_SWITCH
        if (values := group.values(test, mode=mode))
    ]
    return Table(("Containers", "", "", *SPREAD), tuple(rows))


def _case(group: Group, case: Step) -> tuple[str, str, str]:
    return group.name, _what(case), f"{case.interval} s"


# --- Charts -----------------------------------------------------------------------------------------------------------


def _chart_of_losses(of: Sequence[Group], test: str | None) -> str | None:
    """An overhead against the interval."""
    intervals = sorted({every for group in of for every in group.intervals})
    axis = XAxis("interval between switches, s", tuple((every, str(every)) for every in intervals))

    def points(group: Group, cases: Sequence[Step]) -> list[Point]:
        lost = ((case, group.losses(case, test or group.tasks)) for case in cases)
        return [Point(case.interval, tuple(value * SHARE.factor for value in values)) for case, values in lost]

    return _drawn(of, points, SHARE, axis, "Capacity overhead" if test else "Performance overhead")


def _chart_of_host(of: Sequence[Group]) -> str | None:
    """The host's CPU against the frequency of switches, along which the law is a straight line."""
    intervals = sorted({every for group in of for every in group.intervals}, reverse=True)
    ticks = ((0.0, "static"), *((1 / every, f"{every} s") for every in intervals))

    def points(group: Group, cases: Sequence[Step]) -> list[Point]:
        switched = (Point(1 / case.interval, tuple(group.values(HOST, case=case))) for case in cases)
        return [Point(0.0, tuple(group.values(HOST, mode=STATIC))), *switched]

    return _drawn(of, points, CPUS, XAxis("interval between switches, by their frequency", ticks), "Host's own CPU")


def _drawn(
    of: Sequence[Group], points: Callable[[Group, Sequence[Step]], list[Point]], unit: Unit, axis: XAxis, title: str
) -> str | None:
    """A panel for each group, a curve for each magnitude; None with a single tick."""
    if len(axis.ticks) < 2 or not of:
        return None
    panels = []
    for group in of:
        curves: dict[str, list[Step]] = defaultdict(list)
        for case in group.cases:
            if case.mode != STATIC:
                curves[_what(case)].append(case)
        panels.append(
            Panel(
                group.name,
                unit.axis,
                tuple(
                    Curve(what, tuple(points(group, cases)), shade, line=int(cases[0].mode == CONTROL))
                    for shade, (what, cases) in enumerate(curves.items())
                ),
            )
        )
    return draw(panels, axis, title)


def _chart_after(of: Sequence[Group]) -> str | None:
    """The host's CPU by the seconds since a switch, or since the control's call."""

    def mean(group: Group, mode: str, second: int) -> tuple[float, ...]:
        found = estimate(group.values(host_after(second), mode=mode))
        return (found.value,) if found else ()

    seconds = [second for second in range(FOLLOWED) if any(mean(group, DYNAMIC, second) for group in of)]
    if len(seconds) < 2:
        return None
    lines = (("control", CONTROL, 0, 1), ("switched", DYNAMIC, 2, 0))
    panels = [
        Panel(
            group.name,
            CPUS.axis,
            tuple(
                Curve(name, tuple(Point(second, mean(group, mode, second)) for second in seconds), shade, line)
                for name, mode, shade, line in lines
            ),
        )
        for group in of
    ]
    axis = XAxis("seconds since the caps were written", tuple((second, str(second)) for second in seconds))
    return draw(panels, axis, "Host's own CPU after a switch")
