"""The report's queries for each step: PromQL with times, ready to be copied (templates/step.promql.j2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lab.clients.metrics import LATE_SECONDS
from lab.report.rendering import TEMPLATES

RATE_SECONDS = 120  # the range of the records' rates
EVALUATION_SECONDS = 5  # from prometheus.yml
RUN_GAUGES = ("lab_request_cpu_seconds", "lab_study_clients")


@dataclass(frozen=True)
class Step:
    """One step of a run: a constant load. `clients` is per instance, in the study's numbers."""

    run: str
    name: str
    instances: int
    clients: int
    placement: str
    repetition: int
    host: str
    platform: str
    start: int
    """Unix time of its first samples: one scrape after it first appeared, so all samples are the step's own."""
    end: int
    """Unix time of its last samples; a whole number of scrapes after `start`."""
    attempts: int = 1

    @property
    def seconds(self) -> int:
        """Its measured duration; 0 if it ended within one or two scrapes, and has nothing to compare."""
        return self.end - self.start


def before_step(step: Step) -> int:
    """How many seconds before its start the averaged records of a step reach: 0 if it is long enough."""
    return max(RATE_SECONDS - step.seconds, 0)


def of_step(step: Step, apps: Sequence[str] = (), seconds: float = 1.0) -> dict[str, str]:
    """The query of each value, by name; `within` is the share of requests answered in `seconds`."""
    text = TEMPLATES.get_template("step.promql.j2").render(
        step=step,
        apps="|".join(apps),
        averaged_seconds=max(step.seconds - RATE_SECONDS, EVALUATION_SECONDS),
        resolution=f":{EVALUATION_SECONDS}s",
        late_seconds=f"{LATE_SECONDS:g}",
        # Prometheus 3 stores whole numbers as 1.0, earlier releases as exposed.
        le=f'le=~"{seconds:g}|{seconds:g}[.]0"' if seconds == int(seconds) else f'le="{seconds:g}"',
    )
    _, *parts = re.split(r"^## (\w+)$", text, flags=re.MULTILINE)
    return {name: query.strip() for name, query in zip(parts[::2], parts[1::2], strict=True)}
