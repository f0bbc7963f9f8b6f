"""A run of the lab with known true values, as samples in Prometheus.

Loads are constant in phases: a warm-up, a step with the same load, a pause. Every counter grows at a constant rate
within a phase and is scraped every 5 s, each target at its own offset; records are rates over the past minute.
"""

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

CGROUP = {"host": "lab1", "platform": "cgroup"}
LAB = CGROUP | {"job": "lab", "instance": "127.0.0.1:40001"}
SENSOR, CLIENT = "app_request_duration_seconds", "lab_client_request_duration_seconds"

EDGES = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10)
OFFSETS = {"lab": 0.7, "telegraf": 3.1, "rules": 1.9}  # within the interval: scrapes by target, rule evaluations
SCRAPE_SECONDS = 5
RATE_SECONDS = 120


@dataclass(frozen=True)
class Load:
    """An instance's values in a phase, per second and per request."""

    requests: float = 10.0
    errors: float = 0.0  # requests per second
    seconds: float = 0.040  # per answered request
    slow: float = 0.0  # the share of answered requests that take `slow_seconds` instead
    slow_seconds: float = 2.5
    network: float = 0.004  # added as seen by the client
    web: float = 0.20  # CPU
    db: float = 0.03
    waiting: float = 0.1
    misses: float | None = None  # per instruction
    cause: str = "unknown"
    lateness: float = 0.0008  # seconds by which every request starts late


@dataclass(frozen=True)
class Phase:
    """A period: a step if it has a name, otherwise warm-up or pause."""

    seconds: float
    loads: Mapping[str, Load]
    name: str = ""
    instances: int = 1
    clients: int = 500
    placement: str = "one node"
    repetition: int = 1


@dataclass(frozen=True)
class Series:
    """A piecewise linear counter, or a gauge: `rates` are per phase."""

    name: str
    labels: Mapping[str, str]
    rates: Sequence[float]
    target: str = "lab"
    kind: str = "counter"  # counter, record (rate over a minute), gauge (the value itself, absent where NaN)
    born_by_counting: bool = False  # not exposed until it has counted something


def hours_ago(hours: float) -> int:
    """A start time in the middle of a scrape interval; recent, because reports look back 30 days."""
    return (int(time.time()) - int(hours * 3600)) // SCRAPE_SECONDS * SCRAPE_SECONDS + 2


