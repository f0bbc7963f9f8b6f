"""Writes thresholds of prometheus/settings.yml into the rules: the number before `# NAME` at the end of a line."""

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import PositiveFloat, RootModel

from deploy import documents

FILE = "prometheus/settings.yml"
FOLDERS = ("prometheus/rules", "alerts/rules")
_MARKED = re.compile(r"(?m)(?<= )[\d.]+(?=  # (\w+)$)")


class Thresholds(RootModel[dict[str, PositiveFloat]]):
    """The thresholds by name."""


def read(checkout: Path, overrides: Path | None = None) -> dict[str, float]:
    """The shipped thresholds, overridden by another file. Raises `FileError`."""
    shipped = documents.load(checkout / FILE, FILE).read(Thresholds).root
    if overrides is None:
        return shipped
    document = documents.load(overrides)
    changed = document.read(Thresholds).root
    for name in changed.keys() - shipped.keys():
        raise document.error(f"no such threshold{documents.nearest(name, shipped)}", name)
    return shipped | changed


def rules(checkout: Path, thresholds: Mapping[str, float]) -> dict[str, str]:
    """The text of each rule file with these thresholds, by path below the checkout. Raises `FileError`."""
    texts, used = {}, set[str]()
    for folder in FOLDERS:
        for file in sorted((checkout / folder).glob("*.yml")):
            text = documents.read_text(file)
            names = set(_MARKED.findall(text))
            for name in names - thresholds.keys():
                raise documents.FileError(f"{folder}/{file.name}: {name} is not in {FILE}")
            used |= names
            texts[f"{folder}/{file.name}"] = _MARKED.sub(lambda mark: f"{thresholds[mark[1]]:.12g}", text)
    if unused := thresholds.keys() - used:
        raise documents.FileError(f"{FILE}: no rule has {', '.join(sorted(unused))}")
    return texts
