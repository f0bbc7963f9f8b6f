"""A report as plain values: its content, independent of the output format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.report import tables
from lab.report.collection import Answers, Recording
from lab.report.loads import Load, count, loads
from lab.report.panels import chart
from lab.report.results import StepResult, result
from lab.report.sections import SECTIONS, Section
from lab.report.study import Source, Study
from lab.report.tables import Table
from lab.report.units import RESPONSE, significant
from lab.report.verdict import verdict

AFTER = 2  # throughput and response times; then the objectives


@dataclass(frozen=True)
class Asked:
    """The queries for one value in one step; `at` names the step and its time."""

    at: str
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """A section of the page. The chart is an <svg> element; `absent` says why there is none."""

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
    """The verdict as a table, such as which loads met the objectives; None if there is none."""
    steps: Table
    remarks: tuple[tuple[str, str], ...]
    """Remarks about single steps: the step and the remark."""
    study: Source
    method: str
    """The template of the text that explains how values are computed."""


def write_up(recording: Recording, study: Study, prometheus: str) -> Document:
    """The content of a run's report; `prometheus` is the address of the data's source."""
    results = [result(answers) for answers in recording.steps]
    of = loads(results)
    parts = [_part(section, recording, of, study) for section in SECTIONS]
    return Document(
        title=f"Run {recording.run.name}: scenario {recording.run.scenario}",
        verdict=(*verdict(of), *incomplete(len(recording.steps), recording.gauges.get("lab_run_planned_steps", 0))),
        facts=tuple(_facts(recording, results, prometheus)),
        parts=(*parts[:AFTER], _objectives(recording, of, study), *parts[AFTER:]),
        overview=tables.overview(of),
        steps=tables.steps(results),
        remarks=tuple(_remarks(results)),
        study=study,
        method="method.txt",
    )


def incomplete(recorded: int, planned: float) -> list[str]:
    """Whether a run was interrupted or is still running, if the number of its steps is known; 0 if not."""
    return (
        [f"The run is not complete: {recorded} of its {planned:.0f} steps are recorded."] if recorded < planned else []
    )


def _remarks(results: Sequence[StepResult]) -> list[tuple[str, str]]:
    """Each remark once, with its steps."""
    steps: dict[str, list[str]] = {}
    for each in results:
        for remark in each.remarks:
            steps.setdefault(remark, []).append(str(each.step))
    every = len(results)
    return [("Every step" if len(of) == every > 1 else ", ".join(of), remark) for remark, of in steps.items()]


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
        calibration += f"; a request cost {RESPONSE.write(cost)} of CPU when the run began"
    return [
        ("When", f"{tables.time(run.start)} to {tables.time(run.end)}"),
        (
            "What",
            f"{count(len(results), 'step')}, {count(repetitions, 'repetition')} of each load; warm-up is not in them",
        ),
        ("Machine", machine),
        ("Software", ", ".join(versions) or unknown),
        ("Seed", info.get("seed", unknown)),
        ("Calibration", calibration),
        ("virtscope", info.get("version", unknown)),
        ("Asked", f"{prometheus} at {tables.time(recording.asked_at)}"),
    ]


# Labels of lab_run_info, and the programs of which they have the versions.
SOFTWARE = {"os": "", "kernel": "Linux", "apache": "Apache", "php": "PHP", "mariadb": "MariaDB", "telegraf": "Telegraf"}


def _part(section: Section, recording: Recording, of: Sequence[Load], study: Study) -> Part:
    figure = chart(section, of, study)
    return Part(
        section.key,
        section.title,
        section.text,
        figure,
        absent="" if figure else _why_absent(section, recording, of),
        table=tables.figures(section.quantities, of) if figure else None,
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
            f'{", ".join(reasons)} (docs/perf-exporter.md, "What can be counted where").'
        )
    return f"{section.why_absent} No perf-exporter counted the tiers' cgroups while the run lasted."


_NO_OBJECTIVES = (
    "Prometheus has no objectives of these applications (app:slo_objective:ratio, app:slo_threshold:seconds)."
)


def _objectives(recording: Recording, of: Sequence[Load], study: Study) -> Part:
    table = tables.objectives(of)
    return Part(
        "objectives",
        "Objectives",
        "Each objective in each step: met if every instance met it. The number is of the instance furthest from its "
        "promise. Of a miss, the most likely cause is given with the share of the step in which it was that, and the "
        "neighbours that were named with their parts of its waiting for neighbours.",
        None,
        absent="" if table else _NO_OBJECTIVES,
        table=table,
        study=study.said.get("objectives", ""),
        asked=tuple(
            _asked(answers, ("mean", "within", "errors", "objectives", "thresholds", "causes", "neighbours", "firing"))
            for answers in recording.steps
            if answers.asked
        ),
    )


def _asked(answers: Answers, names: Sequence[str]) -> Asked:
    step = answers.step
    return Asked(
        f"step {step}: {tables.time(step.start)} to {tables.time(step.end)}, {step.start} to {step.end} in Unix time",
        tuple(answers.asked[name] for name in names if name in answers.asked),
    )
