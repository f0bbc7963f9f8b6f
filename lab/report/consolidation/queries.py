"""The report's queries for each step: PromQL with times, ready to be copied.

**Requests** are counted by the lab's own sensors and clients, and a step's count is the difference of two sums of
counters, `sum(counter @ end) - sum(counter @ start)`: exact to the request. increase() and rate() would extrapolate to
the edges of the range, and would lose what a series had counted when it was first scraped, such as the first 5xx. If a
counter was reset within the step, which is queried too, the values are missing. Means and percentiles are of these
differences, so each request has the same weight. A sensor reads its log every 5 s, so its counts are exact up to such a
batch; throughput is taken from the clients, who count continuously.

**CPU, events and waiting** are the vocabulary's records, rates over a minute each. A step's value is the average of
those whose whole minute lies within the step. A step of less than a minute has none; there it is the last of the step,
and `before_step` says by how much it reaches back beyond the start.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from lab.clients.metrics import LATE_SECONDS

RATE_SECONDS = 60  # the range of the records' rates
EVALUATION_SECONDS = 5  # prometheus.yml's

SENSOR = "app_request_duration_seconds"
CLIENT = "lab_client_request_duration_seconds"
LATENESS = "lab_client_start_lateness_seconds"
WEB = 'tier="web"'  # the tier that answers an application's users
# As in objectives. Fast errors aren't good answers: failed requests have a value of their own.
ANSWERED = 'status!~"1xx|5xx"'
ANSWERED_TO_CLIENT = 'status!~"5xx|timeout|error"'

RUN_GAUGES = ("lab_run_planned_steps", "lab_request_cpu_seconds", "lab_study_clients")


@dataclass(frozen=True)
class Step:
    """One step of a run: a constant load. `clients` are those of one instance, in the study's numbers."""

    run: str
    name: str
    instances: int
    clients: int
    placement: str
    repetition: int
    host: str
    platform: str
    start: int
    """Unix time of its first samples: a scrape after it was first seen, so that they are all of the step itself."""
    end: int
    """Unix time of its last samples; a whole number of scrapes after `start`."""
    attempts: int = 1

    @property
    def seconds(self) -> int:
        """How long it was measured; 0 if it ended within a scrape or two, so that there is nothing to compare."""
        return self.end - self.start


def before_step(step: Step) -> int:
    """How many seconds before its start the averaged records of a step reach: 0 if it is long enough."""
    return max(RATE_SECONDS - step.seconds, 0)


def applications(step: Step) -> str:
    """Which applications had clients in the step."""
    return f'max by (app) (max_over_time(lab_clients{{host="{step.host}"}}[{step.seconds}s] @ {step.end})) > 0'


