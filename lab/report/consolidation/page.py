"""The page of a consolidation: a chart and a table for each quantity against the load, and the objectives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lab.prometheus import Prometheus
from lab.report import charts, page, recorded, units
from lab.report.charts import Curve, Panel, Point
from lab.report.consolidation.queries import RUN_GAUGES
from lab.report.consolidation.results import Judged, Load, StepResult, collect, loads, mean, mean_parts
from lab.report.consolidation.verdict import verdict
from lab.report.page import Asked, Page, Section, Study, Table, compact, count, time
from lab.report.recorded import Run
from lab.report.units import MISSING, RESPONSE, SHARE, Unit, significant

ASKED_OF_OBJECTIVES = ("mean", "within", "errors", "objectives", "thresholds", "causes", "neighbours", "firing")
# The queries of derived values.
_ASKED = {"network": ("client_mean", "mean"), "tiers_cpu": ("tier_cpu",), "named": ("neighbours",)}
_LOAD = ("Placement", "Instances", "Clients each")
_IN_A_WORD = {True: "✓ met", False: "✗ MISSED", None: "not judged"}

Quantity = Mapping[str, Any]
"""A number of each step, from the study's file: title, unit, of, and perhaps hidden and objective."""


def write_up(prometheus: Prometheus, run: Run, asked_at: float) -> Page:
    results = collect(prometheus, run.name)
    recording = recorded.collect(prometheus, run, asked_at, RUN_GAUGES)
    study, of = page.load_study("consolidation"), loads(results)
    repetitions = count(max(each.step.repetition for each in results), "repetition")
    what = f"{count(len(results), 'step')}, {repetitions} of each load; warm-up is not in them"
    times = []
    for each in results:
        at = each.step
        times.append((*_step(each), str(at.repetition), time(at.start), *map(str, (at.seconds, at.start, at.end))))
    head = ("Step", *_LOAD, "Repetition", "Start", "Seconds", "Start, Unix time", "End, Unix time")
    return page.page(
        study,
        replace(recording, finished_steps=len(results)),
        verdict(of),
        [_section(key, results, of, study) for key in study["sections"]],
        compact(head, times, _LOAD[0]),
        facts=[("What", what), ("Calibration", _calibration(recording.gauges))],
        overview=_overview(of),
        remarks=_remarks(results),
    )


def _remarks(results: Sequence[StepResult]) -> list[tuple[str, str]]:
    steps: dict[str, list[str]] = {}
    for each in results:
        for remark in each.remarks:
            steps.setdefault(remark, []).append(each.step.name)
    every = len(results)
    return [("Every step" if len(of) == every > 1 else ", ".join(of), remark) for remark, of in steps.items()]


def _calibration(gauges: Mapping[str, float]) -> str:
    cost, scale = gauges.get("lab_request_cpu_seconds"), gauges.get("lab_study_clients")
    said = "not scaled: its own numbers of clients were run" if scale == 1 else "not recorded"
    if scale and scale != 1:
        said = f"one client stands for {significant(scale)} of the study's"
    return said + (f"; a request cost {RESPONSE.write(cost)} of CPU when the run began" if cost else "")


def _section(key: str, results: Sequence[StepResult], of: Sequence[Load], study: Study) -> Section:
    words = study["sections"][key]
    quantities = words.get("quantities", ())
    names = [name for each in quantities for name in _ASKED.get(each["of"], (each["of"].partition(" ")[0],))]
    figure = _chart(key, quantities, of, study) if quantities else None
    table = _figures(quantities, of) if figure else None
    if key == "objectives":
        table, names = objectives_table(of), [*ASKED_OF_OBJECTIVES]
    absent = words["absent"] + (_why_no_misses(results) if key == "misses" else "")
    asked = []
    for each in (each for each in results if each.asked):
        step = each.step
        at = f"{time(step.start)} to {time(step.end)}, {step.start} to {step.end} in Unix time"
        queries = tuple(each.asked[name] for name in dict.fromkeys(names) if name in each.asked)
        asked.append(Asked(f"step {step.name}: {at}", queries))
    return Section(key, table, figure, "" if table else absent, asked=tuple(asked))


def _why_no_misses(results: Sequence[StepResult]) -> str:
    prefix = "why_no_misses "
    reasons = sorted({key.removeprefix(prefix) for each in results for key in each.values if key.startswith(prefix)})
    if not reasons:
        return " No perf-exporter counted the tiers' cgroups while the run lasted."
    where = f'{", ".join(reasons)} (docs/perf-exporter.md, "What can be counted where").'
    return f" perf-exporter can't count them on {results[0].step.host}: {where}"


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
    rows = [(*_load(load), str(len(load.results)), *(_cell(each, load) for each in shown)) for load in of]
    return compact(head, rows, _LOAD[0])


def _cell(quantity: Quantity, load: Load) -> str:
    """The mean over repetitions, and their spread if there are several."""
    values, number = load.values(quantity["of"]), _unit(quantity).number
    if not values:
        return MISSING
    text = number(sum(values) / len(values))
    if number(min(values)) != number(max(values)):
        text += f" ({number(min(values))} to {number(max(values))})"
    return text if len(values) == len(load.results) else f"{text}, {len(values)} of {len(load.results)} repetitions"


def _unit(quantity: Quantity) -> Unit:
    found: Unit = getattr(units, quantity["unit"])
    return found


