"""A consolidation's step as measurements: queries over its time (step.promql.j2), then means over its applications.

    lab_step_info{run="20261121T090512-scale", step="4x700-2", host="lab", platform="cgroup", ...} 1

The runner exposes a step only while it measures, so the samples of this series define the time range of its values.

Tests have the names of their queries, with the tier, cause, reason or neighbour if there are several, and the
resource: "waiting web", "caused neighbour disk".
Missing values are absent, and never 0. Derived are `network`, a request's time beyond the server's own;
`unseen_failures`, the share of requests that failed only for the client (the largest of an application); `named`, the
share of the wait for neighbours at a resource that named ones account for; `delayed`, that wait of each request;
`held`, a request's CPU time and all its waits; `tiers_cpu`, of all tiers of all applications together; `sensors` and
`clients_seen`, the applications with values of sensor and client. For each objective, such as "latency", there are
"latency promised", "latency measured" (of the application furthest from it), "latency missed" and "latency judged"
(numbers of applications), "latency seconds", the threshold of a share, and "latency excess": measured value / target;
for a share of requests, bad share / allowed bad share.
"""

import itertools
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from lab.clients.metrics import LATE_SECONDS
from lab.metrics import Measurement
from lab.prometheus import Prometheus, Recorded, Sample
from lab.scenario import Step

RATE_SECONDS = 120  # the range of the records' rates
EVALUATION_SECONDS = 5  # from prometheus.yml
QUERIES = jinja2.Environment(
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
    autoescape=jinja2.select_autoescape((), default_for_string=False),
).from_string(Path(__file__).with_name("step.promql.j2").read_text())
# Values that are wrong if a sensor's or client's counter was reset within the step.
BY_SENSOR = {"requests", "errors", "mean", "p95", "within"}
BY_CLIENT = {"client_requests", "client_answers", "client_failures", "client_mean"}
BY_CLIENT |= {"clients_cpu", "lateness_mean", "lateness_p95", "late_starts"}
REASONS = ("neighbour", "self", "host", "cap")  # of app:delay:rate, at the CPU
WAITING = ("causes", "caused", "neighbours", "delayed")  # an application that lacks one of several parts has 0 of it
JUDGING = {"objectives", "thresholds", "sensor_broken", "client_broken"}  # are in other values
_SECONDS = {"mean", "p95", "client_mean", "network", "lateness_mean", "lateness_p95"}
_UNITS = {
    "s": _SECONDS | {"cpu_per_request", "request_cpu_seconds", "delayed", "held"},
    "CPUs": {"tier_cpu", "tiers_cpu", "overhead", "clients_cpu", "step_cpus"},
    "per second": {"requests", "client_requests", "client_answers"},
}
_HIGHER = {"requests", "client_requests", "client_answers", "within"}


@dataclass(frozen=True)
class Span:
    """A step's time on a host. `start` and `end` are Unix times of samples, whole scrape intervals apart."""

    host: str
    platform: str
    start: int
    """One scrape after the step first appeared, so all samples are the step's own."""
    end: int

    @property
    def seconds(self) -> int:
        return self.end - self.start


def span(of: Recorded) -> Span:
    """The time that a series of lab_step_info covers, at least three samples.

    Other targets are scraped at other moments than the lab's, each at its own fixed offset within the interval.
    Prometheus's values at `end` are from the last interval, so the samples of every target span the same time.
    """
    times = [time for time, _ in of.samples]
    interval = statistics.median(after - before for before, after in itertools.pairwise(times))
    end, intervals = int(times[-1]), int((times[-1] - times[0]) / interval + 0.5) - 1
    return Span(of.labels.get("host", ""), of.labels.get("platform", ""), end - round(intervals * interval), end)


