"""The report of influence factors: cases that differ in one factor, and what performance each has and should have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lab.factors.cases import BASE, Case
from lab.factors.scenario import (
    AFFINITY,
    CAPS,
    COMPUTING,
    FACTORS,
    OVERCOMMIT,
    SERVERS,
    SPARE_CORE,
    VIRTUALISATION,
    WEIGHTS,
    WORKLOADS,
)
from lab.factors.workloads import BENCHMARKS
from lab.measurements import Measurement
from lab.report.charts import Curve, Mark, Panel, Point, XAxis, draw, draw_intervals
from lab.report.page import Builder, Page, Study, Table, every_value, interval
from lab.report.recorded import Recording, values
from lab.report.statistics import Estimate, ratio
from lab.report.units import SHARE, significant

TESTS = tuple(benchmark.name for workload in WORKLOADS for benchmark in BENCHMARKS[workload])
ALONE = Case()  # on a CPU of its own
# The study's tree of what influences performance, and where a factor is in it.
TREE = {
    VIRTUALISATION: "Virtualisation type",
    SERVERS: "Resources / number of virtual servers",
    OVERCOMMIT: "Resources / number of virtual servers / beyond the CPUs",
    AFFINITY: "Resources / CPU scheduling / affinity",
    SPARE_CORE: "Resources / CPU scheduling / affinity / a spare core",
    WEIGHTS: "Resources / CPU scheduling / priority (weight)",
    CAPS: "Resources / CPU scheduling / allocation (cap)",
}
ONE_CPU = "A chart needs virtual servers on more than one CPU; the table has the numbers."
_EFFECT = ("95 % interval", "n")


@dataclass(frozen=True)
class Comparison:
    """A test in two environments: what there is of the base's performance, and what there should be."""

    factor: str
    what: str
    test: str
    performance: Sequence[float]
    """By repetition, and that of the base."""
    base: Sequence[float]
    ratio: Estimate
    should: float
    """What the ratio should be."""
    x: float
    """Where it is along its factor: servers, overcommitment or cap; 0 of the others."""
    emulated: bool

    @property
    def lost(self) -> Estimate:
        """The relative overhead: what lacks to the performance that there should be, as a share of that.

        As the study computes it for each factor: a relative delta, a loss, or what the base gains.
        """
        return self.ratio.lacking(self.should)


