"""The records by name: each is named as it should be, explained, made of what there is, and read by somebody."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tools import vocabulary_reference
from tools.vocabulary_reference import RECORD_NAME, ROOT, rules, vocabulary

MADE = {rule.name for rule in rules() if not rule.is_alert}

# Steps on the way to the vocabulary, and who makes them: for their own files and those that the rules' comments name.
STEPS = ("domain:", "group:", "container:", "requests:", "objective:", "slo:", "sloth_slo_info", "target:")
# Made for an application of one name only, which the lab's are not (alerts/generator/objective_rules.py).
MADE_ELSEWHERE = {"objective:wanted:info"}

# level:metric:operations. The last part begins with a unit, or with what was done; then over which time, if that is
# neither a minute nor this moment.
_OPERATIONS = "rate|ratio|seconds|bytes|cpus|count|apps|shares|mean|p50|p95|p99|score|state|info"
_OVER = r"(_?(median|max|min|p\d+_|rate)?\d+[mhdw])?"
PATTERN = re.compile(rf"(vserver|host|app|monitor):[a-z]+(_[a-z]+)*:({_OPERATIONS}){_OVER}")

# Read by nothing that ships: for users' own queries, and why they are kept.
FOR_USERS = {
    **{
        f"app:slo_error:ratio_rate{window}": "windows of the objectives' alerts, which read Sloth's own records"
        for window in ("30m", "2h", "30d")
    },
    **dict.fromkeys(("slo:objective:ratio", "slo:time_period:days", "sloth_slo_info"), "for Sloth's own dashboards"),
    "host:dtlb_misses_per_instruction:ratio": "of a host as its virtual servers' own",
    "host:itlb_misses_per_instruction:ratio": "of a host as its virtual servers' own",
    "vserver:memory_limit:bytes": "to size a virtual server by",
}


@cache
def readers() -> dict[str, list[str]]:
    """What ships and reads each record, by every name that looks like a record's: it need not exist."""
    found: dict[str, dict[str, None]] = {}
    for reader, text in _texts():
        for name in RECORD_NAME.findall(text):
            if reader != name:
                found.setdefault(name, {})[reader] = None
    return {name: list(names) for name, names in found.items()}


def _texts() -> Iterator[tuple[str, str]]:
    """What reads records, and the text that names them."""
    for rule in rules():
        if rule.is_alert:
            yield rule.name, rule.text
    for file in sorted(ROOT.glob("alerts/templates/*.tmpl")):
        yield file.name, file.read_text()
    for file in sorted(ROOT.glob("dashboards/json/*.json")):
        dashboard = json.loads(file.read_text())
        yield dashboard["title"], "\n".join(_queries(dashboard))
    for file in sorted(ROOT.glob("lab/report/*.py")):
        yield file.name, file.read_text()
    for rule in rules():
        if not rule.is_alert:
            yield rule.name, rule.text


def _queries(part: Any) -> Iterator[str]:
    """Every query in a dashboard's JSON: of panels, variables and annotations."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key in ("expr", "query", "definition") and isinstance(value, str):
                yield value
            else:
                yield from _queries(value)
    elif isinstance(part, list):
        for each in part:
            yield from _queries(each)


def test_records_of_the_vocabulary_are_named_level_metric_operations() -> None:
    assert [name for name in vocabulary() if not PATTERN.fullmatch(name)] == []


def test_a_records_labels_begin_with_those_of_its_level() -> None:
    for level, records in vocabulary_reference.levels().items():
        assert [record.name for record in records if not record.name.startswith(f"{level}:")] == []


def test_every_record_is_vocabulary_that_users_can_look_up_or_marked_as_a_step_on_the_way() -> None:
    assert {name for name in MADE if not name.startswith(STEPS)} == set(vocabulary())


def test_every_record_is_read_by_somebody() -> None:
    assert MADE - set(readers()) - set(FOR_USERS) == set(), "use it, take it away, or say in FOR_USERS why it is kept"


def test_what_is_kept_for_users_alone_is_read_by_nothing_that_ships() -> None:
    assert set(FOR_USERS) & set(readers()) == set(), "take it out of FOR_USERS"


def test_nobody_reads_a_record_that_no_rule_makes() -> None:
    assert {name: by for name, by in readers().items() if name not in MADE | MADE_ELSEWHERE} == {}


@pytest.mark.parametrize(
    "file", sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")]), ids=lambda file: str(file.relative_to(ROOT))
)
def test_documents_speak_of_records_that_there_are(file: Path) -> None:
    named = set(RECORD_NAME.findall(" ".join(re.findall(r"`([^`]+)`", file.read_text()))))
    levels = tuple(f"{level}:" for level in vocabulary_reference.levels())
    assert {name for name in named if name.startswith(levels + STEPS)} - MADE - MADE_ELSEWHERE == set()


def test_what_is_no_platforms_own_reads_the_vocabulary_alone() -> None:
    """But for the alerts about the monitor itself, which are about exporters and no host."""
    own = {"xen", "openvz", "openvz_beancounters", "cgroup", "base", "events", "monitoring", "stack"}
    series = re.compile(r"\b(?:xen|openvz|perf|node|container|machine)_[a-z_]+\b")
    common = [rule for rule in rules() if rule.file.stem not in own]
    assert {rule.name for rule in common if series.search(rule.expr)} == set()


# Reads what it was at the evaluation before: the cause that stands keeps its evidence.
OF_THE_EVALUATION_BEFORE = {("group:cause:evident", "app:breach_cause:info")}
RULES = {rule.file for rule in rules() if rule.file.parts[0] == "prometheus"}
DERIVED = {"derived.yml", "history.yml"}


@pytest.mark.parametrize("file", sorted(RULES), ids=lambda file: file.stem)
def test_a_rule_reads_what_its_group_has_recorded_before_it(file: Path) -> None:
    """Else it reads the evaluation before, and a chain of such rules arrives minutes late on a large installation."""
    of_file = [rule for rule in rules() if rule.file == file]
    ahead = set()
    for place, rule in enumerate(of_file):
        to_come = {later.name for later in of_file[place:]} - {earlier.name for earlier in of_file[: place + 1]}
        ahead |= {(rule.name, record) for record in to_come & set(RECORD_NAME.findall(rule.expr))}
    assert ahead - OF_THE_EVALUATION_BEFORE == set()


def test_what_is_derived_is_read_by_no_platform() -> None:
    """Platforms first: what follows from them is at most one evaluation behind."""
    derived = {rule.name for rule in rules() if rule.file.name in DERIVED}
    platforms = [rule for rule in rules() if rule.file in RULES and rule.file.name not in DERIVED]
    read = {rule.name: set(RECORD_NAME.findall(rule.expr)) & derived for rule in platforms}
    assert {name: records for name, records in read.items() if records} == {}
