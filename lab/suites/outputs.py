"""Output of any suite, recognised by its text."""

from __future__ import annotations

import re

from lab.suites import lmbench, nbench, stress_ng, unixbench
from lab.suites.rows import OutputError, Row


def parse(text: str) -> tuple[Row, ...]:
    """The rows of a run; raises `OutputError`."""
    if "BYTEMARK" in text.upper():  # without its title, "ORIGINAL BYTEMARK RESULTS" is still there
        return nbench.parse(text)
    if "BYTE UNIX Benchmarks" in text or "in system; running" in text:
        return unixbench.parse(text)
    if re.search(r"^metrics:", text, re.MULTILINE):
        return stress_ng.parse(text)
    if "[lmbench" in text:
        return lmbench.parse(text)
    first = next((line for line in text.split("\n") if line.strip()), "")
    raise OutputError(1, first, "begins no results of lmbench, UnixBench, nbench or stress-ng (--yaml)")
