"""The page of a consolidation: a chart and a table for each quantity against the load, and the objectives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.prometheus import Prometheus
from lab.report import charts, units
from lab.report.charts import Curve, Panel, Point, XAxis
from lab.report.consolidation.results import Judged, Load, StepResult, loads, mean, mean_parts, result
from lab.report.consolidation.steps import Answers, Recording, collect
from lab.report.consolidation.verdict import verdict
from lab.report.page import UNKNOWN, Asked, Page, Section, Study, Table, count, facts, incomplete, time
from lab.report.recorded import Run
from lab.report.units import MISSING, RESPONSE, SHARE, Unit, significant

AFTER = 2  # throughput and response times; then the objectives
ASKED_OF_OBJECTIVES = ("mean", "within", "errors", "objectives", "thresholds", "causes", "neighbours", "firing")
# The queries of values that follow from others.
_ASKED = {"network": ("client_mean", "mean"), "tiers_cpu": ("tier_cpu",), "named": ("neighbours",)}
_LOAD = ("Placement", "Instances", "Clients each", "Repetitions")
_IN_A_WORD = {True: "✓ met", False: "✗ MISSED", None: "not judged"}


@dataclass(frozen=True)
class Quantity:
    """A number of each step, as the study's file describes it."""

    title: str
    unit: Unit
    of: str
    drawn: bool
    objective: str

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Quantity:
        """A row of the file."""
        unit: Unit = getattr(units, row["unit"])
        return cls(row["title"], unit, row["of"], not row.get("hidden"), row.get("objective", ""))

    @property
    def asked(self) -> tuple[str, ...]:
        """The names of its queries."""
        return _ASKED.get(self.of, (self.of.partition(" ")[0],))

    def limits(self, of: Sequence[Load]) -> tuple[tuple[float, str], ...]:
        """Lines across its panel, in its axis's unit: an objective, or the CPUs that all tiers share."""
        found = {
            (one.promised, f"objective: {self.unit.write(one.promised)}")
            for load in of
            for one in load.judged
            if one.objective == self.objective
        }
        if self.of == "tiers_cpu":
            found = {(cpus, f"shared: {cpus:g} CPU") for load in of for cpus in load.values("step_cpus")}
        return tuple((value * self.unit.factor, text) for value, text in sorted(found))


def write_up(prometheus: Prometheus, run: Run, asked_at: float) -> Page:
    """The report of a run; raises `LabError`."""
    return page(collect(prometheus, run, asked_at))


def page(recording: Recording) -> Page:
    """The report of what was recorded."""
    study, results = Study.load("consolidation"), [result(answers) for answers in recording.steps]
    of = loads(results)
    every = [_section(key, recording, of, study) for key in study.content["sections"] if key != "objectives"]
    return Page(
        f"Run {recording.run.name}: scenario {recording.run.scenario}",
        (*verdict(of), *incomplete(len(recording.steps), recording.gauges.get("lab_run_planned_steps", 0))),
        _facts(recording, results),
        (*every[:AFTER], _objectives(recording, of, study), *every[AFTER:]),
        _overview(of),
        _steps(results),
        tuple(_remarks(results)),
        study,
    )


def _remarks(results: Sequence[StepResult]) -> list[tuple[str, str]]:
    """Each remark once, with its steps."""
    steps: dict[str, list[str]] = {}
    for each in results:
        for remark in each.remarks:
            steps.setdefault(remark, []).append(each.step.name)
    every = len(results)
    return [("Every step" if len(of) == every > 1 else ", ".join(of), remark) for remark, of in steps.items()]


