"""A run's steps and their values, from Prometheus. Missing values are absent, and never 0.

    lab_step_info{run="20261121T090512-scale", scenario="scale", step="4x700-2", instances="4", clients="700",
                  placement="one node", repetition="2", host="lab", platform="cgroup"} 1

The runner exposes a step only while it measures, so the samples of a series define the time range of its values, and a
gap in them means that the step was restarted, as in a run resumed after a crash.

Values have the names of their queries, with the tier, cause, reason or neighbour if there are several: "waiting web".
Derived values of an application: `network` is a request's time beyond the server's own, `unseen_failures` the share of
requests that failed only for the client, and `named` the share of its wait for neighbours that named neighbours
account for. Derived value of a step: `tiers_cpu`, the CPU of all tiers together.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lab import LabError
from lab.clients.metrics import LATE_SHARE
from lab.prometheus import Prometheus, Recorded, Sample
from lab.report.consolidation import queries
from lab.report.consolidation.queries import Step
from lab.report.units import SHARE

SCRAPE_SECONDS = 5.0  # from prometheus.yml: a step with one sample doesn't show it
ATTEMPT_GAP_SECONDS = 20  # three scrapes in a row may fail on an overloaded machine
CUT_SHORT_SECONDS = 15  # a step's samples may miss up to three of its scrapes
UNSEEN_SHARE = 0.001  # minimum share of failures for a remark
# Values that are wrong if a sensor's or client's counter was reset within the step.
BY_SENSOR = {"requests", "errors", "mean", "p95", "within"}
BY_CLIENT = {"client_requests", "client_answers", "client_failures", "client_mean"}
BY_CLIENT |= {"clients_cpu", "lateness_mean", "lateness_p95", "late_starts"}
_LABELS = ("run", "step", "instances", "clients", "placement", "repetition", "host", "platform")


@dataclass(frozen=True)
class Judged:
    """One objective in one step: the measured value and the target; `seconds` is a share's response time threshold."""

    objective: str
    measured: float | None
    promised: float
    seconds: float | None = None

    @property
    def excess(self) -> float | None:
        """Measured value / target; for a share of requests, bad share / allowed bad share; None if unknown."""
        if self.measured is None or self.objective == "mean":
            return None if self.measured is None else self.measured / self.promised
        return (1 - self.measured) / (1 - self.promised)

    @property
    def met(self) -> bool | None:
        return None if self.excess is None else self.excess <= 1 + 1e-9


@dataclass(frozen=True)
class App:
    name: str
    values: Mapping[str, float]

    def parts(self, name: str) -> dict[str, float]:
        return {key[len(name) + 1 :]: value for key, value in self.values.items() if key.startswith(f"{name} ")}

    @property
    def judged(self) -> list[Judged]:
        shares, seconds, found = self.parts("objectives"), self.parts("thresholds"), self.values
        judged = []
        if ceiling := seconds.get("mean"):
            judged.append(Judged("mean", found.get("mean"), ceiling))
        if "latency" in shares and "latency" in seconds:
            judged.append(Judged("latency", found.get("within"), shares["latency"], seconds["latency"]))
        if "availability" in shares:
            good = 1 - found["errors"] if "errors" in found else None
            judged.append(Judged("availability", good, shares["availability"]))
        return judged