@dataclass(frozen=True)
class Results:
    """All that a run has measured."""

    measurements: Sequence[Measurement]

    @cached_property
    def cases(self) -> list[Case]:
        """Those of virtual servers."""
        found = {case for one in self.measurements if (case := Case.parse(one.environment))}
        return sorted(found, key=lambda case: (case.cpus, case.servers, case.pinned, case.weights, case.cap or 0))

    @property
    def cpus(self) -> int:
        """How many CPUs the virtual servers share where they share several."""
        return max((case.cpus for case in self.cases), default=1)

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """All for which there are measurements, by test and factor."""
        return [one for test in TESTS for one in self._of(test) if one is not None]

    def of(self, factor: str, test: str | None = None) -> list[Comparison]:
        """Those of a factor."""
        return [one for one in self.comparisons if one.factor == factor and test in {None, one.test}]

    def _of(self, test: str) -> Iterator[Comparison | None]:
        compare, many = self._compare, self.cpus
        yield compare(VIRTUALISATION, "cgroup", test, ALONE.name, BASE)
        guests = {one.environment: one for one in self.measurements if one.virtualization not in {"none", "cgroup"}}
        for name, one in guests.items():
            what = f"{name} ({one.virtualization}{', emulated' if one.emulated else ''})"
            yield compare(VIRTUALISATION, what, test, name, BASE, emulated=one.emulated)
        free = [case for case in self.cases if not case.pinned and case.cpus == many]
        for case in free:
            if 1 < case.servers <= many or (case.servers > 1 and test not in COMPUTING):
                alone = Case(1, many, pinned=False).name
                yield compare(SERVERS, f"{case.servers} on {many} CPUs", test, case.name, alone, x=case.servers)
        if test not in COMPUTING:
            return
        for case in free:
            if (x := case.overcommit) > 1:
                base = Case(many, many, pinned=False).name
                yield compare(OVERCOMMIT, f"x = {x:g}", test, case.name, base, should=1 / x, x=x)
        for servers in (1, many) if many > 1 else ():
            unpinned, pinned = (Case(servers, many, pinned=pinned).name for pinned in (False, True))
            yield compare(AFFINITY, f"{servers} of {many} CPUs busy", test, unpinned, pinned, x=servers)
        if many > 1:
            spare = f"{many - 1} of {many} CPUs used"
            yield compare(SPARE_CORE, spare, test, Case(many, many).name, Case(many - 1, many).name)
        for case in self.cases:
            whole = sum(case.weights)
            for server, weight in enumerate(case.weights):
                of, should = case.of_server(server), weight / whole
                yield compare(WEIGHTS, f"{weight} of {whole}", test, of, ALONE.name, should=should)
            if case.cap is not None:
                what = f"cap of {case.cap:g} CPUs"
                yield compare(CAPS, what, test, case.name, ALONE.name, should=case.cap, x=case.cap)

    def _compare(
        self,
        factor: str,
        what: str,
        test: str,
        environment: str,
        base: str,
        *,
        should: float = 1.0,
        x: float = 0.0,
        emulated: bool = False,
    ) -> Comparison | None:
        """None unless both were measured."""
        of, under = (values(self.measurements, test, name) for name in (environment, base))
        found = ratio(of, under)
        return Comparison(factor, what, test, of, under, found, should, x, emulated) if found else None

    def loss(self, test: str, *, pinned: bool) -> Estimate | None:
        """What each of as many as there are CPUs loses against one alone; None without measurements of several."""
        if self.cpus == 1:
            return None
        many, one = (Case(servers, self.cpus, pinned=pinned).name for servers in (self.cpus, 1))
        found = self._compare(SERVERS, "", test, many, one)
        return found.lost if found else None


def write_up(recording: Recording) -> Page:
    """The report of a run."""
    study, results = Study.load("factors"), Results(recording.measurements)
    build = Builder(study, recording)
    peers = ""
    if recording.info.get("cpus") == str(results.cpus):
        peers = (
            " Of network it is more here: the other ends run on the same CPUs, as the virtual servers have all that "
            "there are. Take fewer `cpus`."
        )
    return build.page(
        verdict(results, study),
        (
            build.section("tree", _tree(results, study), _chart_of_tree(results)),
            build.section("virtualisation", _virtualisation_table(results, study)),
            build.section("servers", _servers(results), more=peers),
            build.section("overcommit", _law(results), _chart_of_law(results)),
            build.section("affinity", _affinity_table(results, study), _chart_of_affinity(results), absent=ONE_CPU),
            build.section("shares", _shares(results)),
        ),
        every_value(recording.measurements),
        emulated=dict.fromkeys(one.what for one in results.comparisons if one.emulated),
    )


# --- The study's numbers ----------------------------------------------------------------------------------------------


def affinity_of(study: Study, test: str) -> Mapping[str, Any] | None:
    """What pinning gained in this kind of benchmark."""
    return next((row for row in study.content["affinity"] if row["workload"] == test), None)


def delta_of(row: Mapping[str, Any]) -> float:
    """What a benchmark lost in a guest: as printed, else from its points."""
    printed: float | None = row.get("delta")
    return 1 - row["virtualised"] / row["native"] if printed is None else printed


def _thumb(study: Study, test: str) -> float | None:
    return study.content["rule_of_thumb"].get(test.split(maxsplit=1)[0])  # type: ignore[no-any-return]


def _printed(one: Comparison, results: Results, study: Study) -> str:
    """What the study prints of the same; empty if nothing."""
    placed, all_busy = affinity_of(study, one.test), one.x == results.cpus
    found: float | None = None
    if one.factor == VIRTUALISATION:
        rows = study.content["virtualisation"]
        found = next((delta_of(row) for row in rows if row["workload"] == one.test), None)
    elif one.factor == OVERCOMMIT:
        return f"at most {SHARE.write(study.content['overcommit']['deviation'])}"
    elif placed and one.factor == SERVERS and all_busy:
        found = placed["loss"]["free"]
    elif placed and one.factor == AFFINITY and all_busy:
        found = placed["gain"]
    elif placed and one.factor == SPARE_CORE:
        found = placed["spare_core_gain"]
    return "" if found is None else SHARE.write(found)