@dataclass
class SyntheticRun:
    """Consecutive phases from `start`, a Unix time."""

    name: str
    start: int
    phases: Sequence[Phase]
    absent: tuple[str, ...] = ()  # prefixes of metrics that aren't recorded
    without_sensor: tuple[str, ...] = ()  # applications
    extra: Sequence[Series] = ()

    def openmetrics(self) -> str:
        """All samples in the text format for promtool's block creation, without its last line, `# EOF`."""
        lines = [
            f"{series.name}{{{_labels(series.labels)}}} {value!r} {at:.3f}"
            for series in (*self._series(), *self.extra)
            if not series.name.startswith(self.absent)
            for at, value in self._samples(series)
        ]
        return "".join(f"{line}\n" for line in lines)

    def bounds(self) -> list[tuple[float, float]]:
        """When each phase begins and ends."""
        ends = list(itertools.accumulate((phase.seconds for phase in self.phases), initial=float(self.start)))
        return list(itertools.pairwise(ends))

    def _samples(self, series: Series) -> Iterator[tuple[float, float]]:
        bounds = self.bounds()
        first = self.start // SCRAPE_SECONDS * SCRAPE_SECONDS + OFFSETS[series.target]
        at = first if first >= self.start else first + SCRAPE_SECONDS
        while at < bounds[-1][1]:
            if series.kind == "gauge":
                value = next(rate for rate, (start, end) in zip(series.rates, bounds, strict=True) if start <= at < end)
                present = not math.isnan(value)
            else:
                value = _grown(series.rates, bounds, at)
                if series.kind == "record":
                    value = (value - _grown(series.rates, bounds, at - RATE_SECONDS)) / min(
                        RATE_SECONDS, at - self.start
                    )
                present = value > 0 or not series.born_by_counting
            if present:
                yield at, value
            at += SCRAPE_SECONDS

    def _series(self) -> Iterator[Series]:
        apps = sorted({app for phase in self.phases for app in phase.loads})
        for app in apps:
            yield from self._of_app(app)
        yield from self._of_runner()
        busy = [sum(load.web + load.db for load in phase.loads.values()) for phase in self.phases]
        overhead = [0.1 + cpu / 5 for cpu in busy]
        yield Series("host:overhead_cpu:rate", CGROUP, overhead, "rules", "record")
        every = [own + guests for own, guests in zip(overhead, busy, strict=True)]
        yield Series("host:cpu_usage:rate", CGROUP, every, "rules", "record")

    def _of_app(self, app: str) -> Iterator[Series]:
        loads = [phase.loads.get(app, IDLE) for phase in self.phases]
        here = [1.0 if app in phase.loads else math.nan for phase in self.phases]
        of_app = CGROUP | {"app": app}
        web = of_app | {"tier": "web"}
        client = LAB | {"app": app}
        answered, errors = [load.requests - load.errors for load in loads], [load.errors for load in loads]

        def parts(network: bool) -> list[list[tuple[float, float]]]:
            more = [load.network if network else 0.0 for load in loads]
            return [
                [(1 - load.slow, load.seconds + extra), (load.slow, load.slow_seconds + extra)]
                for load, extra in zip(loads, more, strict=True)
            ]

        def record(name: str, labels: Mapping[str, str], values: Iterable[float], kind: str = "record") -> Series:
            return Series(name, labels, list(values), "rules", kind)

        at_once = [[(1.0, 0.001)] for _ in loads]
        if app not in self.without_sensor:
            request = web | {"method": "GET"}
            yield from _histogram(SENSOR, request | {"status": "2xx"}, answered, parts(network=False), "telegraf")
            for series in _histogram(SENSOR, request | {"status": "5xx"}, errors, at_once, "telegraf"):
                yield replace(series, born_by_counting=True)
        of_page = client | {"page": "item"}
        yield from _histogram(CLIENT, of_page | {"status": "2xx"}, answered, parts(network=True), "lab")
        yield from _histogram(CLIENT, of_page | {"status": "5xx"}, errors, at_once, "lab")
        yield Series("lab_clients", client, [1.0 if app in phase.loads else 0.0 for phase in self.phases], kind="gauge")
        for tier in ("web", "db"):
            vserver = CGROUP | {"vserver": f"virtscope/{app}-{tier}", "role": "guest"}
            cpu = [getattr(load, tier) for load in loads]
            yield record("vserver:cpu_usage:rate", vserver, cpu)
            yield record("vserver:cpu_wait:rate", vserver, [load.waiting for load in loads])
            yield record("vserver:app:info", vserver | {"app": app, "tier": tier}, here, "gauge")
            if any(load.misses is not None for load in loads):
                misses = [1e9 * each * (load.misses or 0) for each, load in zip(cpu, loads, strict=True)]
                for event, values in {"instructions": [1e9 * each for each in cpu], "cache-misses": misses}.items():
                    yield record("vserver:events:rate", vserver | {"group": "cache", "event": event}, values)
        yield record("app:cpu_usage:rate", of_app, [load.web + load.db for load in loads])
        yield record("app:requests:rate", web, [load.requests for load in loads])
        per_request = [(load.web + load.db) * 1.1 / load.requests if load.requests else math.nan for load in loads]
        yield record("app:cpu_per_request:seconds", of_app, per_request, "gauge")
        for cause in sorted({load.cause for load in loads}):
            seen = (now if load.cause == cause else math.nan for now, load in zip(here, loads, strict=True))
            yield record("app:breach_cause:info", of_app | {"cause": cause}, seen, "gauge")
        for name, objective, value in (
            ("app:slo_objective:ratio", "latency", 0.95),
            ("app:slo_objective:ratio", "availability", 0.999),
            ("app:slo_threshold:seconds", "latency", 0.3),
            ("app:slo_threshold:seconds", "mean", 0.1),
        ):
            yield record(name, of_app | {"objective": objective}, [value for _ in loads], "gauge")

    def _of_runner(self) -> Iterator[Series]:
        requests = [sum(load.requests for load in phase.loads.values()) for phase in self.phases]
        late = [[(1.0, max((load.lateness for load in phase.loads.values()), default=0.0))] for phase in self.phases]
        yield from _histogram("lab_client_start_lateness_seconds", LAB, requests, late, "lab")
        yield Series("process_cpu_seconds_total", LAB, [0.002 * each for each in requests])
        runner = LAB | {"instance": "127.0.0.1:40002", "run": self.name}
        for phase in (phase for phase in self.phases if phase.name):
            while_measured = [1.0 if each is phase else math.nan for each in self.phases]
            yield Series("lab_step_info", runner | {"step": phase.name}, while_measured, kind="gauge")


IDLE = Load(requests=0, errors=0, web=0, db=0, waiting=0)


def _histogram(
    name: str,
    labels: Mapping[str, str],
    rates: Sequence[float],
    parts: Sequence[Sequence[tuple[float, float]]],
    target: str,
) -> Iterator[Series]:
    """A histogram of requests, with the duration of each share."""
    every = list(zip(rates, parts, strict=True))
    for edge in (*EDGES, math.inf):
        within = [rate * sum(share for share, seconds in of if seconds <= edge) for rate, of in every]
        le = "+Inf" if edge == math.inf else f"{edge:g}"
        yield Series(f"{name}_bucket", {**labels, "le": le}, within, target)
    seconds = [rate * sum(share * seconds for share, seconds in of) for rate, of in every]
    yield Series(f"{name}_sum", labels, seconds, target)
    yield Series(f"{name}_count", labels, rates, target)


def _grown(rates: Sequence[float], bounds: Iterable[tuple[float, float]], at: float) -> float:
    return sum(rate * max(0.0, min(end, at) - start) for rate, (start, end) in zip(rates, bounds, strict=True))


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{value}"' for name, value in labels.items())
