"""The report's queries for each step: PromQL with times, ready to be copied.

There are two kinds of values, computed over a step in different ways.

**Requests** are counted by counters of the lab's own sensors and clients, and a step's count is the difference of two
of their sums, `sum(counter @ end) - sum(counter @ start)`: exact to the request for any length of step. increase() and
rate() would extrapolate to the edges of the range, and would lose what a series had counted when it was first scraped,
such as the first 5xx. If a counter was reset within the step, the difference would be
wrong; so that is queried too, and the values are then missing. A mean is the difference of `_sum` over the difference
of `_count`, a percentile is that of the difference of the buckets: each request has the same weight, unlike in an
average of recorded means.

How many requests a sensor counts in a step is exact up to a batch: it reads its log every 5 s and is scraped every 5 s,
in varying order. So throughput is taken from the clients, who count continuously. Means, percentiles and shares are
those of whole batches, and aren't affected.

**CPU, events and waiting** come from the vocabulary's records, the same for every platform, and these are rates over a
minute each. A step's value is the average of those records whose whole minute lies within the step: all evaluations
from a minute after its start to its end. A step of less than a minute has none; there it is the last of the step, and
`before_step` says by how much it reaches back beyond the start.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lab.clients.metrics import LATE_SECONDS

if TYPE_CHECKING:
    from lab.report.consolidation.steps import Step

RATE_SECONDS = 60  # the range of the records' rates
EVALUATION_SECONDS = 5  # prometheus.yml's

Query = Callable[["Step", Sequence[str]], str]
"""PromQL for a step and the applications that ran in it."""

SENSOR = "app_request_duration_seconds"
CLIENT = "lab_client_request_duration_seconds"
LATENESS = "lab_client_start_lateness_seconds"
WEB = 'tier="web"'  # the tier that answers an application's users
# As in objectives. Fast errors aren't good answers: failed requests have a value of their own.
ANSWERED = 'status!~"1xx|5xx"'
ANSWERED_TO_CLIENT = 'status!~"5xx|timeout|error"'

RUN_GAUGES = ("lab_run_planned_steps", "lab_request_cpu_seconds", "lab_study_clients")


def before_step(step: Step) -> int:
    """How many seconds before its start the averaged records of a step reach: 0 if it is long enough."""
    return max(RATE_SECONDS - step.seconds, 0)


def applications(step: Step) -> str:
    """Which applications had clients in the step."""
    return f'max by (app) (max_over_time(lab_clients{{host="{step.host}"}}[{step.seconds}s] @ {step.end})) > 0'


def _of(step: Step, apps: Sequence[str], *more: str) -> str:
    """A selector's braces: these applications on the step's host."""
    return "{" + ", ".join((f'host="{step.host}"', f'app=~"{"|".join(apps)}"', *more)) + "}"


def _group(*lines: str) -> str:
    """A pair of parentheses around lines of their own."""
    return "(\n" + textwrap.indent("\n".join(lines), "  ") + "\n)"


def _counted(series: str, step: Step, by: str = "by (app) ") -> str:
    """How much counters increased within the step, new ones from 0; absent if none existed before."""
    return _group(f"sum {by}({series} @ {step.end})", f"- sum {by}({series} @ {step.start})")


def _over(part: str, whole: str) -> str:
    """A ratio; absent if the denominator is 0."""
    return f"{part}\n/ {_group(f'{whole} > 0')}"


def _rate(metric: str, *only: str) -> Query:
    def query(step: Step, apps: Sequence[str]) -> str:
        return f"{_counted(f'{metric}_count{_of(step, apps, *only)}', step)}\n/ {step.seconds}"

    return query


def _share(metric: str, part: str, *only: str) -> Query:
    """The share of the requests that `part` selects as well; 0 if there are none of them."""

    def query(step: Step, apps: Sequence[str]) -> str:
        every = f"{metric}_count{_of(step, apps, *only)}"
        some = f"{metric}_count{_of(step, apps, *only, part)}"
        at_end, at_start = (
            f"(sum by (app) ({some} @ {time}) or 0 * sum by (app) ({every} @ {time}))"
            for time in (step.end, step.start)
        )
        return _over(_group(at_end, f"- {at_start}"), _counted(every, step))

    return query


def _mean(metric: str, *only: str) -> Query:
    def query(step: Step, apps: Sequence[str]) -> str:
        of = _of(step, apps, *only)
        return _over(_counted(f"{metric}_sum{of}", step), _counted(f"{metric}_count{of}", step))

    return query


def _quantile(q: float, metric: str, *only: str) -> Query:
    def query(step: Step, apps: Sequence[str]) -> str:
        buckets = _counted(f"{metric}_bucket{_of(step, apps, *only)}", step, by="by (app, le) ")
        return f"histogram_quantile({q}, {buckets})"

    return query


def within(seconds: float) -> Query:
    """The share of answered requests that took at most this long, which is an edge of the buckets."""
    # Prometheus 3 stores whole numbers as 1.0, earlier releases as exposed.
    le = f'le=~"{seconds:g}|{seconds:g}[.]0"' if seconds == int(seconds) else f'le="{seconds:g}"'

    def query(step: Step, apps: Sequence[str]) -> str:
        fast = _counted(f"{SENSOR}_bucket{_of(step, apps, WEB, ANSWERED, le)}", step)
        return _over(fast, _counted(f"{SENSOR}_count{_of(step, apps, WEB, ANSWERED)}", step))

    return query


def _broken(metric: str, *only: str) -> Query:
    """Applications with a counter that was reset or disappeared within the step."""

    def query(step: Step, apps: Sequence[str]) -> str:
        series = f"{metric}_count{_of(step, apps, *only)}"
        was_reset = f"resets({series}[{step.seconds}s] @ {step.end}) > 0"
        return "group by (app) " + _group(was_reset, "or", f"({series} @ {step.start} unless {series} @ {step.end})")

    return query


def _average(series: str, step: Step, resolution: str = "") -> str:
    """The average of a record over the evaluations whose minute lies within the step.

    resolution: of the evaluations, if `series` isn't a record but an expression.
    """
    seconds = max(step.seconds - RATE_SECONDS, EVALUATION_SECONDS)
    return f"avg_over_time({series}[{seconds}s{resolution}] @ {step.end})"


def _averaged(record: str, by: str = "app") -> Query:
    def query(step: Step, apps: Sequence[str]) -> str:
        return f"sum by ({by}) ({_average(f'{record}{_of(step, apps)}', step)})"

    return query


def _cpu_per_request(step: Step, apps: Sequence[str]) -> str:
    cpu = _average(f"app:tier_cpu_usage:rate{_of(step, apps)}", step)
    requests = _average(f"app:requests:rate{_of(step, apps, WEB)}", step)
    return _over(f"sum by (app) ({cpu})", f"sum by (app) ({requests})")


def _cpu_per_request_with_host(step: Step, apps: Sequence[str]) -> str:
    """Weighted by the requests of each minute."""
    cost = f"app:cpu_per_request:seconds{_of(step, apps)}"
    requests = f"sum by (host, platform, app) (app:requests:rate{_of(step, apps, WEB)})"
    each = f":{EVALUATION_SECONDS}s"
    cpu = _average(_group(f"{cost} * on (host, platform, app)", requests), step, each)
    answered = _average(_group(requests, f"and on (host, platform, app) {cost}"), step, each)
    return _over(f"sum by (app) ({cpu})", f"sum by (app) ({answered})")


def _of_tiers(record: str, step: Step, apps: Sequence[str]) -> str:
    """A record of virtual servers, averaged, by their application and tier."""
    tiers = f"group by (host, vserver, app, tier) (vserver:app:info{_of(step, apps)} @ {step.end})"
    average = _average(f'{record}{{host="{step.host}", role="guest"}}', step)
    return "sum by (app, tier) " + _group(average, "* on (host, vserver) group_left (app, tier)", tiers)


def _averaged_of_tiers(record: str) -> Query:
    def query(step: Step, apps: Sequence[str]) -> str:
        return _of_tiers(record, step, apps)

    return query


def _misses(step: Step, apps: Sequence[str]) -> str:
    misses = _of_tiers("vserver:llc_misses:rate", step, apps)
    instructions = _of_tiers("vserver:instructions:rate", step, apps)
    return _over(misses, instructions)


def _overhead(step: Step, _apps: Sequence[str]) -> str:
    return f"sum ({_average(f'host:overhead_cpu:rate{_of_host(step)}', step)})"


def _overhead_ratio(step: Step, apps: Sequence[str]) -> str:
    every = f"sum ({_average(f'host:cpu_usage:rate{_of_host(step)}', step)})"
    return _over(_overhead(step, apps), every)


def _of_host(step: Step) -> str:
    return f'{{host="{step.host}", platform="{step.platform}"}}'


def _clients_cpu(step: Step, _apps: Sequence[str]) -> str:
    own = f'process_cpu_seconds_total{{job="lab", host="{step.host}"}}'
    return f"{_counted(own, step, by='')}\n/ {step.seconds}"


def _lateness_mean(step: Step, _apps: Sequence[str]) -> str:
    total, count = (_counted(f'{LATENESS}_{part}{{host="{step.host}"}}', step, by="") for part in ("sum", "count"))
    return _over(total, count)


def _lateness_p95(step: Step, _apps: Sequence[str]) -> str:
    buckets = _counted(f'{LATENESS}_bucket{{host="{step.host}"}}', step, by="by (le) ")
    return f"histogram_quantile(0.95, {buckets})"


def _late_starts(step: Step, _apps: Sequence[str]) -> str:
    """The share of the clients' requests that were started later than `LATE_SECONDS`."""
    started = _counted(f'{LATENESS}_count{{host="{step.host}"}}', step, by="")
    in_time = _counted(f'{LATENESS}_bucket{{host="{step.host}", le="{LATE_SECONDS:g}"}}', step, by="")
    return f"1 - {_group(_over(in_time, started))}"


