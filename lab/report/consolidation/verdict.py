"""The run in a few sentences: the knee, the first missed objective, and its most likely cause."""

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
    if not any(load.judged for load in loads):
        return ["Prometheus has no objectives for these applications, so none is met or missed."]
    placed = len({load.placement for load in loads}) > 1  # named if there are several
    broken = sorted((load for load in loads if load.met is False), key=_size)
    sentences = [_knee(loads, broken[0] if broken else None, placed=placed)]
    for (placement, instances), of in itertools.groupby(loads, key=lambda load: (load.placement, load.instances)):
        name = count(instances, "instance").capitalize() + (f", {placement}" if placed else "")
        sentences.append(f"{name}: {_curve(list(of))}")
    if broken:
        sentences += [_first_to_break(broken[0], placed=placed), _why(broken[0])]
    return sentences


def _knee(loads: Sequence[Load], first: Load | None, *, placed: bool) -> str:
    if first is None:
        judged = " where one could be judged" if any(load.met is None for load in loads) else ""
        return f"No objective was missed{judged}: this run did not reach the knee."
    if not any(load.met for load in loads):
        return "Objectives were missed at every load: the knee is below the smallest load of this run."
    below = [load for load in loads if load.met and load.placement == first.placement and _size(load) < _size(first)]
    where = f" ({first.placement})" if placed else ""
    if not below:
        return f"The knee{where} is at or below {_load(first)}, the smallest load that missed an objective."
    last = max(below, key=_size)
    if last.instances != first.instances:
        return f"The knee{where} is between {_load(last)} (met) and {_load(first)} (missed)."
    number = count(first.instances, "instance")
    return f"The knee{where} is with {number}, between {last.clients} clients each (met) and {first.clients} (missed)."


def _curve(loads: Sequence[Load]) -> str:
    met, missed, unknown = ([load.clients for load in loads if load.met is each] for each in (True, False, None))
    unsaid = f" Not judged: {_list(unknown)} clients." if unknown else ""
    if not missed and not met:
        return "not judged."
    if not missed:
        return f"every objective met up to {max(met)} clients per instance.{unsaid}"
    if not met:
        return f"objectives missed at every load judged, from {min(missed)} clients per instance on.{unsaid}"
    if max(met) < min(missed):
        return f"met up to {max(met)} clients per instance, missed from {min(missed)} on.{unsaid}"
    return f"met at {_list(met)} clients per instance, missed at {_list(missed)}.{unsaid}"


def _first_to_break(load: Load, *, placed: bool) -> str:
    missed = sorted((one for one in load.judged if one.met is False), key=lambda one: -(one.excess or 0))
    worst = {one.objective: one for one in reversed(missed)}
    described = "; ".join(_describe(one) for one in sorted(worst.values(), key=missed.index))
    where = _load(load) + (f", {load.placement}" if placed else "")
    apps = {app.name for each in load.results for app in each.apps if any(one.met is False for one in app.judged)}
    return f"First to break, at {where}: {described} (the worst of {count(len(apps), 'instance')} that missed)."


def _describe(judged: Judged) -> str:
    if judged.objective == "mean":
        measured, promised = RESPONSE.write(judged.measured), RESPONSE.write(judged.promised)
        return f"mean response {measured}, objective at most {promised}"
    what = f"answered within {RESPONSE.write(judged.seconds)}" if judged.seconds else "answered without error"
    return f"{SHARE.write(judged.measured)} {what}, objective {SHARE.write(judged.promised)}"


def _why(load: Load) -> str:
    broken = [each for each in load.results if any(one.met is False for app in each.apps for one in app.judged)]
    used, cpus = (mean(each.values.get(name) for each in broken) for name in ("tiers_cpu", "step_cpus"))
    full = ""
    if used is not None:
        full = f" All tiers together used {CPUS.write(used)}" + (f" of the {cpus:g} they share." if cpus else ".")
    cause, share = next(iter(mean_parts(broken, "causes").items()), ("", 0.0))
    if not cause:
        return f"Cause unknown: Prometheus has no app:breach_cause:info of that time.{full}"
    if cause == "unknown":
        return f"Cause unknown: no evidence (for {SHARE.write(share)} of the time).{full}"
    neighbours = mean_parts(broken, "neighbours") if cause == "neighbour" else {}
    named = ", ".join(f"{SHARE.write(part)} of that while {name} ran" for name, part in neighbours.items())
    who = f" It waited for its neighbours: {named}." if named else ""
    likely = f"Most likely cause: {CAUSES.get(cause, cause)} (cause {cause}, for {SHARE.write(share)} of the time)."
    return f"{likely}{who}{full}"


def _size(load: Load) -> tuple[int, int]:
    return load.instances * load.clients, load.instances


def _load(load: Load) -> str:
    return f"{count(load.instances, 'instance')} with {load.clients} clients" + (" each" if load.instances > 1 else "")


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
