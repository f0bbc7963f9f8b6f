"""The report's content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from lab.measurements import METRIC, Measurement
from lab.report import measurements
from lab.report.document import Asked, Document, Part, incomplete
from lab.report.loads import count
from lab.report.measurements import Recording
from lab.report.study import Source, source
from lab.report.suites import published, tables
from lab.report.suites.comparison import Comparison, Study, compare
from lab.report.suites.verdict import verdict
from lab.report.tables import Table, time
from lab.suites import nbench

FILE = Path(__file__).with_name("fisher2012.yml")
NO_CHART = ""


def write_up(recording: Recording, prometheus: str) -> Document:
    """The content of a run's report; `prometheus` is the address of the data's source."""
    run, info = recording.run, recording.info
    at = f"the whole run, {time(run.start)} to {time(run.end)}"
    facts = measurements.facts(recording, prometheus)
    suites = [f"{name} {info[label]}" for name, label in _VERSIONS.items() if info.get(label)]
    if suites:
        facts.append(("Suites", ", ".join(suites)))
    if info.get("skipped"):
        facts.append(("Skipped", info["skipped"]))
    return _document(
        f"Run {run.name}: scenario {run.scenario}",
        recording.measurements,
        facts,
        [*_unsettled(recording), *incomplete(recording.finished_steps, recording.planned_steps)],
        (Asked(at, (recording.asked[METRIC],)),),
        Part(
            "run",
            "Machine and plan",
            "Where the facts at the top of this page come from.",
            None,
            NO_CHART,
            None,
            "",
            (Asked(at, tuple(query for metric, query in recording.asked.items() if metric != METRIC)),),
        ),
    )


def _unsettled(recording: Recording) -> list[str]:
    if not recording.unsettled:
        return []
    steps = f"{len(recording.unsettled)} of {count(recording.finished_steps, 'step')}"
    most = f"others used up to {max(recording.unsettled.values()):.2f} CPUs"
    return [f"The machine did not settle before {steps} ({most}), so their load is in the values."]


_VERSIONS = {"lmbench": "lmbench", "stress-ng": "stress_ng"}  # and labels of lab_run_info


def of_files(found: Sequence[Measurement], files: Sequence[str]) -> Document:
    """The content of a report of results that were made elsewhere."""
    return _document(f"Results of {', '.join(files)}", found, [("Read", ", ".join(files))], [], ())


def _document(
    title: str,
    found: Sequence[Measurement],
    facts: Sequence[tuple[str, str]],
    cautions: Sequence[str],
    asked: tuple[Asked, ...],
    *more: Part,
) -> Document:
    of, study = compare(found), Study(published.fisher())
    content = yaml.safe_load(FILE.read_text())
    said = source(content)
    suites = dict.fromkeys(test.suite for test in of.tests)
    return Document(
        title=title,
        verdict=(*verdict(of), *cautions),
        facts=tuple(facts),
        parts=(
            *(_suite(suite, of, study, said, asked) for suite in suites),
            *_composites(of, study, said, asked),
            *more,
            _differences(),
        ),
        overview=tables.groups(of, study),
        steps=_steps(of),
        remarks=(),
        study=said,
        method="suites.txt",
    )


def _suite(suite: str, of: Comparison, study: Study, said: Source, asked: tuple[Asked, ...]) -> Part:
    text = (
        f"Every test of {suite} as it prints it, relative to {of.base or 'nothing, as there is no base'}: of times, "
        "above 1 is slower, of all else, above 1 is faster. The last columns are the study's means."
    )
    return Part(suite, suite, text, None, NO_CHART, tables.tests(of, study, suite), said.said.get(suite, ""), asked)


def _composites(of: Comparison, study: Study, said: Source, asked: tuple[Asked, ...]) -> list[Part]:
    theirs = tables.composites("Environment", tables.studied_indexes(study))
    ours = tables.composites("Environment", tables.indexes_of(of))
    text = "nbench's composites, as printed and as they follow from its tests' indexes: "
    parts = [
        Part(
            "composites",
            "The study's composites",
            text + "the study's means.",
            None,
            NO_CHART,
            theirs,
            said.said["composites"],
            (),
        )
    ]
    if ours is not None:
        parts.insert(
            0, Part(nbench.SUITE + "-composites", "Composites", text + "ours.", None, NO_CHART, ours, "", asked)
        )
    return parts


def _steps(of: Comparison) -> Table:
    suites = dict.fromkeys(test.suite for test in of.tests)
    rows = []
    for environment in of.environments:
        for suite in suites:
            tests = of.inside(environment.name, suite)
            if tests:
                fewest, most = (pick(len(one.values) for one in tests) for pick in (min, max))
                runs = str(most) if fewest == most else f"{fewest} to {most}"
                rows.append((environment.label, suite, str(len(tests)), runs))
    return Table(("Environment", "Suite", "Tests", "Runs of each"), tuple(rows))


def _differences() -> Part:
    return Part(
        "differences",
        "What differs from the study",
        "Read the study's numbers as shapes, not as targets.",
        None,
        NO_CHART,
        Table(
            ("The study", "Here"),
            (
                ("a host, OpenVZ and Xen, one after the other", "base, cgroups and guests as in the scenario"),
                ("lmbench by its own script, all sizes", "the same programs, of each list only the largest size"),
                ("lmbench's memory, found by its configuration", "`megabytes`, the same in each environment"),
                ("lmbench's clock and loop overheads subtracted", "not subtracted: nanoseconds of a call of 0.1 µs"),
                (
                    "UnixBench's arithmetic test, which version 4 has",
                    "version 5 or newer, if given, which has Whetstone in its place",
                ),
                (
                    "UnixBench and nbench everywhere",
                    "where copies are given; stress-ng beside them, under its own name",
                ),
            ),
        ),
        "",
        (),
    )