def _causes(step: Step, apps: Sequence[str]) -> str:
    return (
        f"sum by (app, cause) (count_over_time(app:breach_cause:info{_of(step, apps)}[{step.seconds}s] @ {step.end}))"
    )


def _neighbours(step: Step, apps: Sequence[str]) -> str:
    """Which part of an application's waiting for neighbours was for each who was named, while that one was."""
    return f"sum by (app, by) ({_average(f'app:neighbour:ratio{_of(step, apps)}', step)})"


def _firing(step: Step, apps: Sequence[str]) -> str:
    """The alerts of each application that fired when the step ended, without those that notify nobody."""
    firing = _of(step, apps, 'alertstate="firing"', 'severity!="none"')
    return f"group by (app, alertname) (ALERTS{firing} @ {step.end})"


def _objectives(step: Step, apps: Sequence[str]) -> str:
    """The share of requests that must be good, by application and objective (latency, availability)."""
    return f"max by (app, objective) (app:slo_objective:ratio{_of(step, apps)} @ {step.end})"


def _thresholds(step: Step, apps: Sequence[str]) -> str:
    """The threshold of the response time, by application and objective (latency, mean)."""
    return f"max by (app, objective) (app:slo_threshold:seconds{_of(step, apps)} @ {step.end})"


def _of_runner(metric: str) -> Query:
    """The runner's other metrics of the step."""

    def query(step: Step, _apps: Sequence[str]) -> str:
        return f'max ({metric}{{run="{step.run}", step="{step.name}", repetition="{step.repetition}"}} @ {step.end})'

    return query