def of_step(step: Step, apps: Sequence[str]) -> dict[str, str]:
    """The query of each value, by name: a series per `app`, and `tier` or `cause`; one series if it is the host's."""
    of = _OfStep(step, apps)
    host, all_of_host = f'{{host="{step.host}"}}', f'{{host="{step.host}", platform="{step.platform}"}}'
    clients_cpu = of.counted(f'process_cpu_seconds_total{{job="lab", host="{step.host}"}}', by="")
    starts = of.counted(f"{LATENESS}_count{host}", by="")
    in_time = of.counted(f'{LATENESS}_bucket{{host="{step.host}", le="{LATE_SECONDS:g}"}}', by="")
    lateness = of.counted(f"{LATENESS}_bucket{host}", by="by (le) ")
    overhead = f"sum ({of.average(f'host:overhead_cpu:rate{all_of_host}')})"
    tier_cpu = f"sum by (app) ({of.average('app:tier_cpu_usage:rate' + of.selector())})"
    web_requests = f"sum by (app) ({of.average('app:requests:rate' + of.selector(WEB))})"
    misses, instructions = (of.of_tiers(f"vserver:{event}:rate") for event in ("llc_misses", "instructions"))
    causes = f"count_over_time(app:breach_cause:info{of.selector()}[{step.seconds}s] @ {step.end})"
    firing = of.selector('alertstate="firing"', 'severity!="none"')  # without those that notify nobody
    objectives, thresholds = (f"app:slo_{name}{of.selector()} @ {step.end}" for name in _OBJECTIVES)
    supported = f'perf_event_supported{{host="{step.host}", event="cache-misses"}}'
    return {
        "requests": of.rate(SENSOR, WEB),
        "errors": of.share(SENSOR, 'status="5xx"', WEB),
        "mean": of.mean(SENSOR, WEB, ANSWERED),
        "p95": of.p95(SENSOR, WEB, ANSWERED),
        "sensor_broken": of.broken(SENSOR, WEB),
        "client_requests": of.rate(CLIENT),
        "client_answers": of.rate(CLIENT, ANSWERED_TO_CLIENT),
        "client_failures": of.share(CLIENT, 'status=~"5xx|timeout|error"'),
        "client_mean": of.mean(CLIENT, ANSWERED_TO_CLIENT),
        "client_broken": of.broken(CLIENT),
        "clients_cpu": f"{clients_cpu}\n/ {step.seconds}",
        "lateness_mean": _over(of.counted(f"{LATENESS}_sum{host}", by=""), starts),
        "lateness_p95": f"histogram_quantile(0.95, {lateness})",
        "late_starts": f"1 - {_group(_over(in_time, starts))}",
        "tier_cpu": of.averaged("app:tier_cpu_usage:rate", by="app, tier"),
        "cpu_per_request": _over(tier_cpu, web_requests),
        "cpu_per_request_with_host": of.cpu_per_request_with_host(),
        "overhead": overhead,
        "overhead_ratio": _over(overhead, f"sum ({of.average(f'host:cpu_usage:rate{all_of_host}')})"),
        "waiting": of.of_tiers("vserver:cpu_wait:rate"),
        "throttled": of.of_tiers("vserver:cpu_throttled:rate"),
        "misses": _over(misses, instructions),
        "causes": f"sum by (app, cause) ({causes})",
        "caused": of.averaged("app:cpu_wait_caused:rate", by="app, reason"),
        # The share of an application's wait for neighbours, per neighbour, while that one was named.
        "neighbours": of.averaged("app:neighbour:ratio", by="app, by"),
        "firing": f"group by (app, alertname) (ALERTS{firing} @ {step.end})",
        "objectives": f"max by (app, objective) ({objectives})",
        "thresholds": f"max by (app, objective) ({thresholds})",
        "step_clients": of.runner("lab_step_clients"),
        "step_cpus": of.runner("lab_step_cpus"),
        "planned_seconds": of.runner("lab_step_planned_seconds"),
        # Why perf-exporter counts no cache misses here; empty if it does, or if there is no perf-exporter.
        "why_no_misses": f"group by (reason) ({supported} @ {step.end} == 0)",
    }


_OBJECTIVES = ("objective:ratio", "threshold:seconds")


def within(step: Step, apps: Sequence[str], seconds: float) -> str:
    """The share of answered requests that took at most this long, which is an edge of the buckets."""
    # Prometheus 3 stores whole numbers as 1.0, earlier releases as exposed.
    le = f'le=~"{seconds:g}|{seconds:g}[.]0"' if seconds == int(seconds) else f'le="{seconds:g}"'
    of = _OfStep(step, apps)
    fast = of.counted(f"{SENSOR}_bucket{of.selector(WEB, ANSWERED, le)}")
    return _over(fast, of.counted(f"{SENSOR}_count{of.selector(WEB, ANSWERED)}"))


def _group(*lines: str) -> str:
    """A pair of parentheses around lines of their own."""
    return "(\n" + textwrap.indent("\n".join(lines), "  ") + "\n)"


def _over(part: str, whole: str) -> str:
    """A ratio; absent if the denominator is 0."""
    return f"{part}\n/ {_group(f'{whole} > 0')}"


