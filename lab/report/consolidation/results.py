"""Values of each step and of each instance in it, from Prometheus's answers. What is absent isn't there, and never 0.

Values have the names of their queries. Derived ones of an instance are `network`, what a request took beyond the
server's own time, `unseen_failures`, the share of requests that failed only for the client, and `named`, the share of
its waiting for neighbours that was for those who were named; of a step `tiers_cpu`, the CPU of all tiers together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lab.clients.metrics import LATE_SHARE
from lab.prometheus import Sample
from lab.report.consolidation import queries
from lab.report.consolidation.steps import Answers, Step
from lab.report.units import SHARE

UNSEEN_SHARE = 0.001  # of failures, from which on there is a remark
CUT_SHORT_SECONDS = 15  # up to three scrapes of a step are not in its samples
BY_SENSOR = ("requests", "errors", "mean", "p95", "within")
BY_CLIENT = ("client_requests", "client_answers", "client_failures", "client_mean")
OF_CLIENTS = ("clients_cpu", "lateness_mean", "lateness_p95", "late_starts")
OF_STEP = ("overhead", "overhead_ratio", "step_clients", "step_cpus", "planned_seconds")
PARTS = {"tier_cpu": "tier", "waiting": "tier", "throttled": "tier", "misses": "tier"}
PARTS |= {"causes": "cause", "caused": "reason", "neighbours": "by"}


@dataclass(frozen=True)
class Judged:
    """One objective in one step: the measured value and the target.

    `excess` is the measured value relative to the target, 1 being just at it; for a share, the bad share over the
    allowed one. None if nothing was measured. `seconds` is the response time threshold of a share.
    """

    objective: str
    measured: float | None
    promised: float
    excess: float | None
    seconds: float | None = None

    @property
    def met(self) -> bool | None:
        """None if nothing was measured."""
        return None if self.excess is None else self.excess <= 1 + 1e-9


@dataclass(frozen=True)
class Instance:
    """One application in one step; `parts` are values by tier, cause, reason or neighbour."""

    app: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    firing: tuple[str, ...] = ()
    """The alerts that fired at the end of the step."""
    judged: tuple[Judged, ...] = ()


@dataclass(frozen=True)
class StepResult:
    """One step: its instances, and values of the whole machine. `remarks` are for the reader."""

    step: Step
    instances: tuple[Instance, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    why_no_misses: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def value(self, of: str) -> float | None:
        """A value by its name, or its part if it has several ("tier_cpu web"); the mean over instances that have it."""
        if of in self.numbers:
            return self.numbers[of]
        name, _, part = of.partition(" ")
        if not part:
            return mean([instance.numbers.get(name) for instance in self.instances])
        parts = [instance.parts[name] for instance in self.instances if instance.parts.get(name)]
        # Of the reasons for which it waited, what is not there is none.
        return mean([of.get(part, 0.0 if name == "caused" else None) for of in parts])


@dataclass(frozen=True)
class Load:
    """A number of instances and of clients per instance, in one placement; `results` are its repetitions."""

    placement: str
    instances: int
    clients: int
    results: tuple[StepResult, ...]

    def values(self, of: str) -> tuple[float, ...]:
        """A value in every repetition that has it."""
        return tuple(value for result in self.results if (value := result.value(of)) is not None)

    @property
    def judged(self) -> tuple[Judged, ...]:
        """Every objective of every instance in every repetition."""
        return tuple(judged for result in self.results for app in result.instances for judged in app.judged)

    @property
    def met(self) -> bool | None:
        """Whether every objective was met, by every instance, in every repetition; None if unknown."""
        verdicts = [judged.met for judged in self.judged]
        if False in verdicts:
            return False
        return None if None in verdicts or not verdicts else True


def loads(results: Iterable[StepResult]) -> list[Load]:
    """Group repetitions, smallest loads first."""
    groups: dict[tuple[str, int, int], list[StepResult]] = {}
    for result in results:
        step = result.step
        groups.setdefault((step.placement, step.instances, step.clients), []).append(result)
    return [Load(*of, tuple(group)) for of, group in sorted(groups.items())]


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that exist; None if there are none.

    >>> mean([1.0, None, 2.0])
    1.5
    """
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


def mean_parts(results: Iterable[StepResult], name: str) -> dict[str, float]:
    """The mean over instances of each part of a value, such as each cause's share of the time; largest first."""
    apps = [app.parts[name] for result in results for app in result.instances if app.parts.get(name)]
    means = {part: sum(of.get(part, 0) for of in apps) / len(apps) for of in apps for part in of}
    return dict(sorted(means.items(), key=lambda item: (-item[1], item[0])))