def _facts(recording: Recording, results: Sequence[StepResult]) -> tuple[tuple[str, str], ...]:
    steps = [each.step for each in results]
    cost, scale = recording.gauges.get("lab_request_cpu_seconds"), recording.gauges.get("lab_study_clients")
    calibration = "not scaled: its own numbers of clients were run" if scale == 1 else UNKNOWN
    if scale and scale != 1:
        calibration = f"one client stands for {significant(scale)} of the study's"
    if cost:
        calibration += f"; a request cost {RESPONSE.write(cost)} of CPU when the run began"
    repetitions = count(max(step.repetition for step in steps), "repetition")
    what = f"{count(len(steps), 'step')}, {repetitions} of each load; warm-up is not in them"
    end = max(step.end for step in steps)
    return facts(recording, steps[0].start, end, what, steps[0].host, more=[("Calibration", calibration)])


def _section(key: str, recording: Recording, of: Sequence[Load], study: Study) -> Section:
    described = study.content["sections"][key]
    quantities = [Quantity.read(row) for row in described["quantities"]]
    figure = _chart(key, described["title"], quantities, of, study)
    names = dict.fromkeys(name for quantity in quantities for name in quantity.asked)
    return Section(
        key,
        described["title"],
        described["text"],
        figure,
        "" if figure else f"{described['absent']}{_why_no_misses(recording, of) if key == 'misses' else ''}",
        _figures(quantities, of) if figure else None,
        study.said.get(key, ""),
        _asked(recording, names),
    )


def _why_no_misses(recording: Recording, of: Sequence[Load]) -> str:
    reasons = sorted({reason for load in of for each in load.results for reason in each.why_no_misses})
    if reasons:
        host = recording.steps[0].step.host
        where = f'{", ".join(reasons)} (docs/perf-exporter.md, "What can be counted where").'
        return f" perf-exporter can't count them on {host}: {where}"
    return " No perf-exporter counted the tiers' cgroups while the run lasted."


def _objectives(recording: Recording, of: Sequence[Load], study: Study) -> Section:
    described, table = study.content["sections"]["objectives"], objectives_table(of)
    absent = "" if table else described["absent"]
    asked, said = _asked(recording, ASKED_OF_OBJECTIVES), study.said.get("objectives", "")
    return Section("objectives", described["title"], described["text"], None, absent, table, said, asked)


def _asked(recording: Recording, names: Iterable[str]) -> tuple[Asked, ...]:
    """The queries of every step."""

    def at(answers: Answers) -> str:
        step = answers.step
        return f"step {step.name}: {time(step.start)} to {time(step.end)}, {step.start} to {step.end} in Unix time"

    return tuple(
        Asked(at(answers), tuple(answers.asked[name] for name in names if name in answers.asked))
        for answers in recording.steps
        if answers.asked
    )


# --- Tables -----------------------------------------------------------------------------------------------------------


def _overview(of: Sequence[Load]) -> Table | None:
    """Instances down, clients across: every load met or missed at a glance; None if nothing was judged."""
    if not any(load.judged for load in of):
        return None
    clients = sorted({load.clients for load in of})
    rows: dict[str, dict[int, Load]] = {}
    for load in of:
        rows.setdefault(_name(load, of), {})[load.clients] = load
    return Table(
        ("Clients per instance", *map(str, clients)),
        tuple(
            (name, *(_met(row[number]) if number in row else "" for number in clients)) for name, row in rows.items()
        ),
    )


def _name(load: Load, of: Sequence[Load]) -> str:
    many = len({each.placement for each in of}) > 1
    return count(load.instances, "instance") + (f", {load.placement}" if many else "")


def _met(load: Load) -> str:
    """Every objective met or missed, and the mean response time over instances and repetitions."""
    return f"{_IN_A_WORD[load.met]}, {RESPONSE.write(mean(load.values('mean')))}"


def _figures(quantities: Sequence[Quantity], of: Sequence[Load]) -> Table:
    """A row for each load; quantities that aren't drawn have a column only if it isn't empty."""
    shown = [each for each in quantities if each.drawn or any(load.values(each.of) for load in of)]
    head = (*_LOAD, *(f"{quantity.title}, {quantity.unit.axis}" for quantity in shown))
    rows = tuple((*_load(load), *(_cell(quantity, load) for quantity in shown)) for load in of)
    return _without_one_placement(Table(head, rows))


