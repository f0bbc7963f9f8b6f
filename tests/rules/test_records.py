"""Records by name: each follows the naming scheme, is documented, is made from existing records, and is used."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from deploy.exporters import FOLDERS, PLATFORMS, prefixes
from tools import vocabulary_reference
from tools.vocabulary_reference import RECORD_NAME, ROOT, rules, vocabulary

MADE = {rule.name for rule in rules() if not rule.is_alert}

# Intermediate records: only for the file that makes them and the files named in its comments.
STEPS = (
    *("domain:", "guest:", "group:", "container:", "waits:", "requests:", "objective:", "slo:", "sloth_slo_info"),
    "target:",
)
# Only made for applications with a single name, unlike the lab's (alerts/generator/objective_rules.py), and in a fleet
# from another shard's record (deploy/fleet/rules.py).
MADE_ELSEWHERE = {"objective:wanted:info", "objective:judged:info", "app:requests_elsewhere:rate"}

# level:metric:operations. The last part begins with a unit or an operation, followed by the range, unless that is a
# minute or the value is instant.
_OPERATIONS = "rate|ratio|seconds|days|bytes|cpus|count|apps|vservers|shares|mean|p50|p95|p99|score|state|info"
_OVER = r"(_?(median|max|min|p\d+_|rate)?\d+[mhdw])?"
PATTERN = re.compile(rf"(vserver|host|app|monitor):[a-z]+(_[a-z]+)*:({_OPERATIONS}){_OVER}")

# Not read by anything shipped: windows of the objectives' alerts, which read Sloth's own records; and records for
# Sloth's dashboards.
FOR_USERS = {*("slo:objective:ratio", "slo:time_period:days", "sloth_slo_info")}


@cache
def readers() -> dict[str, set[str]]:
    """The shipped readers of each record, including names that only look like records."""
    found: dict[str, set[str]] = {}
    for reader, text in _texts():
        for name in set(RECORD_NAME.findall(text)) - {reader}:
            found.setdefault(name, set()).add(reader)
    return found


def _texts() -> Iterator[tuple[str, str]]:
    """Each reader of records, and its text."""
    yield from ((rule.name, rule.text) for rule in rules())
    for file in ROOT.glob("dashboards/json/*.json"):
        yield file.name, "\n".join(_queries(json.loads(file.read_text())))
    for pattern in (
        "alerts/templates/*.tmpl",
        "prometheus/consoles/*.html",
        "lab/report/templates/*.j2",
        "advise/*.py",
    ):
        yield from ((file.name, file.read_text()) for file in ROOT.glob(pattern))


def _queries(part: Any) -> Iterator[str]:
    """Every query in a dashboard's JSON: of panels, variables and annotations."""
    if isinstance(part, list):
        for each in part:
            yield from _queries(each)
    elif isinstance(part, dict):
        for key, value in part.items():
            if isinstance(value, str) and key in ("expr", "query", "definition"):
                yield value
            yield from _queries(value)


def test_every_record_is_named_by_its_level_and_documented_or_marked_as_intermediate() -> None:
    assert [name for name in vocabulary() if not PATTERN.fullmatch(name)] == []
    for level, records in vocabulary_reference.levels().items():
        assert [record.name for record in records if not record.name.startswith(f"{level}:")] == []
    assert {name for name in MADE if not name.startswith(STEPS)} == set(vocabulary())


def test_every_record_is_used_and_every_record_that_is_read_is_made_by_a_rule() -> None:
    assert MADE - set(readers()) == FOR_USERS, "use it, remove it, or say in FOR_USERS why it is kept"
    assert {name: by for name, by in readers().items() if name not in MADE | MADE_ELSEWHERE} == {}


def test_records_named_in_the_documentation_exist() -> None:
    levels = tuple(f"{level}:" for level in vocabulary_reference.levels())
    for file in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        named = set(RECORD_NAME.findall(" ".join(re.findall(r"`([^`]+)`", file.read_text()))))
        unknown = {name for name in named if name.startswith(levels + STEPS)} - MADE - MADE_ELSEWHERE
        assert unknown == set(), file


def test_rules_of_no_platform_read_only_the_vocabulary_and_those_of_platforms_nothing_derived() -> None:
    """Platform rules come first: derived records are at most one evaluation behind. Alerts about the monitor are about
    exporters, not hosts."""
    own = {*PLATFORMS, "openvz_beancounters", "events", "waits", "monitoring", "stack"}
    ours = "|".join(prefix for exporter in FOLDERS for prefix in prefixes(exporter))
    series = re.compile(rf"\b(?:{ours}|node_|container_|machine_)[a-z_]+\b")
    common = [rule for rule in rules() if rule.file.stem not in own]
    assert {rule.name for rule in common if series.search(rule.expr)} == set()

    derived = {rule.name for rule in rules() if rule.file.name in DERIVED}
    platforms = [rule for rule in rules() if rule.file in RULES and rule.file.name not in DERIVED]
    assert [rule.name for rule in platforms if set(RECORD_NAME.findall(rule.expr)) & derived] == []


# Reads its previous value: the current cause keeps its evidence.
PREVIOUS_EVALUATION = {("group:cause:evident", "app:breach_cause:info")}
RULES = {rule.file for rule in rules() if rule.file.parts[0] == "prometheus"}
DERIVED = {"costs.yml", "derived.yml", "fleet.yml", "history.yml"}


def test_a_rule_reads_only_records_of_earlier_rules_in_its_group() -> None:
    """Otherwise it reads the previous evaluation's record, and a chain of such rules lags minutes on large
    installations."""
    ahead = set()
    for file in RULES:
        of_file = [rule for rule in rules() if rule.file == file]
        for place, rule in enumerate(of_file):
            to_come = {later.name for later in of_file[place:]} - {earlier.name for earlier in of_file[: place + 1]}
            ahead |= {(rule.name, record) for record in to_come & set(RECORD_NAME.findall(rule.expr))}
    assert ahead == PREVIOUS_EVALUATION
