"""The report of a consolidation: a chart and a table for each quantity against the load, the objectives, the knee."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.clients.metrics import LATE_SHARE
from lab.measuring import RATE_SECONDS, Span, parts, queries
from lab.report import charts, units
from lab.report.charts import Curve, Panel
from lab.report.comparison import by_step
from lab.report.page import Asked, Page, Section, Study, Table, compact, count, load_study, page, time
from lab.report.recorded import Recording
from lab.report.units import CPUS, MISSING, RESPONSE, SHARE, Unit, significant
from lab.scenario import Step

OBJECTIVES = ("mean", "latency", "availability")
CAUSES = {
    "self": "it reached its own CPU limit",
    "neighbour": "neighbours on the same host took CPU or cache",
    "hypervisor": "the host itself took the CPU",
    "load": "it had more requests than ever before",
}
UNSEEN_SHARE = 0.001  # minimum share of failures for a remark
_LOAD = ("Placement", "Instances", "Clients each")
_IN_A_WORD = {True: "✓ met", False: "✗ MISSED", None: "not judged"}

Values = Mapping[str, float]
"""A step's values by test: see lab.measuring."""
Quantity = Mapping[str, Any]
"""A number of each step, from the study's file: title, unit, of, and perhaps hidden and objective."""


@dataclass(frozen=True)
class Judged:
    """One objective in one step; `values` are its tests without the objective: see lab.measuring."""

    objective: str
    values: Values
    apps: int

    @property
    def missed(self) -> int:
        return round(self.values["missed"])

    @property
    def unjudged(self) -> int:
        return self.apps - round(self.values["judged"])

    @property
    def met(self) -> bool | None:
        if self.missed:
            return False
        return None if self.unjudged else True

    @property
    def unit(self) -> Unit:
        return RESPONSE if self.objective == "mean" else SHARE

    @property
    def measured(self) -> str:
        return self.unit.write(self.values.get("measured"))

    @property
    def promise(self) -> tuple[str, str]:
        """What is measured, and its target, in words."""
        promised = self.unit.write(self.values["promised"])
        if self.objective == "mean":
            return "mean response", f"at most {promised}"
        seconds = self.values.get("seconds")
        return f"within {RESPONSE.write(seconds)}" if seconds else "without error", f"at least {promised}"


def judged(step: Step, found: Values) -> list[Judged]:
    of = ((objective, parts(found, objective)) for objective in OBJECTIVES)
    return [Judged(objective, values, step.instances) for objective, values in of if "promised" in values]


@dataclass(frozen=True)
class Load:
    """A number of instances and of clients per instance, in one placement; `steps` are its repetitions."""

    placement: str
    instances: int
    clients: int
    steps: Mapping[Step, Values]

    def values(self, of: str) -> tuple[float, ...]:
        return tuple(found[of] for found in self.steps.values() if of in found)

    @property
    def judged(self) -> list[Judged]:
        return [one for step, found in self.steps.items() for one in judged(step, found)]

    @property
    def met(self) -> bool | None:
        verdicts = [one.met for one in self.judged]
        if False in verdicts:
            return False
        return None if None in verdicts or not verdicts else True

    @property
    def broken(self) -> list[Values]:
        """The steps that missed an objective."""
        return [found for step, found in self.steps.items() if any(one.missed for one in judged(step, found))]

    def __str__(self) -> str:
        return f"{count(self.instances, 'instance')} with {self.clients} clients" + " each" * (self.instances > 1)


def loads(steps: Mapping[Step, Values]) -> list[Load]:
    groups: dict[tuple[str, int, int], dict[Step, Values]] = {}
    for step, found in steps.items():
        groups.setdefault((step.setting, step.instances, step.clients), {})[step] = found
    return [Load(*of, group) for of, group in sorted(groups.items(), key=lambda one: one[0])]


def mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def mean_parts(steps: Iterable[Values], name: str) -> dict[str, float]:
    """The mean over steps of each part of a value, such as each cause's share of the time; largest first."""
    there = [found for values in steps if (found := parts(values, name))]
    means = {part: sum(of.get(part, 0) for of in there) / len(there) for of in there for part in of}
    return dict(sorted(means.items(), key=lambda item: (-item[1], item[0])))


