"""The records by name: each follows the naming scheme, is explained, is made from existing records, and is used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from tools import vocabulary_reference
from tools.exporters import FOLDERS, PLATFORMS, prefixes
from tools.vocabulary_reference import RECORD_NAME, ROOT, rules, vocabulary

MADE = {rule.name for rule in rules() if not rule.is_alert}

# Intermediate records: for the file that makes them and those that its comments name.
STEPS = (
    *("domain:", "guest:", "group:", "container:", "waits:", "requests:", "objective:", "slo:", "sloth_slo_info"),
    "target:",
)
# Made for applications with a single name only, unlike the lab's (alerts/generator/objective_rules.py); and in a fleet,
# of another shard's record (fleet/rules.py).
MADE_ELSEWHERE = {"objective:wanted:info", "objective:judged:info", "app:requests_elsewhere:rate"}

# level:metric:operations. The last part begins with a unit or an operation; then comes the range, unless it is a minute
# or the value is instant.
_OPERATIONS = "rate|ratio|seconds|bytes|cpus|count|apps|shares|mean|p50|p95|p99|score|state|info"
_OVER = r"(_?(median|max|min|p\d+_|rate)?\d+[mhdw])?"
PATTERN = re.compile(rf"(vserver|host|app|monitor):[a-z]+(_[a-z]+)*:({_OPERATIONS}){_OVER}")

# Read by nothing that ships, kept for users' own queries; and why.
FOR_USERS = {
    **{
        f"app:slo_error:ratio_rate{window}": "windows of the objectives' alerts, which read Sloth's own records"
        for window in ("30m", "2h", "30d")
    },
    **dict.fromkeys(("slo:objective:ratio", "slo:time_period:days", "sloth_slo_info"), "for Sloth's own dashboards"),
    "vserver:memory_limit:bytes": "to size a virtual server by",
}


@cache
def readers() -> dict[str, list[str]]:
    """The shipped readers of each record; names that only look like records' are included."""
    found: dict[str, dict[str, None]] = {}
    for reader, text in _texts():
        for name in RECORD_NAME.findall(text):
            if reader != name:
                found.setdefault(name, {})[reader] = None
    return {name: list(names) for name, names in found.items()}


def _texts() -> Iterator[tuple[str, str]]:
    """Each reader of records, and its text."""
    for rule in rules():
        if rule.is_alert:
            yield rule.name, rule.text
    for file in ROOT.glob("dashboards/json/*.json"):
        dashboard = json.loads(file.read_text())
        yield dashboard["title"], "\n".join(_queries(dashboard))
    for pattern in ("alerts/templates/*.tmpl", "prometheus/consoles/*.html", "lab/report/*.py"):
        yield from ((file.name, file.read_text()) for file in ROOT.glob(pattern))
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


def test_every_record_is_named_by_its_level_and_documented_or_marked_as_intermediate() -> None:
    assert [name for name in vocabulary() if not PATTERN.fullmatch(name)] == []
    for level, records in vocabulary_reference.levels().items():
        assert [record.name for record in records if not record.name.startswith(f"{level}:")] == []
    assert {name for name in MADE if not name.startswith(STEPS)} == set(vocabulary())


def test_every_record_is_used_and_every_record_that_is_read_is_made_by_a_rule() -> None:
    assert MADE - set(readers()) == set(FOR_USERS), "use it, remove it, or say in FOR_USERS why it is kept"
    assert {name: by for name, by in readers().items() if name not in MADE | MADE_ELSEWHERE} == {}


def test_records_named_in_the_documentation_exist() -> None:
    levels = tuple(f"{level}:" for level in vocabulary_reference.levels())
    for file in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        named = set(RECORD_NAME.findall(" ".join(re.findall(r"`([^`]+)`", file.read_text()))))
        unknown = {name for name in named if name.startswith(levels + STEPS)} - MADE - MADE_ELSEWHERE
        assert unknown == set(), file


def test_rules_of_no_platform_read_only_the_vocabulary() -> None:
    """Except alerts about the monitor itself, which are about exporters, not hosts."""
    own = {*PLATFORMS, "openvz_beancounters", "events", "waits", "monitoring", "stack"}
    ours = "|".join(prefix for exporter in FOLDERS for prefix in prefixes(exporter))
    series = re.compile(rf"\b(?:{ours}|node_|container_|machine_)[a-z_]+\b")
    common = [rule for rule in rules() if rule.file.stem not in own]
    assert {rule.name for rule in common if series.search(rule.expr)} == set()


# Reads its value at the previous evaluation: the current cause keeps its evidence, a cap is compared with what it was.
PREVIOUS_EVALUATION = {
    ("group:cause:evident", "app:breach_cause:info"),
    ("group:reallocated:seconds", "group:named_limit:cpus"),
}
RULES = {rule.file for rule in rules() if rule.file.parts[0] == "prometheus"}
DERIVED = {"costs.yml", "derived.yml", "fleet.yml", "history.yml", "tiers.yml"}


def test_a_rule_reads_only_records_of_earlier_rules_in_its_group() -> None:
    """Otherwise it reads the previous evaluation, and a chain of such rules is minutes late on a large installation."""
    ahead = set()
    for file in RULES:
        of_file = [rule for rule in rules() if rule.file == file]
        for place, rule in enumerate(of_file):
            to_come = {later.name for later in of_file[place:]} - {earlier.name for earlier in of_file[: place + 1]}
            ahead |= {(rule.name, record) for record in to_come & set(RECORD_NAME.findall(rule.expr))}
    assert ahead == PREVIOUS_EVALUATION


def test_no_platform_reads_derived_records() -> None:
    """Platforms come first: what is derived from them is at most one evaluation behind."""
    derived = {rule.name for rule in rules() if rule.file.name in DERIVED}
    platforms = [rule for rule in rules() if rule.file in RULES and rule.file.name not in DERIVED]
    read = {rule.name: set(RECORD_NAME.findall(rule.expr)) & derived for rule in platforms}
    assert {name: records for name, records in read.items() if records} == {}
