"""Every metric family of the exporters, as their golden pages have it, and which of them a query reads."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from deploy.exporters import FOLDERS

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
EVERY = "every_"  # how the golden page of all of them begins the name of what each has


@functools.cache
def families() -> frozenset[str]:
    """Their names; of what every exporter has under its own name, all of these."""
    found = {
        name for page in GOLDEN.glob("*.prom") for name in re.findall(r"^# TYPE (\S+)", page.read_text(), re.MULTILINE)
    }
    of_each = {name.replace(EVERY, f"{each}_", 1) for name in found if name.startswith(EVERY) for each in FOLDERS}
    return frozenset({name for name in found if not name.startswith(EVERY)} | of_each)


@functools.cache
def exposed_labels() -> dict[str, set[frozenset[str]]]:
    """Of each metric the names of its labels; series of one metric may have others."""
    found: dict[str, set[frozenset[str]]] = {}
    for page in GOLDEN.glob("*.prom"):
        for name, labels in re.findall(r"^([a-zA-Z_:]\w*)(\{.*\})? ", page.read_text(), re.MULTILINE):
            for each in FOLDERS if name.startswith(EVERY) else [""]:
                names = frozenset(re.findall(r'(\w+)="(?:[^"\\]|\\.)*"', labels))
                found.setdefault(name.replace(EVERY, f"{each}_", 1), set()).add(names)
    return found


def read_by(promql: str) -> set[str]:
    """The families that a query reads, by name or by a regular expression for names."""
    words = set(re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", without_strings(promql)))
    patterns = names(promql)
    return {name for name in families() if name in words or any(re.fullmatch(each, name) for each in patterns)}


def names(promql: str) -> list[str]:
    """The regular expressions for names in a query."""
    return re.findall(r'__name__=~"([^"]+)"', promql)


def without_strings(promql: str) -> str:
    """The query with all strings empty but for regular expressions: a name may be in these."""
    return re.sub(r'(=~)?"[^"]*"', lambda string: string[0] if string[1] else '""', promql)