def _why_no_misses(step: Step, _apps: Sequence[str]) -> str:
    """Why perf-exporter counts no cache misses on this machine; empty if it does, or if there is no perf-exporter."""
    return f'group by (reason) (perf_event_supported{{host="{step.host}", event="cache-misses"}} @ {step.end} == 0)'


OF_STEP: Mapping[str, Query] = {
    "requests": _rate(SENSOR, WEB),
    "errors": _share(SENSOR, 'status="5xx"', WEB),
    "mean": _mean(SENSOR, WEB, ANSWERED),
    "p95": _quantile(0.95, SENSOR, WEB, ANSWERED),
    "sensor_broken": _broken(SENSOR, WEB),
    "client_requests": _rate(CLIENT),
    "client_answers": _rate(CLIENT, ANSWERED_TO_CLIENT),
    "client_failures": _share(CLIENT, 'status=~"5xx|timeout|error"'),
    "client_mean": _mean(CLIENT, ANSWERED_TO_CLIENT),
    "client_broken": _broken(CLIENT),
    "clients_cpu": _clients_cpu,
    "lateness_mean": _lateness_mean,
    "lateness_p95": _lateness_p95,
    "late_starts": _late_starts,
    "tier_cpu": _averaged("app:tier_cpu_usage:rate", by="app, tier"),
    "cpu_per_request": _cpu_per_request,
    "cpu_per_request_with_host": _cpu_per_request_with_host,
    "overhead": _overhead,
    "overhead_ratio": _overhead_ratio,
    "waiting": _averaged_of_tiers("vserver:cpu_wait:rate"),
    "throttled": _averaged_of_tiers("vserver:cpu_throttled:rate"),
    "misses": _misses,
    "causes": _causes,
    "caused": _averaged("app:cpu_wait_caused:rate", by="app, reason"),
    "neighbours": _neighbours,
    "firing": _firing,
    "objectives": _objectives,
    "thresholds": _thresholds,
    "step_clients": _of_runner("lab_step_clients"),
    "step_cpus": _of_runner("lab_step_cpus"),
    "planned_seconds": _of_runner("lab_step_planned_seconds"),
    "why_no_misses": _why_no_misses,
}
"""The query of each value, by name: a series per `app`, and `tier` or `cause`; one series if it is the host's."""
