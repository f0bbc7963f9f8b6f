"""A report as plain values: what its pages say, before it is known how a page is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lab.report.collection import Answers, Recording
from lab.report.judgement import Judged
from lab.report.loads import Layout, Load, count, layout, loads
from lab.report.results import StepResult, mean, result
from lab.report.sections import SECTIONS, Quantity, Section, chart, verdict_cell
from lab.report.study import Study
from lab.report.units import MISSING, RESPONSE, SHARE, significant
from lab.report.verdict import causes, verdict

AFTER = 2  # throughput and response times; then what was promised of them


@dataclass(frozen=True)
class Table:
    """Cells as text, under a head; every row has as many cells as the head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Asked:
    """The queries of one figure for one step; `at` says which, and of what time."""

    at: str
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """A section as it stands on the page. `figure` is an <svg> element; `absent` says why there is none."""

    key: str
    title: str
    text: str
    figure: str | None
    absent: str
    table: Table | None
    study: str
    asked: tuple[Asked, ...]


@dataclass(frozen=True)
class Document:
    """The whole report."""

    title: str
    verdict: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    parts: tuple[Part, ...]
    overview: Table | None
    """Instances down, clients across: every load met or missed at a glance. None if nothing was judged."""
    steps: Table
    remarks: tuple[tuple[str, str], ...]
    """What a reader must know of single steps: which, and what."""
    study: Study


def write_up(recording: Recording, study: Study, prometheus: str) -> Document:
    """Everything the report of a run says; `prometheus` is where it was asked."""
    results = [result(answers) for answers in recording.steps]
    of = loads(results)
    laid_out = layout(of, study.mean_response)
    parts = [_part(section, recording, of, laid_out, study) for section in SECTIONS]
    return Document(
        title=f"Run {recording.run.name}: scenario {recording.run.scenario}",
        verdict=(*verdict(of), *_incomplete(recording)),
        facts=tuple(_facts(recording, results, prometheus)),
        parts=(*parts[:AFTER], _objectives(recording, of, study), *parts[AFTER:]),
        overview=_overview(of),
        steps=_steps(results),
        remarks=tuple(_remarks(results)),
        study=study,
    )


def _incomplete(recording: Recording) -> list[str]:
    """That a run was interrupted, or still goes on, if it says how many steps it was to have."""
    planned = recording.gauges.get("lab_run_planned_steps", 0)
    recorded = len(recording.steps)
    return (
        [f"The run is not complete: {recorded} of its {planned:.0f} steps are recorded."] if recorded < planned else []
    )


def _remarks(results: Sequence[StepResult]) -> list[tuple[str, str]]:
    """Each remark once, with the steps that it is of."""
    steps: dict[str, list[str]] = {}
    for each in results:
        for remark in each.remarks:
            steps.setdefault(remark, []).append(str(each.step))
    every = len(results)
    return [("Every step" if len(of) == every > 1 else ", ".join(of), remark) for remark, of in steps.items()]


def _overview(of: Sequence[Load]) -> Table | None:
    if not any(load.judged for load in of):
        return None
    clients = sorted({load.clients for load in of})
    rows: dict[tuple[str, int], dict[int, Load]] = {}
    for load in of:
        rows.setdefault((load.placement, load.instances), {})[load.clients] = load
    many = len({placement for placement, _ in rows}) > 1
    return Table(
        ("Clients per instance", *map(str, clients)),
        tuple(
            (
                count(instances, "instance") + (f", {placement}" if many else ""),
                *(_met(row[number]) if number in row else "" for number in clients),
            )
            for (placement, instances), row in rows.items()
        ),
    )


def _met(load: Load) -> str:
    """Every objective met or missed, and the mean response time over instances and repetitions."""
    response = mean(load.values(lambda each: each.of_instances("mean")))
    return f"{ {True: '✓ met', False: '✗ MISSED', None: 'not judged'}[load.met] }, {RESPONSE.write(response)}"