def _cell(quantity: Quantity, load: Load) -> str:
    """The mean over repetitions, and their spread if there are several."""
    values = load.values(quantity.of)
    if not values:
        return MISSING
    number = quantity.unit.number
    text = number(sum(values) / len(values))
    if number(min(values)) != number(max(values)):
        text += f" ({number(min(values))} to {number(max(values))})"
    return text if len(values) == len(load.results) else f"{text}, {len(values)} of {len(load.results)} repetitions"


def objectives_table(of: Sequence[Load]) -> Table | None:
    """A row for each step: its objectives met or missed, and why most likely; None if nothing was judged."""
    judged = [one for load in of for one in load.judged]
    if not judged:
        return None
    heads = {
        objective: " or ".join(sorted({_promise(one) for one in judged if one.objective == objective}))
        for objective in ("mean", "latency", "availability")
        if any(one.objective == objective for one in judged)
    }
    apps = [app for load in of for each in load.results for app in each.instances]
    names, alerts = any(app.parts.get("neighbours") for app in apps), any(app.firing for app in apps)
    rows = []
    for load, each in [(one, each) for one in of for each in one.results]:
        verdicts = [one for app in each.instances for one in app.judged]
        missed = any(one.met is False for one in verdicts)
        why = [_shares(mean_parts([each], name)) if missed else "" for name in ("causes", "neighbours")]
        firing = ", ".join(sorted({name for app in each.instances for name in app.firing}))
        more = (*(why[1:] if names else ()), *((firing,) if alerts else ()))
        of_step = (_verdict(verdicts, objective) for objective in heads)
        rows.append((each.step.name, *_load(load)[:3], *of_step, why[0], *more))
    more = (*(["Neighbours named"] if names else []), *(["Alerts that fire at its end"] if alerts else []))
    head = ("Step", *_LOAD[:3], *heads.values(), "Most likely cause of a miss", *more)
    return _without_one_placement(Table(head, tuple(rows)))


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
    unit = RESPONSE if objective == "mean" else SHARE
    measured = [one for one in of if one.excess is not None]
    if not measured:
        return "not judged"
    furthest = max(measured, key=lambda one: one.excess or 0)
    missed = sum(one.met is False for one in of)
    unjudged = f", {len(of) - len(measured)} not judged" if len(measured) < len(of) else ""
    by = f" by {missed} of {len(of)}" if missed and len(of) > 1 else ""
    return f"{_IN_A_WORD[not missed]}{by}, {unit.write(furthest.measured)}{unjudged}"


def _steps(results: Sequence[StepResult]) -> Table:
    """Every step with its times."""
    rows = []
    for each in results:
        step = each.step
        load = Load(step.placement, step.instances, step.clients, (each,))
        times = (time(step.start), *map(str, (step.seconds, step.start, step.end)))
        rows.append((step.name, *_load(load)[:3], str(step.repetition), *times))
    head = ("Step", *_LOAD[:3], "Repetition", "Start", "Seconds", "Start, Unix time", "End, Unix time")
    return _without_one_placement(Table(head, tuple(rows)))


def _load(load: Load) -> tuple[str, str, str, str]:
    run = load.values("step_clients")
    really = f" ({significant(run[0])} run)" if run and run[0] != load.clients else ""
    return load.placement, str(load.instances), f"{load.clients}{really}", str(len(load.results))


def _without_one_placement(table: Table) -> Table:
    """Omit the placement if it is the same in every row."""
    at = table.head.index(_LOAD[0])
    if len({row[at] for row in table.rows}) > 1:
        return table
    without = [cells[:at] + cells[at + 1 :] for cells in (table.head, *table.rows)]
    return Table(without[0], tuple(without[1:]))