def write_up(recording: Recording) -> Page:
    steps = by_step(recording.measurements, Step.parse)
    study, of, gauges = load_study("consolidation"), loads(steps), recording.gauges
    cost, scale = gauges.get("lab_request_cpu_seconds"), gauges.get("lab_study_clients")
    scaled = "not scaled: its own numbers of clients were run" if scale == 1 else "not recorded"
    if scale and scale != 1:
        scaled = f"one client stands for {significant(scale)} of the study's"
    calibration = scaled + (f"; a request cost {RESPONSE.write(cost)} of CPU when the run began" if cost else "")
    times, asked = [], []
    for step, found in sorted(steps.items(), key=lambda one: one[1]["end"]):
        at = Span(recording.run.host, "cgroup", round(found["end"] - found["seconds"]), round(found["end"]))
        begin = time(at.start)
        times.append((*_step(step, found), str(step.repetition), begin, *map(str, (at.seconds, at.start, at.end))))
        texts = queries(at, step.apps, found.get("latency seconds", 1.0)).values()
        asked.append(Asked(f"step {step.name}: {begin} to {time(at.end)}", tuple(texts)))
    head = ("Step", *_LOAD, "Repetition", "Start", "Seconds", "Start, Unix time", "End, Unix time")
    keys = [key for key in study["sections"] if key != "queries"]
    return page(
        study,
        recording,
        verdict(of),
        [*(_section(key, of, study) for key in keys), Section("queries", None, asked=asked)],
        compact(head, times, _LOAD[0]),
        facts=[("Calibration", calibration)],
        overview=_overview(of),
        remarks=_remarks(steps),
    )


def _remarks(steps: Mapping[Step, Values]) -> list[tuple[str, str]]:
    of: dict[str, list[str]] = {}
    for step, found in steps.items():
        for remark in _of_step(step, found):
            of.setdefault(remark, []).append(step.name)
    return [
        ("Every step" if len(names) == len(steps) > 1 else ", ".join(names), remark) for remark, names in of.items()
    ]


def _of_step(step: Step, found: Values) -> Iterator[str]:
    if (reach := RATE_SECONDS - round(found["seconds"])) > 0:
        yield f"shorter than two minutes: CPU and waiting, rates over two minutes, reach back to {reach} s before it"
    if found.get("late_starts", 0.0) > LATE_SHARE:
        yield (
            "the clients lacked CPU and sent requests late (see Clients): the load was less even than intended, "
            "and response times are not only the application's"
        )
    for what, key in (("sensor", "sensors"), ("client", "clients_seen")):
        if missing := step.instances - round(found[key]):
            why = "it restarted, or was not seen all the time"
            yield f"no {what} values of {missing} of {count(step.instances, 'instance')}, as {why}"
    if (unseen := found.get("unseen_failures", 0.0)) > UNSEEN_SHARE:
        yield (
            f"{SHARE.write(unseen)} of an instance's requests failed for the clients and not by its log: they timed "
            "out or never got there, and no objective counts them"
        )


def _section(key: str, of: Sequence[Load], study: Study) -> Section:
    words = study["sections"][key]
    quantities = words.get("quantities", ())
    figure = _chart(quantities, of) if quantities else None
    table = _figures(quantities, of) if figure else None
    if key == "objectives":
        table = objectives_table(of)
    absent = words["absent"] + (_why_no_misses(of) if key == "misses" else "")
    return Section(key, table, figure, "" if table else absent)


def _why_no_misses(of: Sequence[Load]) -> str:
    reasons = sorted(
        {reason for load in of for found in load.steps.values() for reason in parts(found, "why_no_misses")}
    )
    if not reasons:
        return " No perf-exporter counted the tiers' cgroups while the run lasted."
    where = f'{", ".join(reasons)} (docs/perf-exporter.md, "What can be counted where").'
    return f" perf-exporter can't count them here: {where}"


# --- Verdict ----------------------------------------------------------------------------------------------------------


def verdict(loads: Sequence[Load]) -> list[str]:
    if not any(load.judged for load in loads):
        return ["Prometheus has no objectives for these applications, so none is met or missed."]
    placed = len({load.placement for load in loads}) > 1  # named if there are several
    broken = sorted((load for load in loads if load.met is False), key=_size)
    sentences = [_knee(loads, broken[0] if broken else None, placed=placed)]
    if broken:
        sentences += [_first_to_break(broken[0], placed=placed), _why(broken[0])]
    return sentences


def _size(load: Load) -> tuple[int, int]:
    return load.instances * load.clients, load.instances


