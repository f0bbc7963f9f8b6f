"""The answer in sentences: how far this host may be overcommitted, whether pinning helps, what virtualisation costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.factors.scenario import AFFINITY, CAPS, OVERCOMMIT, SPARE_CORE, VIRTUALISATION, WEIGHTS
from lab.report.factors.comparisons import Comparison, Effect, Results
from lab.report.factors.quantities import points_avoided
from lab.report.factors.study import FactorsStudy
from lab.report.factors.tables import interval, points
from lab.report.units import SHARE


def verdict(results: Results, study: FactorsStudy) -> list[str]:
    """For readers who read no further: the law of overcommitment first."""
    said = (_overcommit(results, study), _affinity(results), _virtualisation(results, study), _limits(results))
    found = [sentence for sentence in said if sentence]
    return found or ["No case was measured together with what it is compared with, so there is nothing to say yet."]


def _overcommit(results: Results, study: FactorsStudy) -> str:
    """Whether the law holds: if every interval is within the study's deviation; not if one is wholly beyond it."""
    found, limit = results.of(OVERCOMMIT), study.deviation
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


def _ends(effect: Effect) -> tuple[float, float]:
    """Of its interval; of a single repetition, the value itself."""
    return (
        effect.value if effect.low is None else effect.low,
        effect.value if effect.high is None else effect.high,
    )


def _off(one: Comparison) -> str:
    return f"{_away(one)} ({one.test} at {one.x:g})"


def _furthest(of: Sequence[Comparison]) -> Comparison | None:
    return max(of, key=lambda one: abs(one.lost.value), default=None)


def _away(one: Comparison) -> str:
    """How far from what there should be, and in which direction."""
    lost = one.lost
    spread = "" if lost.low is None or lost.high is None else f" ± {SHARE.write((lost.high - lost.low) / 2)}"
    return f"{SHARE.write(abs(lost.value))}{spread} {'below' if lost.value > 0 else 'above'} it"


def _affinity(results: Results) -> str:
    number = results.cpus
    gains = [
        f"{_found(one.lost)} of {one.test}{_avoided(results, one.test)}"
        for one in results.of(AFFINITY)
        if one.x == number
    ]
    if not gains:
        return ""
    spare = " and ".join(f"{_found(one.lost)} of {one.test}" for one in results.of(SPARE_CORE))
    rest = f"; a spare core gains {spare}" if spare else ""
    return f"With {number} busy virtual servers on {number} CPUs, pinning gains {' and '.join(gains)}{rest}."


def _found(effect: Effect) -> str:
    """A share with its interval, or that none was found, with the most that it may be."""
    if effect.low is None or effect.high is None:
        return SHARE.write(effect.value)
    if not effect.differs:
        return f"nothing beyond noise (at most {SHARE.write(max(0.0, effect.high))})"
    return f"{SHARE.write(effect.value)} ({interval(effect)})"


def _avoided(results: Results, test: str) -> str:
    free, pinned = (results.loss(test, pinned=pinned) for pinned in (False, True))
    if free is None or pinned is None:
        return ""
    return f" (the loss from 1 to {results.cpus} is {points(points_avoided(free.value, pinned.value))} less)"


def _virtualisation(results: Results, study: FactorsStudy) -> str:
    by_where: dict[str, list[str]] = {}
    emulated: dict[str, list[str]] = {}  # beside which the rule of thumb means nothing
    for one in results.of(VIRTUALISATION):
        thumb = study.rule_of_thumb.get(one.test.split()[0])
        theirs = "" if thumb is None or one.emulated else f", there {SHARE.write(thumb)}"
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
