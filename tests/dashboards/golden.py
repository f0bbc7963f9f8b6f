"""Pages of the exporters with every label that they have: the golden ones, whose counters go on counting."""

from __future__ import annotations

import functools
import re

from tests.dashboards.families import EVERY, GOLDEN

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?P<labels>\{.*\})? (?P<value>\S+)")
_VARYING = "VARIES"  # what golden pages have for a value or a label that is another each time


def page(exporter: str, files: tuple[str, ...], seconds: float, only: str = r"\w+") -> str:
    """What golden pages have together, each series once, after so many seconds, in each of which counters count 1.

    exporter: the name that what every exporter has begins with.
    only: a regular expression for the names that are wanted.
    """
    lines = [
        f"{series} {value + seconds * grows}"
        for series, (value, grows) in _series(exporter, files).items()
        if re.match(only, series)
    ]
    return "\n".join([*lines, ""])


@functools.cache
def _series(exporter: str, files: tuple[str, ...]) -> dict[str, tuple[float, bool]]:
    """Each series with its value, and whether it is a counter."""
    found: dict[str, tuple[float, bool]] = {}
    for file in ("every-exporter", *files):
        text = (GOLDEN / f"{file}.prom").read_text().replace(EVERY, f"{exporter}_")
        counters = set(re.findall(r"^# TYPE (\S+) counter$", text, re.MULTILINE))
        for line in text.splitlines():
            if sample := _SAMPLE.fullmatch(line):
                value = 1.0 if sample["value"] == _VARYING else float(sample["value"])
                found[sample["name"] + (sample["labels"] or "")] = value, sample["name"] in counters
    return found
