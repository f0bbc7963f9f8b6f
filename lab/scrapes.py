"""Sets scrape targets of the stack's Prometheus, and waits for scrapes: only scraped values are results.

Targets files are `JOB-lab-PID.yml`, one for each of its jobs.
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from deploy import health, targets
from lab import LabError, guard, wait_until
from lab.metrics import METRIC
from lab.prometheus import Prometheus, PrometheusError

T = TypeVar("T")
SCRAPE_SECONDS = 60.0
POLL_SECONDS = 0.2
_OURS = re.compile(r"(telegraf|cadvisor|lab)-lab(-\d+)?\.(yml|new)", re.ASCII)


@contextlib.contextmanager
def targets_written(ports: Mapping[str, Iterable[int]], folder: Path = targets.FOLDER) -> Iterator[None]:
    """Targets files for these loopback ports, by job, while the block lasts.

    A killed lab's guard removes them, as missing targets would cause alerts. Their names have the lab's pid, so this
    guard doesn't remove the next run's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left_over in [file for file in folder.iterdir() if _OURS.fullmatch(file.name)]:  # after a crash of the machine
        left_over.unlink(missing_ok=True)
    host = json.dumps(targets.this_machine().host, ensure_ascii=False)
    files = {folder / f"{job}-lab-{os.getpid()}.yml": of_job for job, of_job in ports.items()}
    with guard.watching(*files):
        for file, of_job in files.items():
            addresses = json.dumps([f"127.0.0.1:{port}" for port in of_job])
            new = file.with_suffix(".new")
            new.write_text(
                "# Written by the lab, and removed at its end.\n"
                f"- targets: {addresses}\n  labels: {{host: {host}, platform: cgroup}}\n"
            )
            new.replace(file)
        yield


class Scrapes:
    """Scrapes by the stack's Prometheus on this port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.prometheus = Prometheus(f"http://127.0.0.1:{port}")

    def await_targets(self, ports: Mapping[str, Iterable[int]], check: Callable[[], None]) -> None:
        """Return once all targets on these loopback ports, by job, have been scraped; raises `LabError` if not."""
        missing = {f"127.0.0.1:{port}" for of_job in ports.values() for port in of_job}

        def scraped() -> bool:
            check()
            missing.difference_update(target.address for target in health.targets(self._port) if target.up)
            return not missing

        if not wait_until(scraped, SCRAPE_SECONDS, POLL_SECONDS):
            raise LabError(f"the stack's Prometheus does not scrape {', '.join(sorted(missing))}: see make status")

    def await_measurements(self, run: str, step: str, found: Sequence[object], check: Callable[[], None]) -> None:
        """Return once Prometheus has all measurements of a step; raises `LabError` if it doesn't get them."""
        attempts = f"{METRIC}{{run={json.dumps(run)}, step={json.dumps(step, ensure_ascii=False)}}}"
        query = f"max(count by (attempt) ({attempts})) >= {len(found)}"
        self.await_samples(lambda: self.prometheus.vector(query), f"not all measurements of step {step}", check)

    def await_samples(self, query: Callable[[], Sequence[object]], lacking: str, check: Callable[[], None]) -> None:
        """Return once a query has a result; raises `LabError` if it has none within a minute.

        lacking: the scrapes so far, such as "step 4x700-1 less than 3 times", for the message.
        """
        if not wait_until(lambda: self.ask(query, check), SCRAPE_SECONDS, POLL_SECONDS):
            raise LabError(f"the stack's Prometheus has scraped {lacking}: see make status, then run this again")

    def ask(self, queries: Callable[[], T], check: Callable[[], None]) -> T:
        """The result of queries, which are asked again for a minute while Prometheus doesn't answer: it may restart.

        Raises `PrometheusError` after that.
        """
        deadline = time.monotonic() + SCRAPE_SECONDS
        while True:
            check()
            try:
                return queries()
            except PrometheusError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)
