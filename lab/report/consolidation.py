"""The report of a consolidation: a chart and a table for each quantity against the load, the objectives, the knee."""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lab.clients.metrics import LATE_SHARE
from lab.measuring import RATE_SECONDS, Span, parts, queries
from lab.report import charts, units
from lab.report.charts import Curve, Panel, Point
from lab.report.comparison import by_step
from lab.report.page import Columns, Page, Section, Study, Table, load_study, table
from lab.report.recorded import Asked, Recording, count, time
from lab.report.units import CPUS, MISSING, RESPONSE, SHARE, Unit, significant
from lab.scenario import NONE, RUNNING, Step

OBJECTIVES = ("mean", "latency", "availability")
UNSEEN_SHARE = 0.001  # minimum share of failures for a remark
_AT = {"cpu": "the CPU", "disk": "the disk", "memory": "memory", "interrupts": "interrupts"}
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
    def met(self) -> bool | None:
        return False if self.missed else None if self.values["judged"] < self.apps else True

    @property
    def unit(self) -> Unit:
        return RESPONSE if self.objective == "mean" else SHARE

    @property
    def promise(self) -> str:
        """What is measured, and its target, in words."""
        promised, seconds = self.unit.write(self.values["promised"]), self.values.get("seconds")
        if self.objective == "mean":
            return f"mean response at most {promised}"
        return f"{f'within {RESPONSE.write(seconds)}' if seconds else 'without error'} at least {promised}"

    def __str__(self) -> str:
        """Over its instances, such as `MISSED by 3 of 4, 310 ms`."""
        if "measured" not in self.values:
            return _IN_A_WORD[None]
        unknown = self.apps - round(self.values["judged"])
        unjudged = f", {unknown} not judged" if unknown else ""
        by = f" by {self.missed} of {self.apps}" if self.missed and self.apps > 1 else ""
        return f"{_IN_A_WORD[not self.missed]}{by}, {self.unit.write(self.values['measured'])}{unjudged}"


@dataclass(frozen=True)
class Load:
    """A number of instances and of clients per instance, in one setting; `steps` are its repetitions."""

    steps: Mapping[Step, Values]

    @property
    def step(self) -> Step:
        return next(iter(self.steps))

    @property
    def size(self) -> tuple[int, int]:
        return self.step.instances * self.step.clients, self.step.instances

    def values(self, of: str) -> tuple[float, ...]:
        return tuple(found[of] for found in self.steps.values() if of in found)

    def mean(self, of: str) -> float | None:
        return statistics.fmean(values) if (values := self.values(of)) else None

    def parts(self, name: str) -> dict[str, float]:
        """The mean of each part of a value, such as each cause's share of the time; largest first."""
        there = [found for values in self.steps.values() if (found := parts(values, name))]
        means = {part: sum(of.get(part, 0) for of in there) / len(there) for of in there for part in of}
        return dict(sorted(means.items(), key=lambda item: (-item[1], item[0])))

    @property
    def judged(self) -> list[Judged]:
        of = ((objective, parts(found, objective)) for found in self.steps.values() for objective in OBJECTIVES)
        return [Judged(objective, values, self.step.instances) for objective, values in of if "promised" in values]

    @property
    def met(self) -> bool | None:
        verdicts = [one.met for one in self.judged]
        return False if False in verdicts else None if None in verdicts or not verdicts else True

    @property
    def really(self) -> str:
        """The number of clients that ran, if it is another."""
        run = self.values("step_clients")
        return significant(run[0]) if run and run[0] != self.step.clients else ""

    def __str__(self) -> str:
        each = " each" if self.step.instances > 1 else ""
        return f"{count(self.step.instances, 'instance')} with {self.step.clients} clients{each}"


PLACEMENT = "Placement"
COLUMNS: Columns[Load] = (
    (PLACEMENT, lambda load: load.step.setting),
    ("Instances", lambda load: str(load.step.instances)),
    ("Clients each", lambda load: f"{load.step.clients}" + (f" ({load.really} run)" if load.really else "")),
)
STEP: Columns[Load] = (("Step", lambda load: load.step.name), *COLUMNS)


