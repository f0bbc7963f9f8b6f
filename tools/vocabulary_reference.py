"""Writes the table of docs/vocabulary.md: a row per record, with its labels, unit, meaning and platforms.

Labels, units and meanings come from prometheus/vocabulary.yml, the rest from the rules. The page's text is manual; only
the table between two marks is generated. `make docs` writes them, and a test fails if they are out of date.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
MEANINGS = ROOT / "prometheus/vocabulary.yml"
PAGE = ROOT / "docs/vocabulary.md"

# All applications' rules are alike: the lab's represent users' own.
RULE_FILES = (
    "prometheus/rules/*.yml",
    "prometheus/rules/generated/*.yml",
    "alerts/rules/*.yml",
    "alerts/generated/auction.yml",
)
PLATFORMS = frozenset({"base", "cgroup", "kvm", "openvz", "xen"})  # names of rule files begin with their platform
RECORD_NAME = re.compile(r"\b[a-z]+(?::\w+){2}\b")


@dataclass(frozen=True)
class Record:
    """A documented record. `labels` has all labels of its series; `unit` is empty without unit."""

    name: str
    labels: tuple[str, ...]
    more: tuple[str, ...]
    unit: str
    meaning: str


@dataclass(frozen=True)
class Rule:
    """A rule of any file: `name` is the record's or the alert's, `text` is all its PromQL, including annotations."""

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
    """Return every rule that Prometheus evaluates, file by file."""
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


def reference(page: str) -> str:
    """Return the page with the current table; raises ValueError if the table's marks are missing."""
    begin, end = "<!-- records: by make docs -->\n", "<!-- end of records -->\n"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"{PAGE.name} needs one line {begin.strip()} and one {end.strip()}")
    before, rest = page.split(begin)
    return before + begin + _table() + end + rest.split(end)[1]


def _table() -> str:
    rows = [["record", "more labels", "unit", "meaning", "platforms"], ["---"] * 5]
    for record in vocabulary().values():
        more = " ".join(f"`{label}`" for label in record.more)
        rows.append([f"`{record.name}`", more, record.unit, record.meaning, _platforms(record)])
    return "".join("|" + "|".join(f" {cell} ".replace("  ", " ") for cell in row) + "|\n" for row in rows)


def _platforms(record: Record) -> str:
    """Return the platforms whose rule files record it; empty if it is computed from other records."""
    files = {rule.file.stem.partition("_")[0] for rule in rules() if rule.name == record.name and not rule.is_alert}
    return "all" if files >= PLATFORMS else " ".join(f"`{platform}`" for platform in sorted(files & PLATFORMS))


if __name__ == "__main__":
    PAGE.write_text(reference(PAGE.read_text()))