def objectives_table(of: Sequence[Load]) -> Table | None:
    """A row for each step: its objectives met or missed, and the most likely cause; None if nothing was judged."""
    promises: dict[str, set[str]] = {}
    for one in (judged for load in of for judged in load.judged):
        promises.setdefault(one.objective, set()).add(_promise(one))
    if not promises:
        return None
    rows = []
    for each in (each for load in of for each in load.results):
        judged = [judged for app in each.apps for judged in app.judged]
        missed = any(one.met is False for one in judged)
        why = (_shares(mean_parts([each], name)) if missed else "" for name in ("causes", "neighbours"))
        firing = ", ".join(sorted({alert for app in each.apps for alert in app.parts("firing")}))
        rows.append((*_step(each), *(_verdict(judged, objective) for objective in promises), *why, firing))
    heads = (" or ".join(sorted(promise)) for promise in promises.values())
    more = ("Most likely cause of a miss", "Neighbours named", "Alerts that fire at its end")
    return compact(("Step", *_LOAD, *heads, *more), rows, _LOAD[0])


def _shares(of: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {SHARE.write(share)}" for name, share in of.items())


def _promise(judged: Judged) -> str:
    if judged.objective == "mean":
        return f"Mean response at most {RESPONSE.write(judged.promised)}"
    what = f"Within {RESPONSE.write(judged.seconds)}" if judged.seconds else "Without error"
    return f"{what} at least {SHARE.write(judged.promised)}"


def _verdict(judged: Sequence[Judged], objective: str) -> str:
    """One objective in one step, over its instances: `met, 34 ms`, `MISSED by 3 of 4, 310 ms`."""
    of = [one for one in judged if one.objective == objective]
    measured = [one for one in of if one.excess is not None]
    if not measured:
        return "not judged"
    furthest = max(measured, key=lambda one: one.excess or 0)
    missed = sum(one.met is False for one in of)
    unjudged = f", {len(of) - len(measured)} not judged" if len(measured) < len(of) else ""
    by = f" by {missed} of {len(of)}" if missed and len(of) > 1 else ""
    unit = RESPONSE if objective == "mean" else SHARE
    return f"{_IN_A_WORD[not missed]}{by}, {unit.write(furthest.measured)}{unjudged}"


def _step(each: StepResult) -> tuple[str, ...]:
    step = each.step
    return step.name, *_load(Load(step.placement, step.instances, step.clients, (each,)))


def _load(load: Load) -> tuple[str, str, str]:
    run = load.values("step_clients")
    really = f" ({significant(run[0])} run)" if run and run[0] != load.clients else ""
    return load.placement, str(load.instances), f"{load.clients}{really}"


# --- Charts -----------------------------------------------------------------------------------------------------------


def _chart(key: str, quantities: Sequence[Quantity], of: Sequence[Load], study: Study) -> str | None:
    """The section's chart as SVG; None without numbers.

    The x axis shows the clients per instance, with a curve for each number of instances; if all loads have the same
    clients, it shows the instances.
    """
    published = study["mean_response_seconds"] if key == "response" else ()
    clients, instances = (sorted({getattr(load, name) for load in of}) for name in ("clients", "instances"))
    along = "instances" if len(clients) == 1 < len(instances) else "clients"
    placements = list(dict.fromkeys((*(load.placement for load in of), *(row["placement"] for row in published))))
    shades = sorted({*instances, *(row["instances"] for row in published)})

    def curves(points: Iterable[tuple[Mapping[str, Any], tuple[float, ...]]], factor: float) -> tuple[Curve, ...]:
        found: dict[tuple[str, int], list[Point]] = {}
        for load, values in points:
            curve = (load["placement"], 0 if along == "instances" else load["instances"])
            found.setdefault(curve, []).append((load[along], tuple(value * factor for value in values)))
        return tuple(
            Curve(
                ", ".join(
                    [count(number, "instance")] * bool(number) + [placement] * (not number or len(placements) > 1)
                ),
                tuple(drawn),
                shades.index(number) if number else placements.index(placement),
                placements.index(placement),
            )
            for (placement, number), drawn in found.items()
            if any(values for _, values in drawn)
        )

    panels = []
    for each in (quantity for quantity in quantities if not quantity.get("hidden")):
        unit = _unit(each)
        drawn = curves(((vars(load), load.values(each["of"])) for load in of), unit.factor)
        panels.append(Panel(each["title"], unit.axis, drawn, _limits(each, of), logarithmic=unit.logarithmic))
    if not any(panel.curves for panel in panels):
        return None
    theirs = curves(
        (
            (row, (row["value"],))
            for row in published
            if row["clients"] in clients and (along == "clients" or row["instances"] in instances)
        ),
        RESPONSE.factor,
    )
    if theirs:
        name = f"{study['source']['short']}, Xen: mean"
        panels.insert(1, Panel(name, RESPONSE.axis, theirs, logarithmic=True, smooth=False))
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
        (one.promised, f"objective: {unit.write(one.promised)}")
        for load in of
        for one in load.judged
        if one.objective == quantity.get("objective")
    }
    if quantity["of"] == "tiers_cpu":
        found = {(cpus, f"shared: {cpus:g} CPU") for load in of for cpus in load.values("step_cpus")}
    return tuple((value * unit.factor, text) for value, text in sorted(found))