def queries(step: Span, apps: Sequence[str], seconds: float = 1.0) -> dict[str, str]:
    """The query of each value, by name; `within` is the share of requests answered in `seconds`."""
    text = QUERIES.render(
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


def measured(prometheus: Prometheus, step: Step, within: Span, planned: dict[str, float]) -> list[Measurement]:
    """All values of a step, and `planned` ones by test. Raises `PrometheusError`."""
    asked = queries(within, step.apps)
    del asked["within"]
    given = {name: prometheus.vector(query) for name, query in asked.items()}
    given["within"] = [
        sample
        for threshold in given["thresholds"]
        if threshold.labels["objective"] == "latency"
        for sample in prometheus.vector(queries(within, [threshold.labels["app"]], threshold.value)["within"])
    ]
    values = summary(step.apps, given) | planned | {"seconds": within.seconds, "end": within.end}
    return [
        Measurement(step.environment, "cgroup", False, test, *_unit(test.partition(" ")[0]), step.repetition, value)
        for test, value in values.items()
    ]


def _unit(test: str) -> tuple[str, str]:
    unit = next((unit for unit, tests in _UNITS.items() if test in tests), "ratio")
    return unit, "higher" if test in _HIGHER else "lower"


def summary(apps: Sequence[str], given: Mapping[str, Sequence[Sample]]) -> dict[str, float]:
    """A step's values by test, from the results of its queries by name."""
    found: dict[str, dict[str, float]] = {name: {} for name in ("", *apps)}
    for name, samples in given.items():
        for sample in samples:
            of = [value for label, value in sample.labels.items() if label != "app"]
            if not math.isnan(sample.value):  # as for a percentile without requests
                found.setdefault(sample.labels.get("app", ""), {})[" ".join((name, *of))] = sample.value
    broken = any("client_broken" in of for of in found.values())
    values = {name: value for name, value in found.pop("").items() if not (broken and name in BY_CLIENT)}
    each = [_of_app(of) for of in found.values()]
    for name in dict.fromkeys(name for of in each for name in of):
        kind = name.partition(" ")[0]
        there = [of.get(name, 0.0) for of in each if name in of or (kind in WAITING and parts(of, kind))]
        if kind not in JUDGING:
            values[name] = max(there) if name == "unseen_failures" else statistics.fmean(there)
    if used := [cpu for of in each for cpu in parts(of, "tier_cpu").values()]:
        values["tiers_cpu"] = sum(used)
    values["sensors"] = sum("requests" in of for of in each)
    values["clients_seen"] = sum("client_requests" in of for of in each)
    return values | dict(_judged(each))


def parts(values: Mapping[str, float], name: str) -> dict[str, float]:
    """The values whose names begin with this word, by the rest of their names."""
    return {key[len(name) + 1 :]: value for key, value in values.items() if key.startswith(f"{name} ")}


def _of_app(values: Mapping[str, float]) -> dict[str, float]:
    """Adds derived values, and omits values of counters that were reset."""
    reset = (BY_SENSOR if "sensor_broken" in values else set()) | (BY_CLIENT if "client_broken" in values else set())
    found = {name: value for name, value in values.items() if name not in reset}
    causes = parts(found, "causes")
    found |= {f"causes {cause}": part / sum(causes.values()) for cause, part in causes.items()}
    for name, of, beyond in (("network", "client_mean", "mean"), ("unseen_failures", "client_failures", "errors")):
        if of in found and beyond in found:
            found[name] = found[of] - found[beyond]
    if parts(found, "caused"):
        found = dict.fromkeys((f"caused {reason} cpu" for reason in REASONS), 0.0) | found
        for resource, waited in parts(found, "caused neighbour").items():
            named = parts(found, "neighbours")
            found[f"named {resource}"] = sum(named[each] for each in named if each.endswith(f" {resource}"))
            if found.get("requests"):
                found[f"delayed {resource}"] = waited / found["requests"]
        if found.get("requests") and "cpu_per_request" in found:
            found["held"] = found["cpu_per_request"] + sum(parts(found, "caused").values()) / found["requests"]
    return found


def _judged(apps: Sequence[Mapping[str, float]]) -> Iterator[tuple[str, float]]:
    """The values of each objective, in the order of the report."""
    for objective, test in (("mean", "mean"), ("latency", "within"), ("availability", "errors")):
        target = f"{'thresholds' if objective == 'mean' else 'objectives'} {objective}"
        given = [of for of in apps if target in of]
        if not given:
            continue
        known = []  # excess, target and value of each application
        for of in (of for of in given if test in of):
            value, promised = 1 - of[test] if test == "errors" else of[test], of[target]
            excess = value / promised if objective == "mean" else (1 - value) / (1 - promised)
            known.append((excess, promised, value))
        found = {"promised": given[0][target], "judged": len(known), "missed": sum(one[0] > 1 + 1e-9 for one in known)}
        found |= dict(zip(("excess", "promised", "measured"), max(known), strict=True)) if known else {}
        seconds = [of[f"thresholds {objective}"] for of in apps if f"thresholds {objective}" in of]
        if seconds and objective != "mean":
            found["seconds"] = seconds[0]
        yield from ((f"{objective} {name}", value) for name, value in found.items())