def loads(steps: Mapping[Step, Values]) -> list[Load]:
    groups: dict[tuple[str, int, int], dict[Step, Values]] = {}
    for step, found in steps.items():
        groups.setdefault((step.setting, step.instances, step.clients), {})[step] = found
    return [Load(group) for _, group in sorted(groups.items(), key=lambda one: one[0])]


def singly(of: Sequence[Load]) -> list[Load]:
    """Each step on its own."""
    return [Load({step: found}) for load in of for step, found in load.steps.items()]


def write_up(recording: Recording) -> Page:
    study, of = load_study("consolidation"), loads(by_step(recording.measurements, Step.parse))
    steps = sorted(singly(of), key=lambda load: load.values("end"))
    asked, remarks = [], defaultdict[str, list[str]](list)
    for load in steps:
        step, found = load.step, load.steps[load.step]
        span = Span(recording.info["host"], "cgroup", _start(load), round(found["end"]))
        texts = queries(span, step.apps, found.get("latency seconds", 1.0)).values()
        asked.append(Asked(f"step {step.name}: {time(span.start)} to {time(span.end)}", tuple(texts)))
        for remark in _remarks(step, found):
            remarks[remark].append(step.name)
    columns: Columns[Load] = (
        *STEP,
        ("Repetition", lambda load: str(load.step.repetition)),
        ("Start", lambda load: time(_start(load))),
        ("Seconds", lambda load: f"{load.mean('seconds'):.0f}"),
    )
    keys = [key for key in study["sections"] if key != "queries"]
    return Page(
        recording,
        verdict(of),
        [*(_section(key, of, study) for key in keys), Section("queries", None, asked=asked)],
        steps=table(steps, columns, PLACEMENT),
        facts={"Calibration": _calibration(steps)},
        overview=_overview(of),
        remarks=[
            ("Every step" if len(names) == len(steps) > 1 else ", ".join(names), remark)
            for remark, names in remarks.items()
        ],
    )


def _start(load: Load) -> int:
    return round(load.values("end")[0] - load.values("seconds")[0])


def _calibration(steps: Sequence[Load]) -> str:
    [load, *_] = steps or [Load({})]
    cost, scale = load.mean("request_cpu_seconds") or 0.0, load.mean("study_clients")
    if scale == 1:
        return "not scaled: its own numbers of clients were run"
    if not scale:
        return "not recorded"
    of_study = f"one client stands for {significant(scale)} of the study's"
    return f"{of_study}; a request cost {RESPONSE.write(cost)} of CPU when the run began"


def _remarks(step: Step, found: Values) -> Iterator[str]:
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
    shown = _figures(quantities, of) if figure else objectives_table(of) if key == "objectives" else None
    return Section(key, shown, figure, "" if shown else words["absent"])


# --- Verdict ----------------------------------------------------------------------------------------------------------


def verdict(of: Sequence[Load]) -> list[str]:
    if not any(load.judged for load in of):
        return ["Prometheus has no objectives for these applications, so none is met or missed."]
    broken = sorted((load for load in of if load.met is False), key=lambda load: load.size)
    if not broken:
        judged = " where one could be judged" if any(load.met is None for load in of) else ""
        return [f"No objective was missed{judged}: this run did not reach the knee.", *_added(of)]
    first = broken[0]
    placed = f" ({first.step.setting})" if len({load.step.setting for load in of}) > 1 else ""
    below = [load for load in of if load.met and load.step.setting == first.step.setting and load.size < first.size]
    knee = f"at or below {first}, the smallest load that missed an objective"
    if below:
        knee = f"between {max(below, key=lambda load: load.size)} (met) and {first} (missed)"
    worst = max((one for one in first.judged if one.missed), key=lambda one: one.values["excess"])
    broke = f"{worst.unit.write(worst.values['measured'])}, objective: {worst.promise}"
    return [f"The knee{placed} is {knee}.", f"First to break, at {first}: {broke}.", _why(first), *_added(of)]


