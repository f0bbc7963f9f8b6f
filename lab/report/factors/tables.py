"""The tables: every value with the spread of its repetitions, and the study's beside it where it prints one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
)
from lab.measurements import Measurement
from lab.report.factors.comparisons import TESTS, Comparison, Effect, Results
from lab.report.factors.quantities import points_avoided
from lab.report.factors.study import FactorsStudy
from lab.report.statistics import estimate
from lab.report.tables import Table
from lab.report.units import SHARE, significant

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
_EFFECT = ("95 % interval", "n")


def performance(value: float, unit: str) -> str:
    """A benchmark's result as people read it.

    >>> performance(5021.66, "events/s"), performance(15.1e9, "bytes/s")
    ('5022 events/s', '15100 MB/s')
    """
    return f"{significant(value / 1e6)} MB/s" if unit == "bytes/s" else f"{significant(value)} {unit}"


def share(effect: Effect) -> tuple[str, str, str]:
    """Cells for a value, its interval and its repetitions."""
    return SHARE.write(effect.value), interval(effect), str(min(effect.n))


def interval(effect: Effect) -> str:
    """Its ends in words; nothing of single repetitions."""
    if effect.low is None or effect.high is None:
        return ""
    return f"{SHARE.write(effect.low)} to {SHARE.write(effect.high)}"


def tree(results: Results, study: FactorsStudy) -> Table:
    """Every factor's relative overhead, in the order of the study's tree."""
    return Table(
        ("Factor", "Workload", "", "Relative overhead", *_EFFECT, study.short),
        tuple(
            (TREE[factor], one.test, one.what, *share(one.lost), printed(one, results, study))
            for factor in FACTORS
            for one in results.of(factor)
        ),
    )


def printed(one: Comparison, results: Results, study: FactorsStudy) -> str:
    """What the study prints of the same; empty if nothing."""
    placed = study.affinity_of(one.test)
    found: float | None = None
    if one.factor == VIRTUALISATION:
        found = study.delta_of(one.test)
    elif one.factor == OVERCOMMIT and one.test in COMPUTING:
        return f"at most {SHARE.write(study.deviation)}"
    elif placed and one.factor == SERVERS and one.x == results.cpus:
        found = placed.loss.free
    elif placed and one.factor == AFFINITY and one.x == results.cpus:
        found = placed.gain
    elif placed and one.factor == SPARE_CORE:
        found = placed.spare_core_gain
    return "" if found is None else SHARE.write(found)


def virtualisation(results: Results, study: FactorsStudy) -> Table:
    """The relative delta of each workload, beside the study's rule of thumb."""
    rows = []
    for one in results.of(VIRTUALISATION):
        thumb = study.rule_of_thumb.get(one.test.split()[0])
        rows.append(
            (
                one.test,
                one.what,
                *share(one.lost),
                printed(one, results, study),
                "" if thumb is None else SHARE.write(thumb),
            )
        )
    return Table(("Workload", "", "Relative delta", *_EFFECT, study.short, "Its rule of thumb"), tuple(rows))


def overcommit(results: Results) -> Table:
    """Performance of each virtual server against 1/x."""
    return Table(
        ("Workload", "x", "Share of that at x = 1", "1/x", "Deviation", *_EFFECT),
        tuple(
            (
                one.test,
                f"{one.x:g}",
                SHARE.write(one.ratio.value),
                SHARE.write(one.should),
                *share(one.deviation),
            )
            for one in results.of(OVERCOMMIT)
        ),
    )


def affinity(results: Results, study: FactorsStudy) -> Table:
    """Gain and loss by affinity, as the study computes them."""
    rows = [
        (test, what, *share(effect), "" if theirs is None else SHARE.write(theirs))
        for test in COMPUTING
        for what, effect, theirs in _affinity(results, test, study)
        if effect is not None
    ]
    for test in COMPUTING:
        free, pinned = (results.loss(test, pinned=pinned) for pinned in (False, True))
        if free and pinned:
            placed = study.affinity_of(test)
            theirs = points(points_avoided(placed.loss.free, placed.loss.pinned)) if placed else ""
            avoided = points(points_avoided(free.value, pinned.value))
            rows.append((test, "Loss avoided by pinning", avoided, "", str(min(*free.n, *pinned.n)), theirs))
    return Table(("Workload", "", "Mean", *_EFFECT, study.short), tuple(rows))


def points(value: float) -> str:
    """Percentage points."""
    return f"{significant(value)} points"


def _affinity(results: Results, test: str, study: FactorsStudy) -> Iterator[tuple[str, Effect | None, float | None]]:
    placed, number = study.affinity_of(test), results.cpus
    for one in results.of(AFFINITY, test):
        theirs = placed.gain if placed and one.x == number else None
        yield f"Gain by pinning, {one.what}", one.lost, theirs
    free, pinned = (results.loss(test, pinned=pinned) for pinned in (False, True))
    yield f"Loss from 1 to {number} virtual servers, free", free, placed.loss.free if placed else None
    yield f"Loss from 1 to {number} virtual servers, pinned", pinned, placed.loss.pinned if placed else None
    for one in results.of(SPARE_CORE, test):
        yield f"Gain by a spare core, {one.what}", one.lost, placed.spare_core_gain if placed else None


def shares(results: Results) -> Table:
    """What weights and caps give, beside what they should."""
    return Table(
        ("Workload", "", "Share of a CPU's performance", "Should be", "Lacking", *_EFFECT),
        tuple(
            (
                one.test,
                f"{'weight ' if factor == WEIGHTS else ''}{one.what}",
                SHARE.write(one.ratio.value),
                SHARE.write(one.should),
                *share(one.lost),
            )
            for factor in (WEIGHTS, CAPS)
            for one in results.of(factor)
        ),
    )


def servers(results: Results) -> Table:
    """What each virtual server loses to others beside it, while there is a CPU for each that computes."""
    return Table(
        ("Workload", "Virtual servers", "Loss of each", *_EFFECT),
        tuple((one.test, one.what, *share(one.lost)) for one in results.of(SERVERS)),
    )


def environments(measurements: Sequence[Measurement]) -> Table:
    """Every case with its mean performance, from which all others follow."""
    order = {test: place for place, test in enumerate(TESTS)}
    found: dict[tuple[str, str, str], list[float]] = {}
    for one in measurements:
        where = f"{one.environment} (emulated)" if one.emulated else one.environment
        found.setdefault((one.test, where, one.unit), []).append(one.value)
    rows = []
    for (test, environment, unit), values in sorted(
        found.items(), key=lambda item: (order.get(item[0][0], len(order)), item[0][1])
    ):
        if spread := estimate(values):
            deviation = "" if spread.deviation is None else performance(spread.deviation, unit)
            ends = ""
            if spread.low is not None and spread.high is not None:
                ends = f"{performance(spread.low, unit)} to {performance(spread.high, unit)}"
            rows.append((test, environment, performance(spread.mean, unit), deviation, ends, str(spread.n)))
    return Table(("Workload", "Case", "Mean of each", "Std. deviation", *_EFFECT), tuple(rows))