# --- Charts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Layout:
    """How the loads of a run are laid out in its charts.

    Along the x axis go the clients of an instance, and each number of instances is a curve; where all loads have the
    same clients, the instances go along the axis.
    """

    along_instances: bool
    shades: tuple[int, ...]
    """The numbers of instances; the place of one among them gives its shade and marker."""
    placements: tuple[str, ...]
    """The placements, in the same way for line style and filling."""
    x_axis: XAxis

    def curves(self, points: Iterable[tuple[str, int, Point]], *, many_placements: bool) -> tuple[Curve, ...]:
        """Curves of points by placement and instances, labelled with what distinguishes them."""
        groups: dict[tuple[str, int], list[Point]] = {}
        for placement, instances, point in points:
            groups.setdefault((placement, 0 if self.along_instances else instances), []).append(point)
        found = []
        for (placement, instances), of in groups.items():
            line = self.placements.index(placement)
            shade = line if self.along_instances else self.shades.index(instances)
            label = count(instances, "instance") + (f", {placement}" if many_placements else "")
            if any(point.values for point in of):
                found.append(Curve(placement if self.along_instances else label, tuple(of), shade, line))
        return tuple(found)

    def x(self, instances: int, clients: int) -> int:
        """The place of a load along the axis."""
        return instances if self.along_instances else clients


def _chart(key: str, title: str, quantities: Sequence[Quantity], of: Sequence[Load], study: Study) -> str | None:
    """The section's chart as SVG; None if there are no numbers for it."""
    rows = study.content["mean_response_seconds"]
    layout = _layout(of, rows)
    panels = []
    for each in (quantity for quantity in quantities if quantity.drawn):
        points = (
            (
                load.placement,
                load.instances,
                Point(
                    layout.x(load.instances, load.clients),
                    tuple(value * each.unit.factor for value in load.values(each.of)),
                ),
            )
            for load in of
        )
        curves = layout.curves(points, many_placements=len({load.placement for load in of}) > 1)
        panels.append(Panel(each.title, each.unit.axis, curves, each.limits(of), logarithmic=each.unit.logarithmic))
    if not any(panel.curves for panel in panels):
        return None
    xs, levels = {x for x, _ in layout.x_axis.ticks}, {load.clients for load in of}
    published = [
        (row["placement"], row["instances"], Point(layout.x(row["instances"], row["clients"]), (row["value"] * 1000,)))
        for row in rows
        if row["clients"] in levels and layout.x(row["instances"], row["clients"]) in xs
    ]
    if key == "response" and published:
        curves = layout.curves(published, many_placements=True)
        name = f"{study.short}, Xen: mean"
        panels.insert(1, Panel(name, RESPONSE.axis, curves, logarithmic=True, smooth=False))
    return charts.draw(panels, layout.x_axis, title)


def _layout(of: Sequence[Load], published: Sequence[Mapping[str, Any]]) -> _Layout:
    """The layout for these loads, with room for published numbers."""
    instances, clients = (sorted({getattr(load, name) for load in of}) for name in ("instances", "clients"))
    run = {load.clients: found[0] for load in of if (found := load.values("step_clients"))}
    scaled = any(really != number for number, really in run.items())
    along_instances = len(clients) == 1 and len(instances) > 1
    if along_instances:
        really = f" (really run: {significant(run[clients[0]])})" if scaled else ""
        x_axis = XAxis(f"instances, {clients[0]} clients each{really}", tuple((n, str(n)) for n in instances))
    else:
        ticks = tuple((n, f"{n}\n({significant(run[n])})" if scaled and n in run else str(n)) for n in clients)
        x_axis = XAxis("clients per instance" + (", in the study's numbers (really run)" if scaled else ""), ticks)
    placements = (*sorted({load.placement for load in of}), *(row["placement"] for row in published))
    shades = {*instances, *(row["instances"] for row in published)}
    return _Layout(along_instances, tuple(sorted(shades)), tuple(dict.fromkeys(placements)), x_axis)
