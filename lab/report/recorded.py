"""Lab runs and their measurements (lab/metrics.py), as recorded in Prometheus."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from lab import LabError
from lab.metrics import METRIC, UNSETTLED, Measurement
from lab.prometheus import Prometheus, Recorded, Sample

RUNS = "lab_run_info[30d]"  # the stack's retention
# Labels of lab_run_info, and the programs whose versions they are.
SOFTWARE = {"os": "", "kernel": "Linux", "apache": "Apache", "php": "PHP", "mariadb": "MariaDB", "telegraf": "Telegraf"}
SOFTWARE |= {"lmbench": "lmbench", "stress_ng": "stress-ng"}


class Run(NamedTuple):
    """A run; `info` are the labels of lab_run_info."""

    info: Mapping[str, str]
    start: float
    end: float

    @property
    def name(self) -> str:
        return self.info["run"]


@dataclass(frozen=True)
class Asked:
    """Queries; `at` names what they are about, and its time."""

    at: str
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Recording:
    """All measurements of a run, or of files."""

    title: str
    study: str
    measurements: tuple[Measurement, ...]
    facts: Mapping[str, str]
    """In words, by subject."""
    asked: tuple[Asked, ...] = ()
    info: Mapping[str, str] = field(default_factory=dict)
    """The labels of lab_run_info."""
    planned_steps: int = 0
    finished_steps: int = 0
    unsettled: Mapping[str, float] = field(default_factory=dict)
    """CPUs that others used right before a step, by step name, if the machine did not settle."""


def runs(recorded: Sequence[Recorded]) -> list[Run]:
    """All runs that have samples, newest first."""
    found: dict[str, Run] = {}
    for series in sorted(recorded, key=lambda series: series.samples[0]):
        begun = found.get(series.labels["run"])  # a run that went on has several
        start, (end, _) = begun.start if begun else series.samples[0][0], series.samples[-1]
        found[series.labels["run"]] = Run(series.labels, start, max(end, begun.end if begun else 0))
    return sorted(found.values(), key=lambda run: run.start, reverse=True)


def find_run(prometheus: Prometheus, name: str | None) -> Run:
    """The run of this name, or the newest; raises `LabError`."""
    found = runs(prometheus.recorded(RUNS))
    if not found:
        raise LabError(
            f"{prometheus.url} has no run of the lab within the last 30 days: start one with `make lab SCENARIO=smoke`"
        )
    chosen = [run for run in found if name in {None, run.name}]
    if not chosen:
        raise LabError(f"no run {name!r}; there are, newest first: {', '.join(run.name for run in found)}")
    return chosen[0]


def query(metric: str, run: Run) -> str:
    """The last sample of each series within the run's time: the result never changes."""
    end = math.ceil(run.end)
    return f'last_over_time({metric}{{run="{run.name}"}}[{end - math.floor(run.start) + 1}s] @ {end})'


def collect(prometheus: Prometheus, run: Run, asked_at: float) -> Recording:
    """Run all queries about a run; raises `PrometheusError`."""
    metrics = ("lab_run_planned_steps", UNSETTLED, METRIC)
    asked = {metric: query(metric, run) for metric in metrics}
    given = {metric: prometheus.vector(text) for metric, text in asked.items()}
    last: dict[str, str] = {}  # attempts of each step
    for sample in given[METRIC]:
        step, attempt = _attempt(sample)
        last[step] = max(last.get(step, ""), attempt)
    latest = [sample for sample in given[METRIC] if last[_attempt(sample)[0]] == _attempt(sample)[1]]
    found = tuple(map(measurement, latest))
    return Recording(
        f"Run {run.name}: scenario {run.info['scenario']}",
        run.info["study"],
        found,
        facts(run, found, len(last)) | {"Asked": f"{prometheus.url} at {time(asked_at)}"},
        (Asked(f"the whole run, {time(run.start)} to {time(run.end)}", tuple(asked.values())),),
        run.info,
        round(sum(sample.value for sample in given["lab_run_planned_steps"][:1])),
        len(last),
        {sample.labels.get("step", ""): sample.value for sample in given[UNSETTLED]},
    )


def _attempt(sample: Sample) -> tuple[str, str]:
    return sample.labels.get("step", ""), sample.labels.get("attempt", "")


def measurement(sample: Sample) -> Measurement:
    of = sample.labels
    kind = (of["environment"], of["virtualization"], of["emulated"] == "yes", of["test"], of["unit"], of["better"])
    return Measurement(*kind, int(of["repetition"]), sample.value)


def facts(run: Run, found: Sequence[Measurement], steps: int) -> dict[str, str]:
    info, repetitions = run.info, count(max((one.repetition for one in found), default=0), "repetition")
    cpu = f", {info.get('cpus', '?')} CPUs, {info['cpu']}" if info.get("cpu") else ""
    software = [f"{name} {info[label]}".strip() for label, name in SOFTWARE.items() if info.get(label)]
    emulated = ", emulated" if info.get("emulated") == "yes" else ""
    guests = f"of {info.get('target')} ({info.get('virtualization')}{emulated}); the machine below is the lab's own"
    return {
        "When": f"{time(run.start)} to {time(run.end)}",
        "What": f"{count(steps, 'step')}, {repetitions} of each; without warm-up",
        "Guests": guests if info.get("target") else "",
        "Machine": f"{info.get('host', '')}{cpu}",
        "Software": ", ".join(software) or "not recorded",
        "Seed": info.get("seed", ""),
        "Skipped": info.get("skipped", ""),
        "virtscope": info.get("version") or "not recorded",
    }


def time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def count(number: int, thing: str) -> str:
    """A number of things, in words.

    >>> count(1, "instance"), count(4, "instance")
    ('1 instance', '4 instances')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