def _knee(loads: Sequence[Load], first: Load | None, *, placed: bool) -> str:
    if first is None:
        judged = " where one could be judged" if any(load.met is None for load in loads) else ""
        return f"No objective was missed{judged}: this run did not reach the knee."
    if not any(load.met for load in loads):
        return "Objectives were missed at every load: the knee is below the smallest load of this run."
    below = [load for load in loads if load.met and load.placement == first.placement and _size(load) < _size(first)]
    where = f" ({first.placement})" if placed else ""
    if not below:
        return f"The knee{where} is at or below {first}, the smallest load that missed an objective."
    last = max(below, key=_size)
    if last.instances != first.instances:
        return f"The knee{where} is between {last} (met) and {first} (missed)."
    number = count(first.instances, "instance")
    return f"The knee{where} is with {number}, between {last.clients} clients each (met) and {first.clients} (missed)."


def _first_to_break(load: Load, *, placed: bool) -> str:
    missed = sorted((one for one in load.judged if one.missed), key=lambda one: -one.values["excess"])
    worst = {one.objective: one for one in reversed(missed)}
    described = "; ".join(_describe(one) for one in sorted(worst.values(), key=missed.index))
    where = f"{load}, {load.placement}" if placed else f"{load}"
    apps = count(max(one.missed for one in missed), "instance")
    return f"First to break, at {where}: {described} (the worst of {apps} that missed)."


def _describe(one: Judged) -> str:
    what, target = one.promise
    if one.objective == "mean":
        return f"{what} {one.measured}, objective {target}"
    return f"{one.measured} answered {what}, objective {target.removeprefix('at least ')}"


def _why(load: Load) -> str:
    used, cpus = (mean([found[name] for found in load.broken if name in found]) for name in ("tiers_cpu", "step_cpus"))
    full = ""
    if used is not None:
        full = f" All tiers together used {CPUS.write(used)}" + (f" of the {cpus:g} they share." if cpus else ".")
    cause, share = next(iter(mean_parts(load.broken, "causes").items()), ("", 0.0))
    if not cause:
        return f"Cause unknown: Prometheus has no app:breach_cause:info of that time.{full}"
    if cause == "unknown":
        return f"Cause unknown: no evidence (for {SHARE.write(share)} of the time).{full}"
    neighbours = mean_parts(load.broken, "neighbours") if cause == "neighbour" else {}
    named = ", ".join(f"{SHARE.write(part)} of that while {name} ran" for name, part in neighbours.items())
    who = f" It waited for its neighbours: {named}." if named else ""
    likely = f"Most likely cause: {CAUSES.get(cause, cause)} (cause {cause}, for {SHARE.write(share)} of the time)."
    return f"{likely}{who}{full}"


# --- Tables -----------------------------------------------------------------------------------------------------------


def _overview(of: Sequence[Load]) -> Table | None:
    """Instances by clients: which loads met all objectives; None if nothing was judged."""
    if not any(load.judged for load in of):
        return None
    clients = sorted({load.clients for load in of})
    many = len({load.placement for load in of}) > 1
    rows: dict[str, dict[int, str]] = {}
    for load in of:
        name = count(load.instances, "instance") + (f", {load.placement}" if many else "")
        met = f"{_IN_A_WORD[load.met]}, {RESPONSE.write(mean(load.values('mean')))}"
        rows.setdefault(name, {})[load.clients] = met
    cells = tuple((name, *(row.get(number, "") for number in clients)) for name, row in rows.items())
    return Table(("Clients per instance", *map(str, clients)), cells)


def _figures(quantities: Sequence[Quantity], of: Sequence[Load]) -> Table:
    """A row for each load; quantities that aren't drawn only have a column if it isn't empty."""
    shown = [each for each in quantities if not each.get("hidden") or any(load.values(each["of"]) for load in of)]
    head = (*_LOAD, "Repetitions", *(f"{each['title']}, {_unit(each).axis}" for each in shown))
    rows = [(*_load(load), str(len(load.steps)), *(_cell(each, load) for each in shown)) for load in of]
    return compact(head, rows, _LOAD[0])


def _cell(quantity: Quantity, load: Load) -> str:
    """The mean over repetitions, and their spread if there are several."""
    values, number = load.values(quantity["of"]), _unit(quantity).number
    if not values:
        return MISSING
    text = number(sum(values) / len(values))
    if number(min(values)) != number(max(values)):
        text += f" ({number(min(values))} to {number(max(values))})"
    return text if len(values) == len(load.steps) else f"{text}, {len(values)} of {len(load.steps)} repetitions"


def _unit(quantity: Quantity) -> Unit:
    found: Unit = getattr(units, quantity["unit"])
    return found