def time(seconds: float) -> str:
    """A moment as people and Prometheus's own pages write it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _facts(recording: Recording, results: Sequence[StepResult], prometheus: str) -> list[tuple[str, str]]:
    run, info = recording.run, recording.info
    unknown = "not recorded"
    repetitions = max(step.repetition for step in run.steps)
    machine = (
        f"{run.steps[0].host}, {info.get('cpus', '?')} CPUs, {info['cpu']}" if "cpu" in info else run.steps[0].host
    )
    versions = [f"{name} {info[label]}".strip() for label, name in SOFTWARE.items() if info.get(label)]
    cost, scale = recording.gauges.get("lab_request_cpu_seconds"), recording.gauges.get("lab_study_clients")
    calibration = "not scaled: its own numbers of clients were run" if scale == 1 else unknown
    if scale and scale != 1:
        calibration = f"one client stands for {significant(scale)} of the study's"
    if cost:
        calibration += f"; a request cost {RESPONSE.write(cost)} of CPU during warm-up"
    return [
        ("When", f"{time(run.start)} to {time(run.end)}"),
        (
            "What",
            f"{count(len(results), 'step')}, {count(repetitions, 'repetition')} of each load; warm-up is not in them",
        ),
        ("Machine", machine),
        ("Software", ", ".join(versions) or unknown),
        ("Seed", info.get("seed", unknown)),
        ("Calibration", calibration),
        ("virtscope", info.get("version", unknown)),
        ("Asked", f"{prometheus} at {time(recording.asked_at)}"),
    ]


# Labels of lab_run_info, and what their values are versions of.
SOFTWARE = {"os": "", "kernel": "Linux", "apache": "Apache", "php": "PHP", "mariadb": "MariaDB", "telegraf": "Telegraf"}


def _part(section: Section, recording: Recording, of: Sequence[Load], laid_out: Layout, study: Study) -> Part:
    figure = chart(section, of, laid_out, study)
    return Part(
        section.key,
        section.title,
        section.text,
        figure,
        absent="" if figure else _why_absent(section, recording, of),
        table=_table(section, of) if figure else None,
        study=study.said.get(section.key, ""),
        asked=tuple(_asked(answers, section.asked) for answers in recording.steps if answers.asked),
    )


def _why_absent(section: Section, recording: Recording, of: Sequence[Load]) -> str:
    if section.key != "misses":
        return section.why_absent
    reasons = sorted({reason for load in of for each in load.results for reason in each.why_no_misses})
    if reasons:
        return (
            f"{section.why_absent} perf-exporter can't count them on {recording.run.steps[0].host}: "
            f'{", ".join(reasons)} (docs/perf-exporter.md, "Who sees what").'
        )
    return f"{section.why_absent} No perf-exporter counted the tiers' cgroups while the run lasted."


def _table(section: Section, of: Sequence[Load]) -> Table:
    shown = [
        quantity for quantity in section.quantities if quantity.drawn or any(load.values(quantity.of) for load in of)
    ]
    table = Table(
        head=(*_LOAD, *(f"{quantity.title}, {quantity.unit.axis}" for quantity in shown)),
        rows=tuple((*_load(load), *(_cell(quantity, load) for quantity in shown)) for load in of),
    )
    return _without_one_placement(table)


_LOAD = ("Placement", "Instances", "Clients each", "Repetitions")


def _load(load: Load) -> tuple[str, str, str, str]:
    run = load.values(lambda each: each.clients_run)
    really = f" ({significant(run[0])} run)" if run and run[0] != load.clients else ""
    return load.placement, str(load.instances), f"{load.clients}{really}", str(len(load.results))


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


def _objectives(recording: Recording, of: Sequence[Load], study: Study) -> Part:
    judged = [one for load in of for one in load.judged]
    heads = {
        objective: " or ".join(sorted({_promise(one) for one in judged if one.objective == objective}))
        for objective in ("mean", "latency", "availability")
        if any(one.objective == objective for one in judged)
    }
    rows = []
    for load in of:
        for each in load.results:
            verdicts = [one for app in each.instances for one in app.judged]
            shares = causes([each]) if any(one.met is False for one in verdicts) else {}
            rows.append(
                (
                    str(each.step),
                    *_load(load)[:3],
                    *(verdict_cell(verdicts, objective) for objective in heads),
                    ", ".join(f"{cause} {SHARE.write(share)}" for cause, share in shares.items()),
                )
            )
    table = Table(("Step", *_LOAD[:3], *heads.values(), "Most likely cause of a miss"), tuple(rows))
    return Part(
        "objectives",
        "Objectives",
        "Each objective in each step: met if every instance met it. The number is of the instance furthest from its "
        "promise. Of a miss, the most likely cause is given with the share of the step in which it was that.",
        None,
        absent=""
        if judged
        else "Prometheus has no objectives of these applications (app:slo_objective:ratio, app:slo_threshold:seconds).",
        table=_without_one_placement(table) if judged else None,
        study=study.said.get("objectives", ""),
        asked=tuple(
            _asked(answers, ("mean", "within", "errors", "objectives", "thresholds", "causes"))
            for answers in recording.steps
            if answers.asked
        ),
    )


def _promise(judged: Judged) -> str:
    if judged.objective == "mean":
        return f"Mean response at most {RESPONSE.write(judged.promised)}"
    what = f"Within {RESPONSE.write(judged.seconds)}" if judged.seconds else "Without error"
    return f"{what} at least {SHARE.write(judged.promised)}"


def _asked(answers: Answers, names: Sequence[str]) -> Asked:
    step = answers.step
    return Asked(
        f"step {step}: {time(step.start)} to {time(step.end)}, {step.start} to {step.end} in Unix time",
        tuple(answers.asked[name] for name in names if name in answers.asked),
    )


def _without_one_placement(table: Table) -> Table:
    """Leave the column out that says the same in every row."""
    at = table.head.index(_LOAD[0])
    if len({row[at] for row in table.rows}) > 1:
        return table
    return Table(_but(table.head, at), tuple(_but(row, at) for row in table.rows))


def _but(cells: tuple[str, ...], at: int) -> tuple[str, ...]:
    return cells[:at] + cells[at + 1 :]


def _steps(results: Sequence[StepResult]) -> Table:
    table = Table(
        ("Step", *_LOAD[:3], "Repetition", "Start", "Seconds", "Start, Unix time", "End, Unix time"),
        tuple(
            (
                str(each.step),
                *_load(Load(each.step.placement, each.step.instances, each.step.clients, (each,)))[:3],
                str(each.step.repetition),
                time(each.step.start),
                str(each.step.seconds),
                str(each.step.start),
                str(each.step.end),
            )
            for each in results
        ),
    )
    return _without_one_placement(table)