@dataclass(frozen=True)
class StepResult:
    """One step: its applications, and values of the whole machine. `remarks` are for the reader."""

    step: Step
    apps: tuple[App, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    asked: Mapping[str, str] = field(default_factory=dict)

    def value(self, of: str) -> float | None:
        """A value by name; the mean over applications that have it."""
        if of in self.values:
            return self.values[of]
        name = of.partition(" ")[0]
        # A missing reason for waiting counts as 0.
        return mean(app.values.get(of, 0.0 if name == "caused" and app.parts(name) else None) for app in self.apps)


@dataclass(frozen=True)
class Load:
    """A number of instances and of clients per instance, in one placement; `results` are its repetitions."""

    placement: str
    instances: int
    clients: int
    results: tuple[StepResult, ...]

    def values(self, of: str) -> tuple[float, ...]:
        return tuple(value for result in self.results if (value := result.value(of)) is not None)

    @property
    def judged(self) -> list[Judged]:
        return [judged for result in self.results for app in result.apps for judged in app.judged]

    @property
    def met(self) -> bool | None:
        verdicts = [judged.met for judged in self.judged]
        if False in verdicts:
            return False
        return None if None in verdicts or not verdicts else True


def loads(results: Iterable[StepResult]) -> list[Load]:
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
    return statistics.fmean(there) if there else None


def mean_parts(results: Iterable[StepResult], name: str) -> dict[str, float]:
    """The mean over applications of each part of a value, such as each cause's share of the time; largest first."""
    apps = [parts for result in results for app in result.apps if (parts := app.parts(name))]
    means = {part: sum(of.get(part, 0) for of in apps) / len(apps) for of in apps for part in of}
    return dict(sorted(means.items(), key=lambda item: (-item[1], item[0])))


def collect(prometheus: Prometheus, run: str) -> list[StepResult]:
    """A run's steps in order; raises `LabError` if there are none."""
    found = steps(prometheus.recorded(f'lab_step_info{{run="{run}"}}[30d]'))
    if not found:
        raise LabError(f"run {run} has not measured a step yet")
    return [_collect(prometheus, step) for step in found]


def _collect(prometheus: Prometheus, step: Step) -> StepResult:
    if step.seconds == 0:
        return StepResult(step, remarks=("ended before Prometheus had scraped it three times: it has no results",))
    clients = prometheus.vector(queries.of_step(step)["applications"])
    apps = sorted((sample.labels["app"] for sample in clients), key=_natural)
    asked = queries.of_step(step, apps)
    del asked["applications"], asked["within"]
    given = {name: prometheus.vector(text) for name, text in asked.items()}
    by_seconds: dict[float, list[str]] = {}
    for sample in given["thresholds"]:
        if sample.labels["objective"] == "latency":
            by_seconds.setdefault(sample.value, []).append(sample.labels["app"])
    if by_seconds:
        each = (queries.of_step(step, sorted(of, key=_natural), latency) for latency, of in sorted(by_seconds.items()))
        asked["within"] = "\nor\n".join(of["within"] for of in each)
        given["within"] = prometheus.vector(asked["within"])
    return replace(result(step, apps, given), asked=asked)


def _natural(name: str) -> tuple[int, str]:
    """auction-2 before auction-10."""
    return len(name), name


def result(step: Step, apps: Sequence[str], given: Mapping[str, Sequence[Sample]]) -> StepResult:
    found: dict[str, dict[str, float]] = {name: {} for name in ("", *apps)}
    for name, samples in given.items():
        for sample in samples:
            parts = [value for label, value in sample.labels.items() if label != "app"]
            if not math.isnan(sample.value):  # as for a percentile without requests
                found.setdefault(sample.labels.get("app", ""), {})[" ".join((name, *parts))] = sample.value
    of_apps = tuple(App(name, _derived(found[name])) for name in apps)
    values = found[""]
    if any("client_broken" in of for of in found.values()):
        values = {name: value for name, value in values.items() if name not in BY_CLIENT}
    if used := [cpu for app in of_apps for cpu in app.parts("tier_cpu").values()]:
        values["tiers_cpu"] = sum(used)
    return StepResult(step, of_apps, values, tuple(_remarks(step, of_apps, values)))


def _derived(values: Mapping[str, float]) -> dict[str, float]:
    """Adds derived values, and omits values of counters that were reset."""
    reset = (BY_SENSOR if "sensor_broken" in values else set()) | (BY_CLIENT if "client_broken" in values else set())
    found = {name: value for name, value in values.items() if name not in reset}
    causes = App("", found).parts("causes")
    found |= {f"causes {cause}": part / sum(causes.values()) for cause, part in causes.items()}
    for name, of, beyond in (("network", "client_mean", "mean"), ("unseen_failures", "client_failures", "errors")):
        if of in found and beyond in found:
            found[name] = found[of] - found[beyond]
    if App("", found).parts("caused"):
        found["named"] = sum(App("", found).parts("neighbours").values())
    return found


def _remarks(step: Step, apps: Sequence[App], values: Mapping[str, float]) -> Iterable[str]:
    planned = values.get("planned_seconds", 0.0)
    if step.seconds + CUT_SHORT_SECONDS < planned:
        yield f"cut short: {step.seconds} s were measured of {planned:.0f} s planned"
    if step.attempts > 1:
        yield f"begun {step.attempts} times; the longest attempt counts"
    if reach := queries.before_step(step):
        yield f"shorter than two minutes: CPU and waiting, rates over two minutes, reach back to {reach} s before it"
    if values.get("late_starts", 0.0) > LATE_SHARE:
        yield (
            "the clients lacked CPU and sent requests late (see Clients): the load was less even than intended, "
            "and response times are not only the application's"
        )
    if len(apps) != step.instances:
        there = ", ".join(app.name for app in apps) or "none"
        yield f"clients used {len(apps)} of {step.instances} instances ({there}): means are over these"
    for what, key in (("sensor", "requests"), ("client", "client_requests")):
        if missing := [app for app in apps if key not in app.values]:
            why = "restarted" if any(f"{what}_broken" in app.values for app in missing) else "was not seen all the time"
            yield f"no {what} values of {', '.join(app.name for app in missing)}: the {what} {why}"
    for app in apps:
        if (unseen := app.values.get("unseen_failures", 0.0)) > UNSEEN_SHARE:
            yield (
                f"{SHARE.write(unseen)} of {app.name}'s requests failed for the clients and not by its log: they timed "
                "out or never got there, and no objective counts them"
            )


def steps(recorded: Iterable[Recorded]) -> list[Step]:
    """A run's steps in the order they ran."""
    times: dict[tuple[str, ...], set[float]] = {}
    for series in recorded:
        # Without `instance` and `job`: after a crash the runner may have another port, but it is the same step.
        identity = tuple(series.labels.get(label, "") for label in _LABELS)
        times.setdefault(identity, set()).update(time for time, _ in series.samples)
    return sorted((_step(identity, sorted(seen)) for identity, seen in times.items()), key=lambda step: step.start)


def _step(identity: tuple[str, ...], seen: Sequence[float]) -> Step:
    """The step's longest attempt; the last of equally long ones."""
    run, name, instances, clients, placement, repetition, host, platform = identity
    attempts = [[seen[0]]]
    for before, time in itertools.pairwise(seen):
        if time - before > ATTEMPT_GAP_SECONDS:
            attempts.append([])
        attempts[-1].append(time)
    attempt = max(reversed(attempts), key=lambda times: times[-1] - times[0])
    interval = statistics.median(b - a for a, b in itertools.pairwise(attempt)) if len(attempt) > 1 else SCRAPE_SECONDS
    # Other targets are scraped at other moments than the lab's, each at its own fixed offset within the interval.
    # Prometheus's values at `end` are from the last interval. Start and end are whole intervals apart, so the samples
    # of every target span the same time.
    end = int(attempt[-1])
    intervals = max(int((attempt[-1] - attempt[0]) / interval + 0.5) - 1, 0)
    numbers = (int(instances), int(clients), placement, int(repetition))
    return Step(run, name, *numbers, host, platform, end - round(intervals * interval), end, len(attempts))
