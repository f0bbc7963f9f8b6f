"""Output of any suite, recognised by its text."""

from __future__ import annotations

import re

from lab.suites import lmbench, lmbench_summary, nbench, stress_ng, unixbench
from lab.suites.rows import OutputError, Row

Run = tuple[Row, ...]


def parse(text: str) -> tuple[Run, ...]:
    """The runs in a suite's output; a summary of lmbench has several. Raises `OutputError`."""
    if lmbench_summary.TITLE in text:
        return lmbench_summary.parse(text)
    if "BYTEMARK" in text.upper():  # without its title, "ORIGINAL BYTEMARK RESULTS" is still there
        return (nbench.parse(text),)
    if "BYTE UNIX Benchmarks" in text or "in system; running" in text:
        return (unixbench.parse(text),)
    if re.search(r"^metrics:", text, re.MULTILINE):
        return (stress_ng.parse(text),)
    if "[lmbench" in text:
        return (lmbench.parse(text),)
    first = next((line for line in text.split("\n") if line.strip()), "")
    raise OutputError(1, first, "begins no output of lmbench, UnixBench, nbench or stress-ng (--yaml)")