def _why(load: Load) -> str:
    missed = [one for one in singly([load]) if any(each.missed for each in one.judged)]
    broken = Load({step: found for one in missed for step, found in one.steps.items()})
    used, cpus = broken.mean("tiers_cpu"), broken.mean("step_cpus")
    full = f" All tiers together used {CPUS.write(used)} of the {cpus:g} they share." if used and cpus else ""
    cause, share = next(iter(broken.parts("causes").items()), ("", 0.0))
    if not cause:
        return f"Cause unknown: Prometheus has no app:breach_cause:info of that time.{full}"
    if cause == "unknown":
        return f"Cause unknown: no evidence (for {SHARE.write(share)} of the time).{full}"
    words = load_study("consolidation")["causes"].get(cause, cause)
    likely = f"Most likely cause: {words} (cause {cause}, for {SHARE.write(share)} of the time)."
    if cause == "neighbour" and (neighbours := broken.parts("neighbours")):
        named = ", ".join(f"{SHARE.write(part)} of that for {_place(name)}" for name, part in neighbours.items())
        likely += f" It waited for its neighbours: {named}."
    return f"{likely}{full}"


def _place(part: str) -> str:
    """Part of a value in words: `batch at the CPU` for `batch cpu`, and a cause as it is."""
    name, _, resource = part.rpartition(" ")
    return f"{name} at {_AT[resource]}" if name else part


def _added(of: Sequence[Load]) -> Iterator[str]:
    """What the batch job added to each request, and how much of that is a wait for neighbours.

    What a request takes beyond its CPU time and its waits, it mostly queued for one of the site's few processes. They
    are held by requests that wait: the neighbours' share of the queue is estimated as their share of that time.
    """
    for load in of:
        if load.step.batch != RUNNING:
            continue
        alone = next((one for one in of if one.step == replace(load.step, batch=NONE)), Load({load.step: {}}))
        took, before, was = load.mean("mean"), alone.mean("mean"), alone.parts("delayed")
        if took is None or before is None or took <= before:
            continue
        longer = {_AT[name]: max(part - was.get(name, 0.0), 0.0) for name, part in load.parts("delayed").items()}
        said = f"The batch job added {RESPONSE.write(took - before)} to each request of {load}."
        if longer:  # otherwise waiting isn't measured
            parts = ", ".join(f"{RESPONSE.write(part)} at {where}" for where, part in longer.items() if part)
            said += f" Waiting for neighbours explains {SHARE.write(sum(longer.values()) / (took - before))} of that"
            said += f": {parts}." if parts else "."
        held, waited = load.mean("held"), sum(load.parts("delayed").values())
        if held and (queued := (took - held) * waited / held) > 0:
            with_queue = SHARE.write((sum(longer.values()) + queued) / (took - before))
            said += (
                f" With the requests that queued for the site's processes meanwhile, it is {with_queue} (estimated)."
            )
        yield said


# --- Tables -----------------------------------------------------------------------------------------------------------


def _overview(of: Sequence[Load]) -> Table | None:
    """Instances by clients: which loads met all objectives; None if nothing was judged."""
    if not any(load.judged for load in of):
        return None
    many = len({load.step.setting for load in of}) > 1
    rows: dict[str, dict[int, str]] = {}
    for load in of:
        name = count(load.step.instances, "instance") + (f", {load.step.setting}" if many else "")
        rows.setdefault(name, {})[load.step.clients] = f"{_IN_A_WORD[load.met]}, {RESPONSE.write(load.mean('mean'))}"
    clients = sorted({load.step.clients for load in of})
    cells = tuple((name, *(row.get(number, "") for number in clients)) for name, row in rows.items())
    return Table(("Clients per instance", *map(str, clients)), cells)