def result(answers: Answers) -> StepResult:
    """The results of one step."""
    step, given = answers.step, answers.given
    if step.seconds == 0:
        return StepResult(step, remarks=("ended before Prometheus had scraped it three times: it has no results",))
    instances = tuple(_instance(app, answers) for app in answers.apps)
    numbers = _numbers(given, (*OF_STEP, *(() if given["client_broken"] else OF_CLIENTS)))
    if used := [cpu for instance in instances for cpu in instance.parts["tier_cpu"].values()]:
        numbers["tiers_cpu"] = sum(used)
    why_no_misses = tuple(sample.labels["reason"] for sample in given["why_no_misses"])
    return StepResult(step, instances, numbers, why_no_misses, tuple(_remarks(answers, instances, numbers)))


def _remarks(answers: Answers, instances: Sequence[Instance], numbers: Mapping[str, float]) -> list[str]:
    step = answers.step
    remarks = []
    planned = numbers.get("planned_seconds", 0.0)
    if step.seconds + CUT_SHORT_SECONDS < planned:
        remarks.append(f"cut short: {step.seconds} s were measured of {planned:.0f} s planned")
    if step.attempts > 1:
        remarks.append(f"begun {step.attempts} times; the longest attempt counts")
    if reach := queries.before_step(step):
        remarks.append(
            f"shorter than a minute: its CPU and waiting, rates over a minute, reach back to {reach} s before it"
        )
    if numbers.get("late_starts", 0.0) > LATE_SHARE:
        remarks.append(
            "the clients lacked CPU and sent requests late (see Clients): the load was less even than intended, "
            "and response times are not only the application's"
        )
    if len(instances) != step.instances:
        there = ", ".join(instance.app for instance in instances) or "none"
        remarks.append(f"clients used {len(instances)} of {step.instances} instances ({there}): means are over these")
    for what, key in (("sensor", "requests"), ("client", "client_requests")):
        if missing := [instance.app for instance in instances if key not in instance.numbers]:
            broken = {sample.labels["app"] for sample in answers.given[f"{what}_broken"]}
            why = "restarted" if broken & set(missing) else "was not seen all the time"
            remarks.append(f"no {what} values of {', '.join(missing)}: the {what} {why}")
    remarks += [
        f"{SHARE.write(unseen)} of {instance.app}'s requests failed for the clients and not by its log: they timed out "
        "or never got there, and no objective counts them"
        for instance in instances
        if (unseen := instance.numbers.get("unseen_failures", 0.0)) > UNSEEN_SHARE
    ]
    return remarks


def _instance(app: str, answers: Answers) -> Instance:
    given = {
        name: [sample for sample in samples if sample.labels.get("app") == app]
        for name, samples in answers.given.items()
    }
    names = ["cpu_per_request", "cpu_per_request_with_host"]
    names += [] if given["sensor_broken"] else BY_SENSOR
    names += [] if given["client_broken"] else BY_CLIENT
    numbers = _numbers(given, names)
    parts = {name: _by(label, given[name]) for name, label in PARTS.items()}
    whole = sum(parts["causes"].values())
    parts["causes"] = {cause: part / whole for cause, part in parts["causes"].items()}
    for name, of, beyond in (("network", "client_mean", "mean"), ("unseen_failures", "client_failures", "errors")):
        if of in numbers and beyond in numbers:
            numbers[name] = numbers[of] - numbers[beyond]
    if parts["caused"]:
        numbers["named"] = sum(parts["neighbours"].values())
    firing = tuple(sorted(sample.labels["alertname"] for sample in given["firing"]))
    shares, seconds = _by("objective", given["objectives"]), _by("objective", given["thresholds"])
    return Instance(app, numbers, parts, firing, judge(numbers, shares, seconds))


def judge(
    numbers: Mapping[str, float], shares: Mapping[str, float], seconds: Mapping[str, float]
) -> tuple[Judged, ...]:
    """Compare a step's values with the objectives that there are.

    shares: by objective, the share of requests that must be good; seconds: their thresholds of the response time. That
    of the mean is its ceiling.
    """
    judged = []
    if ceiling := seconds.get("mean"):
        found = numbers.get("mean")
        judged.append(Judged("mean", found, ceiling, None if found is None else found / ceiling))
    if "latency" in shares and "latency" in seconds:
        judged.append(_judged("latency", numbers.get("within"), shares["latency"], seconds["latency"]))
    if "availability" in shares:
        good = 1 - numbers["errors"] if "errors" in numbers else None
        judged.append(_judged("availability", good, shares["availability"]))
    return tuple(judged)


def _judged(objective: str, good: float | None, promised: float, seconds: float | None = None) -> Judged:
    return Judged(objective, good, promised, None if good is None else (1 - good) / (1 - promised), seconds)


def _numbers(given: Mapping[str, Sequence[Sample]], names: Iterable[str]) -> dict[str, float]:
    """The values of queries with a single series; NaN, as of a percentile without requests, is none."""
    found = {name: given[name][0].value for name in names if given.get(name)}
    return {name: value for name, value in found.items() if not math.isnan(value)}


def _by(label: str, samples: Sequence[Sample]) -> dict[str, float]:
    return {sample.labels[label]: sample.value for sample in samples if not math.isnan(sample.value)}
