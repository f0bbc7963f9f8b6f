"""Waits until the stack's Prometheus has scraped what the lab exposes: what it hasn't seen is no result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from deploy import health
from lab import LabError, wait_until
from lab.measurements import METRIC
from lab.prometheus import Prometheus, PrometheusError

SCRAPE_SECONDS = 60.0
POLL_SECONDS = 0.2


def await_targets(prometheus_port: int, ports: Mapping[str, Iterable[int]], check: Callable[[], None]) -> None:
    """Return once all targets on these loopback ports, by job, have been scraped; raises `LabError` if they aren't."""
    missing = {f"127.0.0.1:{port}" for of_job in ports.values() for port in of_job}

    def scraped() -> bool:
        check()
        missing.difference_update(target.address for target in health.targets(prometheus_port) if target.up)
        return not missing

    if not wait_until(scraped, SCRAPE_SECONDS, POLL_SECONDS):
        raise LabError(f"the stack's Prometheus does not scrape {', '.join(sorted(missing))}: see make status")


def await_measurements(
    prometheus_port: int, run: str, step: str, found: Sequence[object], check: Callable[[], None]
) -> None:
    """Return once Prometheus has all measurements of a step; raises `LabError` if it doesn't get them."""
    attempts = f"{METRIC}{{run={json.dumps(run)}, step={json.dumps(step, ensure_ascii=False)}}}"
    query = f"max(count by (attempt) ({attempts})) >= {len(found)}"
    await_samples(prometheus_port, lambda: query, f"not all measurements of step {step}", check)


def await_samples(prometheus_port: int, query: Callable[[], str], lacking: str, check: Callable[[], None]) -> None:
    """Return once a query has a result; raises `LabError` if it hasn't within a minute.

    query: called each time, as its range may grow.
    lacking: what was scraped until then, such as "step 4x700-1 less than 3 times", for the message.
    """
    prometheus = Prometheus(f"http://127.0.0.1:{prometheus_port}")

    def seen() -> bool:
        check()
        try:
            return prometheus.vector(query()) != []
        except PrometheusError:  # it may be restarting
            return False

    if not wait_until(seen, SCRAPE_SECONDS, POLL_SECONDS):
        raise LabError(
            f"the stack's Prometheus has scraped {lacking}: see make status; "
            "the same command then continues with this step"
        )
