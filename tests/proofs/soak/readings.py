"""Periodic readings of the running stack, each with the monthly growth that would matter."""

import re
from pathlib import Path
from typing import NamedTuple

from tests.proofs.soak.stack import Stack

MB = 1e6


class Metric(NamedTuple):
    """A reading's kind and subject."""

    of: str
    what: str
    unit: str


class Bar(NamedTuple):
    """Allowed growth per month: this amount or the current level, whichever is larger."""

    least: float


BARS = {
    "memory": Bar(100.0),  # MB
    "descriptors": Bar(100),
    "threads": Bar(20),
    "logs": Bar(500.0),  # MB
    "series": Bar(10_000),
    "scrape": Bar(50.0),  # ms
    "rules": Bar(200.0),  # ms
}

_QUERIES = {
    Metric("Prometheus's head", "series", ""): "sum(prometheus_tsdb_head_series)",
    Metric(
        "all groups of rules", "rules", "ms"
    ): "sum(avg_over_time(prometheus_rule_group_last_duration_seconds[30s])) * 1e3",
}
_SCRAPES = "avg by (job, host) (avg_over_time(scrape_duration_seconds[30s])) * 1e3"


def read(stack: Stack) -> dict[Metric, float]:
    """All current values; raises the queries' errors, and OSError for a process that has just ended."""
    found: dict[Metric, float] = {}
    for name, pid in stack.processes().items():
        status = Path(f"/proc/{pid}/status").read_text()
        # Not all resident memory: it contains pages of Prometheus's blocks, which the kernel can drop.
        found[Metric(name, "memory", "MB")] = int(re.findall(r"RssAnon:\s+([0-9]+) kB", status)[0]) * 1024 / MB
        found[Metric(name, "threads", "")] = int(re.findall(r"Threads:\s+([0-9]+)", status)[0])
        found[Metric(name, "descriptors", "")] = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    sizes = [file.stat().st_size for folder in stack.logs for file in folder.rglob("*") if file.is_file()]
    found[Metric("all programs", "logs", "MB")] = sum(sizes) / MB
    for metric, expression in _QUERIES.items():
        found[metric] = float(stack.query(expression)[0]["value"][1])
    for sample in stack.query(_SCRAPES):
        labels = sample["metric"]
        of = " of ".join(filter(None, (labels["job"], labels.get("host", ""))))
        found[Metric(of, "scrape", "ms")] = float(sample["value"][1])
    return found