def objectives_table(of: Sequence[Load]) -> Table | None:
    """A row for each step: its objectives met or missed, and the most likely cause; None if nothing was judged."""
    promises: dict[str, set[str]] = {}
    for one in (one for load in of for one in load.judged):
        promises.setdefault(one.objective, set()).add(" ".join(one.promise).capitalize())
    if not promises:
        return None
    rows = []
    for step, found in ((step, found) for load in of for step, found in load.steps.items()):
        each = {one.objective: one for one in judged(step, found)}
        missed = any(one.missed for one in each.values())
        why = (mean_parts([found], name) if missed else {} for name in ("causes", "neighbours"))
        shares = (", ".join(f"{name} {SHARE.write(share)}" for name, share in of.items()) for of in why)
        verdicts = (_verdict(each.get(objective)) for objective in promises)
        rows.append((*_step(step, found), *verdicts, *shares, ", ".join(sorted(parts(found, "firing")))))
    heads = (" or ".join(sorted(promise)) for promise in promises.values())
    more = ("Most likely cause of a miss", "Neighbours named", "Alerts that fire at its end")
    return compact(("Step", *_LOAD, *heads, *more), rows, _LOAD[0])


def _verdict(one: Judged | None) -> str:
    """One objective in one step, over its instances: `met, 34 ms`, `MISSED by 3 of 4, 310 ms`."""
    if one is None or "measured" not in one.values:
        return "not judged"
    unjudged = f", {one.unjudged} not judged" if one.unjudged else ""
    by = f" by {one.missed} of {one.apps}" if one.missed and one.apps > 1 else ""
    return f"{_IN_A_WORD[not one.missed]}{by}, {one.measured}{unjudged}"


def _step(step: Step, found: Values) -> tuple[str, ...]:
    return step.name, *_load(Load(step.setting, step.instances, step.clients, {step: found}))


def _load(load: Load) -> tuple[str, str, str]:
    run = load.values("step_clients")
    really = f" ({significant(run[0])} run)" if run and run[0] != load.clients else ""
    return load.placement, str(load.instances), f"{load.clients}{really}"


# --- Charts -----------------------------------------------------------------------------------------------------------


def _chart(quantities: Sequence[Quantity], of: Sequence[Load]) -> str | None:
    """The section's chart as SVG; None without numbers.

    The x axis shows the clients per instance, with a curve for each number of instances; if all loads have the same
    clients, it shows the instances.
    """
    clients, instances = (sorted({getattr(load, name) for load in of}) for name in ("clients", "instances"))
    along = "instances" if len(clients) == 1 < len(instances) else "clients"
    placements = list(dict.fromkeys(load.placement for load in of))
    groups: dict[tuple[str, int], list[Load]] = {}
    for load in of:
        groups.setdefault((load.placement, 0 if along == "instances" else load.instances), []).append(load)
    panels = []
    for each in (quantity for quantity in quantities if not quantity.get("hidden")):
        unit, curves = _unit(each), []
        for (placement, number), group in groups.items():
            name = [count(number, "instance")] * bool(number) + [placement] * (not number or len(placements) > 1)
            points = [
                (getattr(load, along), [value * unit.factor for value in load.values(each["of"])]) for load in group
            ]
            line = placements.index(placement)
            if any(values for _, values in points):
                curves.append(Curve(", ".join(name), points, instances.index(number) if number else line, line))
        panels.append(Panel(each["title"], unit.axis, curves, _limits(each, of), logarithmic=unit.logarithmic))
    if not any(panel.curves for panel in panels):
        return None
    really = {load.clients: run[0] for load in of if (run := load.values("step_clients")) and run[0] != load.clients}
    if along == "instances":
        scaled = f" (really run: {significant(really[clients[0]])})" if really else ""
        ticks = tuple((n, str(n)) for n in instances)
        return charts.draw(panels, f"instances, {clients[0]} clients each{scaled}", ticks)
    ticks = tuple((n, f"{n}\n({significant(really[n])})" if n in really else str(n)) for n in clients)
    scaled = ", in the study's numbers (really run)" if really else ""
    return charts.draw(panels, f"clients per instance{scaled}", ticks)


def _limits(quantity: Quantity, of: Sequence[Load]) -> tuple[tuple[float, str], ...]:
    """Lines across a panel, in its axis's unit: an objective, or the CPUs that all tiers share."""
    unit = _unit(quantity)
    found = {
        (one.values["promised"], f"objective: {unit.write(one.values['promised'])}")
        for load in of
        for one in load.judged
        if one.objective == quantity.get("objective")
    }
    if quantity["of"] == "tiers_cpu":
        found = {(cpus, f"shared: {cpus:g} CPU") for load in of for cpus in load.values("step_cpus")}
    return tuple((value * unit.factor, text) for value, text in sorted(found))
