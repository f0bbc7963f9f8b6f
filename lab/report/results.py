"""Values of each step and of each instance in it, from Prometheus's answers. Absent is None, never 0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.clients.metrics import LATE_SHARE
from lab.prometheus import Sample
from lab.report import queries
from lab.report.collection import Answers
from lab.report.judgement import Judged, Objectives, judge
from lab.report.runs import Step
from lab.report.units import SHARE

UNSEEN_SHARE = 0.001  # of failures, from which on there is a remark
CUT_SHORT_SECONDS = 15  # up to three scrapes of a step are not in its samples


@dataclass(frozen=True)
class Instance:
    """One application in one step. Times in seconds, rates per second, CPU in CPUs; tiers by their name."""

    app: str
    requests: float | None
    errors: float | None
    mean: float | None
    p95: float | None
    within: float | None
    """The share of answered requests under the latency objective's threshold."""
    client_requests: float | None
    client_answers: float | None
    """The clients' requests that didn't fail."""
    client_failures: float | None
    client_mean: float | None
    cpu_per_request: float | None
    cpu_per_request_with_host: float | None
    """With its share of the host's own CPU."""
    tier_cpu: Mapping[str, float]
    waiting: Mapping[str, float]
    throttled: Mapping[str, float]
    misses: Mapping[str, float]
    causes: Mapping[str, float]
    """The share of the step in which each cause was the most likely one."""
    caused: Mapping[str, float]
    """Its waiting by reason, such as "neighbour", as app:cpu_wait_caused:rate has it."""
    neighbours: Mapping[str, float]
    """Who was named, with their parts of its waiting for neighbours."""
    firing: tuple[str, ...]
    """The alerts that fired at the end of the step."""
    judged: tuple[Judged, ...]

    @property
    def network(self) -> float | None:
        """What a request took beyond the server's own time: network, queues before it, and the client."""
        return None if self.client_mean is None or self.mean is None else self.client_mean - self.mean

    @property
    def unseen_failures(self) -> float | None:
        """The share of requests that failed only for the client: they timed out, or had no answer."""
        return None if self.client_failures is None or self.errors is None else self.client_failures - self.errors


@dataclass(frozen=True)
class StepResult:
    """One step: its instances, and values of the whole machine. `remarks` are for the reader."""

    step: Step
    instances: tuple[Instance, ...] = ()
    overhead: float | None = None
    overhead_ratio: float | None = None
    clients_cpu: float | None = None
    lateness_mean: float | None = None
    lateness_p95: float | None = None
    late_starts: float | None = None
    """The share of requests that the clients started too late."""
    clients_run: float | None = None
    cpus: float | None = None
    why_no_misses: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def cpu(self, tier: str) -> float | None:
        """CPUs of this tier, mean over instances."""
        return mean([instance.tier_cpu.get(tier) for instance in self.instances])

    @property
    def tiers_cpu(self) -> float | None:
        """CPUs that all tiers of all instances used together."""
        used = [cpu for instance in self.instances for cpu in instance.tier_cpu.values()]
        return sum(used) if used else None

    def of_instances(self, name: str) -> float | None:
        """A value of `Instance` by its name, mean over the instances that have it, as the studies give it."""
        return mean([getattr(instance, name) for instance in self.instances])


def mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values that exist; None if there are none.

    >>> mean([1.0, None, 2.0])
    1.5
    """
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


def causes(results: Sequence[StepResult]) -> dict[str, float]:
    """The share of the time, mean over instances, in which each cause was the most likely one; largest first."""
    apps = [app.causes for result in results for app in result.instances if app.causes]
    names = {name for shares in apps for name in shares}
    means = {name: sum(shares.get(name, 0) for shares in apps) / len(apps) for name in names}
    return dict(sorted(means.items(), key=lambda item: (-item[1], item[0])))


def neighbours(results: Sequence[StepResult]) -> dict[str, float]:
    """Who was named, with their parts of the waiting for neighbours, mean over instances; largest first."""
    apps = [app.neighbours for result in results for app in result.instances if app.neighbours]
    names = {name for parts in apps for name in parts}
    means = {name: sum(parts.get(name, 0) for parts in apps) / len(apps) for name in names}
    return dict(sorted(means.items(), key=lambda item: (-item[1], item[0])))


def result(answers: Answers) -> StepResult:
    """The results of one step."""
    step = answers.step
    if step.seconds == 0:
        remark = "ended before Prometheus had scraped it three times: it has no results"
        return StepResult(step, remarks=(remark,))
    given = answers.given
    clients_whole = not given["client_broken"]
    late_starts = _one(given["late_starts"]) if clients_whole else None
    clients_run, cpus, planned = (_one(given[name]) for name in ("step_clients", "step_cpus", "planned_seconds"))
    instances = tuple(_instance(app, answers) for app in answers.apps)
    return StepResult(
        step,
        instances,
        overhead=_one(given["overhead"]),
        overhead_ratio=_one(given["overhead_ratio"]),
        clients_cpu=_one(given["clients_cpu"]) if clients_whole else None,
        lateness_mean=_one(given["lateness_mean"]) if clients_whole else None,
        lateness_p95=_one(given["lateness_p95"]) if clients_whole else None,
        late_starts=late_starts,
        clients_run=clients_run,
        cpus=cpus,
        why_no_misses=tuple(sample.labels["reason"] for sample in given["why_no_misses"]),
        remarks=tuple(_remarks(answers, instances, planned, late_starts)),
    )


def _remarks(
    answers: Answers, instances: Sequence[Instance], planned: float | None, late_starts: float | None
) -> list[str]:
    step = answers.step
    remarks = []
    if planned is not None and step.seconds + CUT_SHORT_SECONDS < planned:
        remarks.append(f"cut short: {step.seconds} s were measured of {planned:.0f} s planned")
    if step.attempts > 1:
        remarks.append(f"begun {step.attempts} times; the longest attempt counts")
    if reach := queries.before_step(step):
        remarks.append(
            f"shorter than a minute: its CPU and waiting, rates over a minute, reach back to {reach} s before it"
        )
    if (late_starts or 0) > LATE_SHARE:
        remarks.append(
            "the clients lacked CPU and sent requests late (see Clients): the load was less even than intended, "
            "and response times are not only the application's"
        )
    if len(instances) != step.instances:
        there = ", ".join(instance.app for instance in instances) or "none"
        remarks.append(f"clients used {len(instances)} of {step.instances} instances ({there}): means are over these")
    for what, missing in (
        ("sensor", [instance.app for instance in instances if instance.requests is None]),
        ("client", [instance.app for instance in instances if instance.client_requests is None]),
    ):
        if missing:
            why = "restarted" if _apps(answers.given[f"{what}_broken"]) & set(missing) else "was not seen all the time"
            remarks.append(f"no {what} values of {', '.join(missing)}: the {what} {why}")
    remarks += [
        f"{SHARE.write(instance.unseen_failures)} of {instance.app}'s requests failed for the clients and not by its "
        "log: they timed out or never got there, and no objective counts them"
        for instance in instances
        if (instance.unseen_failures or 0) > UNSEEN_SHARE
    ]
    return remarks


def _instance(app: str, answers: Answers) -> Instance:
    given = {
        name: [sample for sample in samples if sample.labels.get("app") == app]
        for name, samples in answers.given.items()
    }

    def by_sensor(name: str) -> float | None:
        return _one(given.get(name, ())) if not given["sensor_broken"] else None

    def by_client(name: str) -> float | None:
        return _one(given[name]) if not given["client_broken"] else None

    mean_seconds, within, errors = by_sensor("mean"), by_sensor("within"), by_sensor("errors")
    return Instance(
        app,
        requests=by_sensor("requests"),
        errors=errors,
        mean=mean_seconds,
        p95=by_sensor("p95"),
        within=within,
        client_requests=by_client("client_requests"),
        client_answers=by_client("client_answers"),
        client_failures=by_client("client_failures"),
        client_mean=by_client("client_mean"),
        cpu_per_request=_one(given["cpu_per_request"]),
        cpu_per_request_with_host=_one(given["cpu_per_request_with_host"]),
        tier_cpu=_by("tier", given["tier_cpu"]),
        waiting=_by("tier", given["waiting"]),
        throttled=_by("tier", given["throttled"]),
        misses=_by("tier", given["misses"]),
        causes=_shares(_by("cause", given["causes"])),
        caused=_by("reason", given["caused"]),
        neighbours=_by("by", given["neighbours"]),
        firing=tuple(sorted(sample.labels["alertname"] for sample in given["firing"])),
        judged=judge(_objectives(given), mean=mean_seconds, within=within, errors=errors),
    )


def _objectives(given: Mapping[str, Sequence[Sample]]) -> Objectives:
    shares, seconds = _by("objective", given["objectives"]), _by("objective", given["thresholds"])
    return Objectives(
        mean_seconds=seconds.get("mean"),
        latency_seconds=seconds.get("latency"),
        latency_share=shares.get("latency"),
        availability_share=shares.get("availability"),
    )


def _one(samples: Sequence[Sample]) -> float | None:
    """The value of the only series; None for NaN, as for a percentile without requests."""
    return None if not samples or math.isnan(samples[0].value) else samples[0].value


def _by(label: str, samples: Sequence[Sample]) -> dict[str, float]:
    return {sample.labels[label]: sample.value for sample in samples if not math.isnan(sample.value)}


def _shares(parts: Mapping[str, float]) -> dict[str, float]:
    whole = sum(parts.values())
    return {name: part / whole for name, part in sorted(parts.items(), key=lambda item: -item[1])}


def _apps(samples: Sequence[Sample]) -> set[str]:
    return {sample.labels["app"] for sample in samples}