# --- Tables -----------------------------------------------------------------------------------------------------------


def _share(effect: Estimate) -> tuple[str, str, str]:
    """Cells for a value, its interval and its repetitions."""
    return SHARE.write(effect.value), interval(effect, SHARE.write), str(effect.n)


def _tree(results: Results, study: Study) -> Table:
    """Every factor's relative overhead, in the order of the study's tree."""
    rows = [
        (TREE[factor], one.test, one.what, *_share(one.lost), _printed(one, results, study))
        for factor in FACTORS
        for one in results.of(factor)
    ]
    return Table(("Factor", "Workload", "", "Relative overhead", *_EFFECT, study.short), tuple(rows))


def _virtualisation_table(results: Results, study: Study) -> Table:
    rows = []
    for one in results.of(VIRTUALISATION):
        thumb = _thumb(study, one.test)
        theirs = (_printed(one, results, study), "" if thumb is None else SHARE.write(thumb))
        rows.append((one.test, one.what, *_share(one.lost), *theirs))
    return Table(("Workload", "", "Relative delta", *_EFFECT, study.short, "Its rule of thumb"), tuple(rows))


def _servers(results: Results) -> Table:
    rows = [(one.test, one.what, *_share(one.lost)) for one in results.of(SERVERS)]
    return Table(("Workload", "Virtual servers", "Loss of each", *_EFFECT), tuple(rows))


def _law(results: Results) -> Table:
    """Performance of each virtual server against 1/x."""
    rows = []
    for one in results.of(OVERCOMMIT):
        lost = one.lost
        low, high = (None if end is None else -end for end in (lost.high, lost.low))
        share = (SHARE.write(one.ratio.value), SHARE.write(one.should))
        rows.append((one.test, f"{one.x:g}", *share, *_share(Estimate(-lost.value, low, high, lost.n))))
    return Table(("Workload", "x", "Share of that at x = 1", "1/x", "Deviation", *_EFFECT), tuple(rows))


def _affinity_table(results: Results, study: Study) -> Table:
    """Gain and loss by affinity, as the study computes them."""
    rows: list[tuple[str, ...]] = []
    for test in COMPUTING:
        placed = affinity_of(study, test) or {"loss": {}}
        for one in results.of(AFFINITY, test):
            theirs = _printed(one, results, study)
            rows.append((test, f"Gain by pinning, {one.what}", *_share(one.lost), theirs))
        for how in ("free", "pinned"):
            if loss := results.loss(test, pinned=how == "pinned"):
                theirs = SHARE.write(placed["loss"][how]) if placed["loss"] else ""
                what = f"Loss from 1 to {results.cpus} virtual servers, {how}"
                rows.append((test, what, *_share(loss), theirs))
        rows += [
            (test, f"Gain by a spare core, {one.what}", *_share(one.lost), _printed(one, results, study))
            for one in results.of(SPARE_CORE, test)
        ]
    for test in COMPUTING:
        if avoided := _avoided(results, test):
            printed = affinity_of(study, test)
            theirs = _points(printed["loss"]["free"] - printed["loss"]["pinned"]) if printed else ""
            points, n = avoided
            rows.append((test, "Loss avoided by pinning", points, "", str(n), theirs))
    return Table(("Workload", "", "Mean", *_EFFECT, study.short), tuple(rows))


def _avoided(results: Results, test: str) -> tuple[str, int] | None:
    """How much of the loss pinning avoids, in words, and repetitions."""
    free, pinned = (results.loss(test, pinned=pinned) for pinned in (False, True))
    return (_points(free.value - pinned.value), min(free.n, pinned.n)) if free and pinned else None


def _points(share: float) -> str:
    """Percentage points."""
    return f"{significant(share * 100)} points"