def _figures(quantities: Sequence[Quantity], of: Sequence[Load]) -> Table:
    """A row for each load; quantities that aren't drawn only have a column if it isn't empty."""
    columns: Columns[Load] = (
        *COLUMNS,
        ("Repetitions", lambda load: str(len(load.steps))),
        *(
            (f"{each['title']}, {_unit(each).axis}", lambda load, each=each: _cell(each, load))
            for each in quantities
            if not each.get("hidden") or any(load.values(each["of"]) for load in of)
        ),
    )
    return table(of, columns, PLACEMENT)


def _cell(quantity: Quantity, load: Load) -> str:
    """The mean over repetitions, and their spread if there are several."""
    values, number = load.values(quantity["of"]), _unit(quantity).number
    if not values:
        return MISSING
    text = number(statistics.fmean(values))
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
        promises.setdefault(one.objective, set()).add(one.promise.capitalize())
    if not promises:
        return None

    def verdict(load: Load, objective: str) -> str:
        return next((str(one) for one in load.judged if one.objective == objective), _IN_A_WORD[None])

    def shares(load: Load, name: str) -> str:
        of = load.parts(name) if any(one.missed for one in load.judged) else {}
        return ", ".join(f"{_place(part)} {SHARE.write(share)}" for part, share in of.items())

    columns: Columns[Load] = (
        *STEP,
        *(
            (" or ".join(sorted(promise)), lambda load, objective=objective: verdict(load, objective))
            for objective, promise in promises.items()
        ),
        ("Most likely cause of a miss", lambda load: shares(load, "causes")),
        ("Neighbours named", lambda load: shares(load, "neighbours")),
        ("Alerts that fire at its end", lambda load: ", ".join(sorted(load.parts("firing")))),
    )
    return table(singly(of), columns, PLACEMENT)


# --- Charts -----------------------------------------------------------------------------------------------------------


def _chart(quantities: Sequence[Quantity], of: Sequence[Load]) -> str | None:
    """The section's chart as SVG, with a curve for each number of instances and placement; None without numbers."""
    instances = sorted({load.step.instances for load in of})
    placements = list(dict.fromkeys(load.step.setting for load in of))
    panels = []
    for each in (quantity for quantity in quantities if not quantity.get("hidden")):
        unit, points = _unit(each), defaultdict[tuple[int, int], list[Point]](list)
        for load in of:
            key = placements.index(load.step.setting), instances.index(load.step.instances)
            points[key].append((load.step.clients, [value * unit.factor for value in load.values(each["of"])]))
        curves = [
            Curve(
                count(instances[shade], "instance") + (f", {placements[line]}" if len(placements) > 1 else ""),
                of_curve, shade, line,
            )
            for (line, shade), of_curve in sorted(points.items())
            if any(values for _, values in of_curve)
        ]  # fmt: skip
        panels.append(Panel(each["title"], unit.axis, curves, _limits(each, of), logarithmic=unit.logarithmic))
    if not any(panel.curves for panel in panels):
        return None
    ticks = {
        load.step.clients: f"{load.step.clients}\n({load.really})" if load.really else str(load.step.clients)
        for load in of
    }
    scaled = ", in the study's numbers (really run)" if any(load.really for load in of) else ""
    return charts.draw(panels, f"clients per instance{scaled}", tuple(ticks.items()))


def _limits(quantity: Quantity, of: Sequence[Load]) -> tuple[tuple[float, str], ...]:
    """Lines across a panel, in its axis's unit: an objective, or the CPUs that all tiers share."""
    unit, judged = _unit(quantity), (one for load in of for one in load.judged)
    promised = {one.values["promised"] for one in judged if one.objective == quantity.get("objective")}
    found = {(value, f"objective: {unit.write(value)}") for value in promised}
    if quantity["of"] == "tiers_cpu":
        found = {(cpus, f"shared: {cpus:g} CPU") for load in of for cpus in load.values("step_cpus")}
    return tuple((value * unit.factor, text) for value, text in sorted(found))
