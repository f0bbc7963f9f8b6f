"""Every metric family of the exporters, from their golden pages, and the families that a query reads."""

import functools
import re
from pathlib import Path

from deploy.exporters import FOLDERS

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
EVERY = "every_"  # prefix of the golden pages that have every metric


@functools.cache
def families() -> frozenset[str]:
    """All family names. Metrics that every exporter has under its own prefix are listed with each prefix."""
    found = {
        name for page in GOLDEN.glob("*.prom") for name in re.findall(r"^# TYPE (\S+)", page.read_text(), re.MULTILINE)
    }
    of_each = {name.replace(EVERY, f"{each}_", 1) for name in found if name.startswith(EVERY) for each in FOLDERS}
    return frozenset({name for name in found if not name.startswith(EVERY)} | of_each)


@functools.cache
def exposed_labels() -> dict[str, set[frozenset[str]]]:
    """Label names by metric; the series of a metric may have different ones."""
    found: dict[str, set[frozenset[str]]] = {}
    for page in GOLDEN.glob("*.prom"):
        for name, labels in re.findall(r"^([a-zA-Z_:]\w*)(\{.*\})? ", page.read_text(), re.MULTILINE):
            for each in FOLDERS if name.startswith(EVERY) else [""]:
                names = frozenset(re.findall(r'(\w+)="(?:[^"\\]|\\.)*"', labels))
                found.setdefault(name.replace(EVERY, f"{each}_", 1), set()).add(names)
    return found


def read_by(promql: str) -> set[str]:
    """The families that a query selects, by name or by a regular expression over names."""
    words = set(re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", without_strings(promql)))
    patterns = names(promql)
    return {name for name in families() if name in words or any(re.fullmatch(each, name) for each in patterns)}


def names(promql: str) -> list[str]:
    """The regular expressions over names in a query."""
    return re.findall(r'__name__=~"([^"]+)"', promql)


def without_strings(promql: str) -> str:
    """The query with all strings emptied, except for regular expressions, which may contain names."""
    return re.sub(r'(=~)?"[^"]*"', lambda string: string[0] if string[1] else '""', promql)
