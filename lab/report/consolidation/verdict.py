"""The run in a few sentences: where the knee is, what broke first, and why most likely."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from lab.report.consolidation.results import Judged, Load, mean, mean_parts
from lab.report.page import count
from lab.report.units import CPUS, RESPONSE, SHARE

CAUSES = {
    "self": "it reached its own CPU limit",
    "neighbour": "neighbours on the same host took CPU or cache",
    "hypervisor": "the host itself took the CPU",
    "load": "it had more requests than ever before",
}


def verdict(loads: Sequence[Load]) -> list[str]:
    """A summary for readers who read no further."""
    if not any(load.judged for load in loads):
        return [
            "Prometheus has no objectives for these applications, so none is met or missed.",
            *_response(loads),
        ]
    broken = [load for load in loads if load.met is False]
    sentences = [_knee(loads, broken)]
    for (placement, instances), of in itertools.groupby(loads, key=lambda load: (load.placement, load.instances)):
        sentences.append(_curve(list(of), _name(loads, placement, instances)))
    if broken:
        first = min(broken, key=_size)
        sentences += [_first_to_break(first, loads), _why(first)]
    return sentences


def _response(loads: Sequence[Load]) -> list[str]:
    """From the smallest to the largest load."""
    ends = [
        f"{RESPONSE.write(seconds)} ({_load(load)})"
        for load in (loads[0], loads[-1])
        if (seconds := mean(load.values("mean"))) is not None
    ]
    return [f"The mean response time went from {ends[0]} to {ends[1]}."] if len(loads) > 1 and len(ends) > 1 else []


def _describe(judged: Judged) -> str:
    """The measured value and the target, in words."""
    if judged.objective == "mean":
        measured, promised = RESPONSE.write(judged.measured), RESPONSE.write(judged.promised)
        return f"mean response {measured}, objective at most {promised}"
    what = f"answered within {RESPONSE.write(judged.seconds)}" if judged.seconds else "answered without error"
    return f"{SHARE.write(judged.measured)} {what}, objective {SHARE.write(judged.promised)}"


def _knee(loads: Sequence[Load], broken: Sequence[Load]) -> str:
    if not broken:
        judged = " where one could be judged" if any(load.met is None for load in loads) else ""
        return f"No objective was missed{judged}: this run did not reach the knee."
    held = [load for load in loads if load.met]
    if not held:
        return "Objectives were missed at every load: the knee is below the smallest load of this run."
    first = min(broken, key=_size)
    below = [load for load in held if load.placement == first.placement and _size(load) < _size(first)]
    where = f" ({first.placement})" if len({load.placement for load in loads}) > 1 else ""
    if not below:
        return f"The knee{where} is at or below {_load(first)}, the smallest load that missed an objective."
    last = max(below, key=_size)
    if last.instances == first.instances:
        with_ = count(first.instances, "instance")
        return (
            f"The knee{where} is with {with_}, between {last.clients} clients each (met) and {first.clients} (missed)."
        )
    return f"The knee{where} is between {_load(last)} (met) and {_load(first)} (missed)."


def _curve(loads: Sequence[Load], name: str) -> str:
    met = [load.clients for load in loads if load.met]
    missed = [load.clients for load in loads if load.met is False]
    unsaid = [load.clients for load in loads if load.met is None]
    unknown = f" Not judged: {_list(unsaid)} clients." if unsaid else ""
    if not missed and not met:
        return f"{name}: not judged."
    if not missed:
        return f"{name}: every objective met up to {max(met)} clients per instance.{unknown}"
    if not met:
        return f"{name}: objectives missed at every load judged, from {min(missed)} clients per instance on.{unknown}"
    if max(met) < min(missed):
        return f"{name}: met up to {max(met)} clients per instance, missed from {min(missed)} on.{unknown}"
    return f"{name}: met at {_list(met)} clients per instance, missed at {_list(missed)}.{unknown}"


def _first_to_break(load: Load, loads: Sequence[Load]) -> str:
    missed = sorted((one for one in load.judged if one.met is False), key=lambda one: -(one.excess or 0))
    by_objective = {one.objective: one for one in reversed(missed)}
    worst_first = sorted(by_objective.values(), key=lambda one: -(one.excess or 0))
    where = _load(load) + (f", {load.placement}" if len({other.placement for other in loads}) > 1 else "")
    apps = {
        app.app for result in load.results for app in result.instances if any(one.met is False for one in app.judged)
    }
    return (
        f"First to break, at {where}: {'; '.join(_describe(one) for one in worst_first)}"
        f" (the worst of {count(len(apps), 'instance')} that missed)."
    )


def _why(load: Load) -> str:
    broken = [
        result for result in load.results if any(one.met is False for app in result.instances for one in app.judged)
    ]
    shares = mean_parts(broken, "causes")
    used, cpus = (mean(result.numbers.get(name) for result in broken) for name in ("tiers_cpu", "step_cpus"))
    full = ""
    if used is not None:
        full = f" All tiers together used {CPUS.write(used)}" + (f" of the {cpus:g} they share." if cpus else ".")
    if not shares:
        return f"Cause unknown: Prometheus has no app:breach_cause:info of that time.{full}"
    cause, share = next(iter(shares.items()))
    if cause == "unknown":
        return f"Cause unknown: no evidence (for {SHARE.write(share)} of the time).{full}"
    named = ", ".join(
        f"{SHARE.write(part)} of that while {name} ran" for name, part in mean_parts(broken, "neighbours").items()
    )
    who = f" It waited for its neighbours: {named}." if cause == "neighbour" and named else ""
    likely = f"Most likely cause: {CAUSES.get(cause, cause)} (cause {cause}, for {SHARE.write(share)} of the time)."
    return f"{likely}{who}{full}"


def _size(load: Load) -> tuple[int, int]:
    return load.instances * load.clients, load.instances


def _load(load: Load) -> str:
    return f"{count(load.instances, 'instance')} with {load.clients} clients" + (" each" if load.instances > 1 else "")


def _name(loads: Sequence[Load], placement: str, instances: int) -> str:
    many = len({load.placement for load in loads}) > 1
    return count(instances, "instance").capitalize() + (f", {placement}" if many else "")


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
