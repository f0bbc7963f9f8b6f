"""The answer in sentences: what bytes and requests cost over each path, without offloads, and in small messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lab.network.experiment import CPU, REQUESTS
from lab.network.scenario import PATHS
from lab.report.network.comparison import C, Compared, Results
from lab.report.network.study import NetworkStudy
from lab.report.network.tables import interval, named
from lab.report.statistics import estimate
from lab.report.units import significant

GUEST = ("xen-guest1", "xen-domain0")  # on a CPU of its own, as both ends are here
ENOUGH = 0.98  # of the rate: a load that is reached


def verdict(results: Results, study: NetworkStudy) -> list[str]:
    """For readers who read no further: the paths first, each by the configuration in which it costs most.

    That is one in which it costs more beyond noise, if there is any: where little is sent, noise is the greatest ratio.
    """
    judged = results.judged_by
    unit = "as much CPU time" if judged == CPU else f"as many {judged}"

    def real(of: Sequence[Compared[C]], *, is_real: bool = True) -> list[Compared[C]]:
        names = results.emulated
        return [one for one in of if is_real != bool({one.configuration.name, one.baseline.name} & names)]

    found = [
        *_by_path(real(results.paths), judged, "a byte", unit),
        *_by_path(real(results.requests), judged, "a request", unit),
        *_of(results.offloads, judged, "Without segmentation offloads, a byte", unit, lambda _: "with them"),
        *_of(
            real(results.sizes),
            judged,
            "In small messages, a byte",
            unit,
            lambda one: f"in messages of {one.baseline.size} bytes",
        ),
        *_not_reached(results),
    ]
    sentences = [
        *_by_path(real(results.paths, is_real=False), judged, "a byte", unit),
        *_by_path(real(results.requests, is_real=False), judged, "a request", unit),
    ]
    if sentences:
        found.append(f"On emulated hardware, so no more than a sign that it works. {' '.join(sentences)}")
    if not found:
        return ["No configuration was measured together with one to compare it with, so there is nothing to say yet."]
    if results.paths:
        theirs = study.receiver[GUEST].instruction_cost
        found.append(
            f"In the study, a byte received in a Xen guest cost {theirs:g} times the driver domain's instructions."
        )
    if judged == CPU:
        found.append(
            "This machine counted no instructions, so costs are CPU seconds of the whole machine, softirqs included."
        )
    return found


def _by_path(of: Sequence[Compared[C]], judged: str, what: str, unit: str) -> list[str]:
    return [
        sentence
        for path in dict.fromkeys(one.configuration.path for one in of)
        for sentence in _of(
            [one for one in of if one.configuration.path == path],
            judged,
            f"{_on(path)}, {what}",
            unit,
            lambda one: _on(one.baseline.path).lower(),
        )
    ]


def _on(path: str) -> str:
    """
    >>> _on("veth"), _on("guest web1")
    ('Over veth', 'To and from guest web1')
    """
    return f"Over {path}" if path in PATHS else f"To and from {path}"


def _not_reached(results: Results) -> list[str]:
    """Loads of which some requests failed, or came later and later."""
    few = [
        f"{named(one.name, results)}: {significant(reached.mean)} answered"
        for one in results.loads
        if (reached := estimate(results.of(REQUESTS, one))) and reached.mean < ENOUGH * one.rate
    ]
    return (
        [f"Not all requests were answered in time ({'; '.join(few)}): there, more were asked than fit."] if few else []
    )


def _of(of: Sequence[Compared[C]], judged: str, begin: str, unit: str, than: Callable[[Compared[C]], str]) -> list[str]:
    known = [one for one in of if judged in one.cost]
    if not known:
        return []
    more = [one for one in known if one.cost[judged].differs and one.cost[judged].value > 1]
    most = max(more or known, key=lambda one: one.cost[judged].value)
    cost = most.cost[judged]
    ends = f", 95 % interval {interval(cost)}" if interval(cost) else ""
    size = "" if len(known) == 1 else "up to "
    noise = "" if not interval(cost) or cost.differs else "; that is within noise"
    return [
        f"{begin} costs {size}{cost.value:.2f} times {unit} as {than(most)} ({most.configuration.name}{ends}){noise}."
    ]
