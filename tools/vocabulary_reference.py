"""Writes the generated parts of docs/vocabulary.md: what each record means, what it is made of, and who reads it.

Meanings are in prometheus/vocabulary.yml, expressions in the rules, and who reads a record is seen in what ships:
alerts, dashboards, the lab's report, other rules. The page's prose is written by hand; what stands between two marks is
not. `make docs` writes it, and a test finds it out of date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
MEANINGS = ROOT / "prometheus/vocabulary.yml"
PAGE = ROOT / "docs/vocabulary.md"

# All applications' rules are alike: those of the lab's stand for the others, which a checkout may add.
RULE_FILES = (
    "prometheus/rules/*.yml",
    "prometheus/rules/generated/*.yml",
    "alerts/rules/*.yml",
    "alerts/generated/auction.yml",
)
RECORD_NAME = re.compile(r"\b[a-z]+(?::\w+){2}\b")

# What platform a file of rules is for; one that isn't here is for all.
_PLATFORMS = {"xen": "xen", "openvz": "openvz", "openvz_beancounters": "openvz", "cgroup": "cgroup", "base": "base"}


@dataclass(frozen=True)
class Record:
    """A record as users may rely on it. `labels` has every label of its series, `unit` is empty where there is none."""

    name: str
    labels: tuple[str, ...]
    more: tuple[str, ...]
    unit: str
    meaning: str


@dataclass(frozen=True)
class Rule:
    """A rule of any file: `name` is the record's or the alert's, `text` all PromQL in it, annotations included."""

    file: Path
    name: str
    is_alert: bool
    expr: str
    labels: dict[str, str]
    text: str


@cache
def levels() -> dict[str, list[Record]]:
    """Return the records of each level, in the order of the page."""
    return {
        level: [
            Record(
                name,
                (*of_level["labels"], *record.get("more", ())),
                tuple(record.get("more", ())),
                record.get("unit", ""),
                record["meaning"],
            )
            for name, record in of_level["records"].items()
        ]
        for level, of_level in yaml.safe_load(MEANINGS.read_text()).items()
    }


@cache
def vocabulary() -> dict[str, Record]:
    """Return every record of the vocabulary by its name."""
    return {record.name: record for records in levels().values() for record in records}


@cache
def rules() -> list[Rule]:
    """Return every rule that Prometheus reads, file by file."""
    return [
        Rule(
            file.relative_to(ROOT),
            rule.get("record") or rule["alert"],
            "alert" in rule,
            rule["expr"].strip(),
            rule.get("labels", {}),
            "\n".join([rule["expr"], *rule.get("annotations", {}).values()]),
        )
        for pattern in RULE_FILES
        for file in sorted(ROOT.glob(pattern))
        for group in yaml.safe_load(file.read_text())["groups"]
        for rule in group["rules"]
    ]


@cache
def readers() -> dict[str, list[str]]:
    """Return who reads each record, as Markdown, by every name that looks like a record's: it need not exist."""
    found: dict[str, dict[str, None]] = {}
    for reader, text in _texts():
        for name in RECORD_NAME.findall(text):
            if reader != f"`{name}`":
                found.setdefault(name, {})[reader] = None
    return {name: list(names) for name, names in found.items()}


def _texts() -> Iterator[tuple[str, str]]:
    """Yield who reads records, and the text in which they are named; whoever shows them to people comes first."""
    for rule in rules():
        if rule.is_alert:
            yield f"[{rule.name}](runbooks/{rule.name}.md)", rule.text
    for file in sorted(ROOT.glob("alerts/templates/*.tmpl")):
        yield "[messages of alerts](alerting.md)", file.read_text()
    for file in sorted(ROOT.glob("dashboards/json/*.json")):
        dashboard = json.loads(file.read_text())
        yield f'dashboard "{dashboard["title"]}"', "\n".join(_queries(dashboard))
    for file in sorted(ROOT.glob("lab/report/*.py")):
        yield "[lab report](lab-report.md)", file.read_text()
    for rule in rules():
        if not rule.is_alert:
            yield f"`{rule.name}`", rule.text


def _queries(part: Any) -> Iterator[str]:
    """Yield every query in a dashboard's JSON: of panels, variables and annotations."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key in ("expr", "query", "definition") and isinstance(value, str):
                yield value
            else:
                yield from _queries(value)
    elif isinstance(part, list):
        for each in part:
            yield from _queries(each)


def reference(page: str) -> str:
    """Return the page with its generated parts as they should be; ValueError where one's marks are missing."""
    for level, records in levels().items():
        page = _replaced(page, level, _table(records))
    return _replaced(page, "expressions", "\n".join(_expressions(record) for record in vocabulary().values()))


def _replaced(page: str, part: str, text: str) -> str:
    begin, end = f"<!-- {part}: by make docs -->\n", f"<!-- end of {part} -->\n"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"{PAGE.name} needs one line {begin.strip()} and one {end.strip()}")
    before, rest = page.split(begin)
    return before + begin + text + end + rest.split(end)[1]


def _table(records: list[Record]) -> str:
    more = any(record.more for record in records)
    titles = ["record", *(["more labels"] if more else []), "unit", "meaning"]
    rows = [titles, ["---"] * len(titles)]
    for record in records:
        labels = [" ".join(f"`{label}`" for label in record.more)] if more else []
        rows.append([f"[`{record.name}`](#{_anchor(record)})", *labels, record.unit, record.meaning])
    return "".join("|" + "|".join(f" {cell} ".replace("  ", " ") for cell in row) + "|\n" for row in rows)


def _anchor(record: Record) -> str:
    return record.name.replace(":", "")


def _expressions(record: Record) -> str:
    """Return one record's section: who reads it, and each rule that makes it."""
    read_by = [reader.replace("`", "", 0) for reader in readers().get(record.name, [])]
    lines = [
        f"### {record.name}",
        "",
        f"Read by {', '.join(read_by)}." if read_by else "Read by users' own queries.",
        "",
    ]
    for rule in rules():
        if rule.name == record.name and not rule.is_alert:
            where = _PLATFORMS.get(rule.file.stem, "every platform")
            added = "".join(f', {label}="{value}"' for label, value in rule.labels.items())
            lines += [f"{where}{added} ([{rule.file.name}](../{rule.file})):", "", "```promql", rule.expr, "```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(reference(PAGE.read_text()))