@dataclass(frozen=True)
class _OfStep:
    """PromQL about a step and the applications that ran in it."""

    step: Step
    apps: Sequence[str]

    def selector(self, *more: str) -> str:
        """A selector's braces: these applications on the step's host."""
        return "{" + ", ".join((f'host="{self.step.host}"', f'app=~"{"|".join(self.apps)}"', *more)) + "}"

    def counted(self, series: str, by: str = "by (app) ") -> str:
        """How much counters increased within the step, new ones from 0; absent if none existed before."""
        return _group(f"sum {by}({series} @ {self.step.end})", f"- sum {by}({series} @ {self.step.start})")

    def rate(self, metric: str, *only: str) -> str:
        return f"{self.counted(f'{metric}_count{self.selector(*only)}')}\n/ {self.step.seconds}"

    def share(self, metric: str, part: str, *only: str) -> str:
        """The share of the requests that `part` selects as well; 0 if there are none of them."""
        every, some = (f"{metric}_count{self.selector(*only, *more)}" for more in ((), (part,)))
        at_end, at_start = (
            f"(sum by (app) ({some} @ {time}) or 0 * sum by (app) ({every} @ {time}))"
            for time in (self.step.end, self.step.start)
        )
        return _over(_group(at_end, f"- {at_start}"), self.counted(every))

    def mean(self, metric: str, *only: str) -> str:
        of = self.selector(*only)
        return _over(self.counted(f"{metric}_sum{of}"), self.counted(f"{metric}_count{of}"))

    def p95(self, metric: str, *only: str) -> str:
        buckets = self.counted(f"{metric}_bucket{self.selector(*only)}", by="by (app, le) ")
        return f"histogram_quantile(0.95, {buckets})"

    def broken(self, metric: str, *only: str) -> str:
        """Applications with a counter that was reset or disappeared within the step."""
        series, step = f"{metric}_count{self.selector(*only)}", self.step
        was_reset = f"resets({series}[{step.seconds}s] @ {step.end}) > 0"
        return "group by (app) " + _group(was_reset, "or", f"({series} @ {step.start} unless {series} @ {step.end})")

    def average(self, series: str, resolution: str = "") -> str:
        """The average of a record over the evaluations whose minute lies within the step.

        resolution: of the evaluations, if `series` isn't a record but an expression.
        """
        seconds = max(self.step.seconds - RATE_SECONDS, EVALUATION_SECONDS)
        return f"avg_over_time({series}[{seconds}s{resolution}] @ {self.step.end})"

    def averaged(self, record: str, by: str) -> str:
        return f"sum by ({by}) ({self.average(f'{record}{self.selector()}')})"

    def of_tiers(self, record: str) -> str:
        """A record of virtual servers, averaged, by their application and tier."""
        tiers = f"group by (host, vserver, app, tier) (vserver:app:info{self.selector()} @ {self.step.end})"
        average = self.average(f'{record}{{host="{self.step.host}", role="guest"}}')
        return "sum by (app, tier) " + _group(average, "* on (host, vserver) group_left (app, tier)", tiers)

    def cpu_per_request_with_host(self) -> str:
        """Weighted by the requests of each minute."""
        cost = f"app:cpu_per_request:seconds{self.selector()}"
        requests = f"sum by (host, platform, app) (app:requests:rate{self.selector(WEB)})"
        each = f":{EVALUATION_SECONDS}s"
        cpu = self.average(_group(f"{cost} * on (host, platform, app)", requests), each)
        answered = self.average(_group(requests, f"and on (host, platform, app) {cost}"), each)
        return _over(f"sum by (app) ({cpu})", f"sum by (app) ({answered})")

    def runner(self, metric: str) -> str:
        """The runner's other metrics of the step."""
        step = self.step
        return f'max ({metric}{{run="{step.run}", step="{step.name}", repetition="{step.repetition}"}} @ {step.end})'