def _shares(results: Results) -> Table:
    """What weights and caps give, beside what they should."""
    rows = []
    for factor in (WEIGHTS, CAPS):
        for one in results.of(factor):
            what = f"{'weight ' if factor == WEIGHTS else ''}{one.what}"
            rows.append(
                (one.test, what, SHARE.write(one.ratio.value), SHARE.write(one.should), *_share(one.lost)),
            )
    return Table(("Workload", "", "Share of a CPU's performance", "Should be", "Lacking", *_EFFECT), tuple(rows))


# --- Charts -----------------------------------------------------------------------------------------------------------


def _chart_of_tree(results: Results) -> str | None:
    """A row for each comparison below its factor: what it costs, with its interval; None without any."""
    rows: list[tuple[str, Mark | None]] = []
    for factor in FACTORS:
        if found := results.of(factor):
            rows.append((TREE[factor], None))
        for one in found:
            lost = one.lost.scaled(SHARE.factor)
            mark = Mark(lost.value, lost.low, lost.high, TESTS.index(one.test), hollow=one.emulated)
            rows.append((f"{one.test}: {one.what}", mark))
    label = "relative overhead, % (left of 0: more than there should be)"
    return draw_intervals(rows, label, "What each factor costs") if rows else None


def _chart_of_law(results: Results) -> str | None:
    """The share that each virtual server has, against the law's 1/x; None without two overcommitments to join."""
    panels, xs = [], {1.0}
    for test in COMPUTING:
        if not (found := results.of(OVERCOMMIT, test)):
            continue
        xs |= {one.x for one in found}
        base = found[0].base
        law = tuple(Point(x, (SHARE.factor / x,)) for x in (1.0, *(one.x for one in found)))
        measured = (_point(1.0, base, base), *(_point(one.x, one.performance, base) for one in found))
        curves = (Curve("1/x", law, 0, 1), Curve("measured", measured, 2, 0))
        panels.append(Panel(test, "share of that at x = 1, %", curves))
    axis = XAxis("virtual servers per CPU, x", tuple((x, f"{x:g}") for x in sorted(xs)))
    return draw(panels, axis, "Performance of each virtual server against 1/x") if panels else None


def _chart_of_affinity(results: Results) -> str | None:
    """What each virtual server has of what one alone has, free and pinned; None on a single CPU."""
    many, panels = results.cpus, []
    for test in COMPUTING if many > 1 else ():
        curves = []
        for how, pinned, shade in (("free", False, 0), ("pinned", True, 2)):
            one, all_busy = (
                values(results.measurements, test, Case(servers, many, pinned=pinned).name) for servers in (1, many)
            )
            if one and all_busy:
                points = (_point(1, one, one), _point(many, all_busy, one))
                curves.append(Curve(how, points, shade, int(not pinned)))
        if len(curves) > 1:
            panels.append(Panel(test, "share of one alone, %", tuple(curves)))
    axis = XAxis(f"virtual servers on {many} CPUs", tuple((number, str(number)) for number in (1, many)))
    return draw(panels, axis, "Performance of each virtual server, free and pinned") if panels else None


def _point(x: float, performance: Sequence[float], base: Sequence[float]) -> Point:
    """Each repetition, relative to the base's mean, in per cent."""
    mean = sum(base) / len(base)
    return Point(x, tuple(value / mean * SHARE.factor for value in performance))


# --- Verdict ----------------------------------------------------------------------------------------------------------


def verdict(results: Results, study: Study) -> list[str]:
    """For readers who read no further: the law of overcommitment first."""
    said = (_overcommit(results, study), _affinity(results), _virtualisation(results, study), _limits(results))
    found = [sentence for sentence in said if sentence]
    return found or ["No case was measured together with what it is compared with, so there is nothing to say yet."]


