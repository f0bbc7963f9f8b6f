"""The answer in sentences: what each environment does to a suite's operations, and which of them suffers most."""

from __future__ import annotations

from collections.abc import Sequence

from lab.report.loads import count
from lab.report.suites.comparison import Compared, Comparison, Environment, geometric_mean, independent
from lab.report.suites.tables import unit
from lab.report.units import significant


def verdict(of: Comparison) -> list[str]:
    """For readers who read no further, an environment at a time; emulated ones last, and marked as such."""
    if not of.compared:
        return ["No suite has measured anything, so there is nothing to compare."]
    if not of.base:
        return ["There is no environment named base or host, so nothing can be compared with it."]
    if not of.others:
        return [f"Only {of.base} was measured, so there is nothing to compare it with."]
    return [sentence for each in of.others for sentence in _of(of, each)]


def _of(of: Comparison, environment: Environment) -> list[str]:
    suites = list(dict.fromkeys(test.suite for test in of.tests))
    found = [sentence for suite in suites if (sentence := _suite(of, environment, suite))]
    if not found:
        return [f"{environment.name}: none of its tests was measured in {of.base} too."]
    if environment.emulated:
        caution = "is emulated, which costs more than any platform: its values show that it works, and nothing else"
        return [f"{environment.name} {caution}.", *(f"{environment.label}: {sentence}" for sentence in found)]
    return [f"{environment.name}: {sentence}" for sentence in found]


def _suite(of: Comparison, environment: Environment, suite: str) -> str:
    inside = of.inside(environment.name, suite)
    tests = [one for one in independent(inside) if one.performance is not None]
    mean = geometric_mean(tests)
    if mean is None:
        return ""
    ends = "" if mean.low is None or mean.high is None else f", 95 % interval {mean.low:.3f} to {mean.high:.3f}"
    of_base = f"of {of.base}'s performance (geometric mean{ends})"
    means = f"{suite}'s {count(mean.tests, 'test')} reach {mean.value:.3f} {of_base}"
    judged = [one for one in tests if one.finding]
    if not judged:
        return f"{means}; without repetitions, nothing says how much of that is noise."
    worse, better = (_finding(judged, finding) for finding in ("worse", "better"))
    beyond = f"{len(worse)} worse and {len(better)} better than {of.base} beyond their spread"
    return f"{means}; {beyond}{_most(worse)}."


def _finding(tests: Sequence[Compared], finding: str) -> list[Compared]:
    return [one for one in tests if one.finding == finding]


def _most(worse: Sequence[Compared]) -> str:
    if not worse:
        return ""
    one = min(worse, key=lambda one: one.performance or 0.0)
    ratio = one.ratio
    assert ratio is not None  # it is worse than something
    mean = f"{significant(one.estimate.mean)} {unit(one.test)}"
    return f", most of all {one.test.name}: {mean}, {ratio.value:.3f} times as much"