def _overcommit(results: Results, study: Study) -> str:
    """Whether the law holds: if every interval is within the study's deviation; not if one is wholly beyond it."""
    found, limit = results.of(OVERCOMMIT), study.content["overcommit"]["deviation"]
    worst = _furthest(found)
    if worst is None:
        return ""
    xs = sorted({one.x for one in found})
    busy = f"With {xs[-1]:g} busy" if len(xs) == 1 else f"With {xs[0]:g} to {xs[-1]:g} busy"
    busy += " virtual servers per CPU"
    ends = [(one, *_ends(one.lost)) for one in found]
    if all(-limit <= low and high <= limit for _, low, high in ends):
        return f"{busy} each gets 1/x of the performance, as in the study: at most {_off(worst)}."
    within = f"within {SHARE.write(limit)} as in the study"
    if broken := _furthest([one for one, low, high in ends if low > limit or high < -limit]):
        return f"{busy}, performance is not 1/x {within}, but up to {_off(broken)}."
    widest, _, _ = max(ends, key=lambda end: max(-end[1], end[2]))
    return (
        f"{busy}, noise hides whether each gets 1/x of the performance {within}: {_off(widest)}. Repeat this with less "
        "other load, or more often."
    )


def _ends(effect: Estimate) -> tuple[float, float]:
    """Of its interval; of a single repetition, the value itself."""
    low, high = (effect.value if end is None else end for end in (effect.low, effect.high))
    return low, high


def _off(one: Comparison) -> str:
    return f"{_away(one)} ({one.test} at {one.x:g})"


def _furthest(of: Sequence[Comparison]) -> Comparison | None:
    return max(of, key=lambda one: abs(one.lost.value), default=None)


def _away(one: Comparison) -> str:
    """How far from what there should be, and in which direction."""
    lost = one.lost
    spread = "" if lost.half is None else f" ± {SHARE.write(lost.half)}"
    return f"{SHARE.write(abs(lost.value))}{spread} {'below' if lost.value > 0 else 'above'} it"


def _affinity(results: Results) -> str:
    number, gains = results.cpus, []
    for one in results.of(AFFINITY):
        if one.x == number:
            avoided = _avoided(results, one.test)
            less = f" (the loss from 1 to {number} is {avoided[0]} less)" if avoided else ""
            gains.append(f"{_found(one.lost)} of {one.test}{less}")
    if not gains:
        return ""
    spare = " and ".join(f"{_found(one.lost)} of {one.test}" for one in results.of(SPARE_CORE))
    rest = f"; a spare core gains {spare}" if spare else ""
    return f"With {number} busy virtual servers on {number} CPUs, pinning gains {' and '.join(gains)}{rest}."


def _found(effect: Estimate) -> str:
    """A share with its interval, or that none was found, with the most that it may be."""
    if effect.high is not None and not effect.differs():
        return f"nothing beyond noise (at most {SHARE.write(max(0.0, effect.high))})"
    ends = interval(effect, SHARE.write)
    return f"{SHARE.write(effect.value)} ({ends})" if ends else SHARE.write(effect.value)


def _virtualisation(results: Results, study: Study) -> str:
    by_where: dict[str, list[str]] = {}
    emulated: dict[str, list[str]] = {}  # beside which the rule of thumb means nothing
    for one in results.of(VIRTUALISATION):
        thumb = None if one.emulated else _thumb(study, one.test)
        theirs = "" if thumb is None else f", there {SHARE.write(thumb)}"
        of = emulated if one.emulated else by_where
        of.setdefault(one.what, []).append(f"{one.test} {_found(one.lost)}{theirs}")
    found = []
    if by_where:
        found.append(f"What virtualisation costs, beside the study's rule of thumb. {_in_each(by_where)}.")
    if emulated:
        found.append(f"On emulated hardware, so no more than a sign that it works. {_in_each(emulated)}.")
    return " ".join(found)


def _in_each(by_where: Mapping[str, Sequence[str]]) -> str:
    return ". ".join(f"In {where}: {'; '.join(of)}" for where, of in by_where.items())


def _limits(results: Results) -> str:
    """The weight and the cap that are furthest from what they should give."""
    parts = [
        f"{worst.test} with {words}{worst.what} has {_away(worst)}"
        for factor, words in ((WEIGHTS, "a weight of "), (CAPS, "a "))
        if (worst := _furthest(results.of(factor))) is not None
    ]
    return f"Furthest from the share that it should have: {'; '.join(parts)}." if parts else ""
