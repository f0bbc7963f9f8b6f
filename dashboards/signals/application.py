"""An application: the response its users see, its objectives, and the causes of their breaches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, ONE_HOST, Scope, Signal, on_host, with_cause

_NO_REQUESTS = "No requests of these applications are counted: docs/sensors.md."
_NO_OBJECTIVE = "These applications have no objective: docs/objectives.md."
_NO_TIERS = "Not known for these applications or this platform: docs/objectives.md, tiers."


def _of_users(record: str) -> Callable[[Scope], str]:
    """What the application's users see, not its own tiers among themselves."""
    return lambda at: at(record, app="$app", tier="web")


def _response(name: str, record: str, description: str) -> Signal:
    return Signal(
        name,
        _of_users(record),
        units.Seconds,
        f"{description} Of the last minute; failed requests are none, as failing at once is not fast.",
        _NO_REQUESTS,
        legend="{{app}}",
        gap="no requests",
    )


MEAN = _response("Mean", "app:response_seconds:mean", "How long answers took on average.")
P50 = _response("Median", "app:response_seconds:p50", "Half of the answers took no longer.")
P95 = _response("95th", "app:response_seconds:p95", "95 of 100 answers took no longer.")
P99 = _response(
    "99th",
    "app:response_seconds:p99",
    "99 of 100 answers took no longer. An estimate between two edges of the histogram, exact at an objective's "
    "threshold; above the highest edge it reads 'at least'.",
)

MEAN_OF_TARGET = Signal(
    "Mean / target",
    f"max({on_host('app:slo_response:ratio', app='$app', objective='mean')})",
    units.PercentUnit,
    (
        "Mean response divided by the target of the objective mean, of the application with the highest quotient: "
        "above 100 % the objective is missed."
    ),
    _NO_OBJECTIVE,
    gap="no objective",
    decimals=0,
    high=0.8,
    critical=1,
)


def _threshold(objective: str, description: str) -> Signal:
    return Signal(
        "Objective",
        lambda at: f"min by (objective) ({at('app:slo_threshold:seconds', app='$app', objective=objective)})",
        units.Seconds,
        description,
        _NO_OBJECTIVE,
        legend="objective",
    )


CEILING = _threshold("mean", "Target of the mean response: the strictest of the chosen applications.")
LATENCY = _threshold("latency", "Target of the response: the strictest of the chosen applications.")

BUCKETS = Signal(
    name="Response time distribution",
    # The buckets of the histogram that the vocabulary's percentiles are made of.
    query=(
        f'sum by (le) (requests:duration_seconds_bucket:rate1m{{{ONE_HOST}, app=~"$app", tier="web", status!="5xx"}})'
    ),
    unit=units.RequestsPerSecond,
    description=(
        "Answers per second by response time, of all chosen applications together. Two bands, where the mean has one "
        "line, are two kinds of requests."
    ),
    legend="{{le}}",
    absent=_NO_REQUESTS,
)

REQUESTS = Signal(
    "Request rate",
    _of_users("app:requests:rate"),
    units.RequestsPerSecond,
    "Requests per second, failed ones included.",
    _NO_REQUESTS,
    legend="{{app}}",
    decimals=1,
)

MOST_REQUESTS = replace(
    REQUESTS,
    name="Past maximum",
    # One after the other, they are one line.
    query=(
        f"max by (app) ({on_host('app:requests:rate_max1w', app='$app')}"
        f" or {on_host('app:requests:rate_max1h', app='$app')})"
    ),
    description=(
        "Evidence for load, from a fifth above the past maximum (dashed): that of a minute of the past week, in an "
        "application's first day of the past hour."
    ),
    legend="{{app}}, max",
)

FAILED = Signal(
    "Error ratio",
    _of_users("app:errors:ratio"),
    units.PercentUnit,
    "Share of requests that the server failed (5xx).",
    _NO_REQUESTS,
    legend="{{app}}",
    gap="no requests",
    decimals=2,
)

MAX_FAILED = replace(FAILED, name="Max error ratio", query=f"max({FAILED.expr})")

CPU = Signal(
    "CPU", lambda at: at("app:cpu_usage:rate", app="$app"), CPUS, legend="{{app}}", absent=_NO_TIERS, decimals=2
)

CPU_PER_REQUEST = Signal(
    "CPU/request",
    lambda at: at("app:cpu_per_request:seconds", app="$app"),
    units.Seconds,
    "CPU time per request, the application's part of the host's overhead included.",
    _NO_TIERS,
    legend="{{app}}",
)


def _burn(name: str, window: str) -> Signal:
    errors = on_host(f"app:slo_error:ratio_rate{window}", app="$app")
    objective = on_host("app:slo_objective:ratio", app="$app")
    return Signal(
        name,
        f"{errors} / on (host, platform, app, objective) (1 - {objective})",
        units.NoUnit,
        (
            f"Burn rate of the error budget over the last {window}: at 1 (the line) it lasts for 30 days, at 14.4 "
            "ObjectiveBurnsFast fires. 0 is no error at all."
        ),
        _NO_OBJECTIVE,
        legend="{{app}} {{objective}}",
        gap="no objective",
        decimals=1,
        high=1,
        critical=14.4,
    )


BURN_5M = _burn("Burn 5 m", "5m")
BURN_1H = _burn("1 h", "1h")
BURN_6H = _burn("6 h", "6h")
BURN_1D = _burn("1 d", "1d")
BURN_3D = _burn("3 d", "3d")
MAX_BURN = replace(BURN_5M, name="Max burn rate", query=f"max({BURN_5M.expr})")

BUDGET_LEFT = Signal(
    "Budget left",
    on_host("app:slo_budget_left:ratio", app="$app"),
    units.PercentUnit,
    (
        "Error budget left of the last 30 days, or of the part of them that was monitored: 100 % is all, below 0 it is "
        "overspent."
    ),
    _NO_OBJECTIVE,
    legend="{{app}} {{objective}}",
    gap="no objective",
    decimals=0,
    signed=True,
    low=0.25,
    critically_low=0,
)

MIN_BUDGET_LEFT = replace(BUDGET_LEFT, name="Min budget left", query=f"min({BUDGET_LEFT.expr})")

OBJECTIVE = Signal("Target", on_host("app:slo_objective:ratio", app="$app"), units.PercentUnit, absent=_NO_OBJECTIVE)

WITHIN = Signal("Threshold", on_host("app:slo_threshold:seconds", app="$app"), units.Seconds, absent=_NO_OBJECTIVE)

CAUSES = {0: "met", 1: "self", 2: "neighbour", 3: "load", 4: "hypervisor", 5: "unknown"}
"""Why an objective is missed, in docs/alerting.md's order, and the number that stands for each on a graph."""

_MISSED = f'ALERTS{{{ONE_HOST}, app=~"$app", objective!=""}}'
_CAUSE = on_host("app:objective_cause:info", app="$app")
_OF_OBJECTIVE = "on (host, platform, app, objective)"
# Of the user's own alerts about objectives, which no cause is recorded for, the cause stays empty.
_MISSED_BY = f"({with_cause(_MISSED, _CAUSE)})"
_NONE_MISSED = "No objective was missed in this time range."

LAST_BREACH = Signal(
    "Last seen",
    (
        "1000 * max by (app, objective, cause, alertname) "
        f"(max_over_time(timestamp({_MISSED_BY})[$__range:$__interval]))"
    ),
    units.DateTimeFromNow,
    (
        "Alerts about objectives in the time shown, pending ones included, the latest on top: a row for each cause "
        "that was the most likely one in that time."
    ),
    _NONE_MISSED,
)

MISSED_FOR = Signal(
    "Duration",
    (
        "sum by (app, objective, cause, alertname) "
        f"(count_over_time({_MISSED_BY}[$__range:$__interval])) * $__interval_ms / 1000"
    ),
    units.Seconds,
    absent=_NONE_MISSED,
    decimals=0,
)

EVIDENCE = Signal(
    "Score",
    (
        f"max by (app, cause) (max_over_time(({on_host('app:cause:score', app='$app')}"
        f" and on (host, platform, app) {_MISSED})[$__range:$__interval]))"
    ),
    units.NoUnit,
    (
        "Highest score of each cause while an objective was missed: from 1 on there is evidence for it. If for "
        "several, the order is self, neighbour, load, hypervisor (docs/alerting.md)."
    ),
    _NONE_MISSED,
    decimals=2,
)

_OBJECTIVES = f"{on_host('app:slo_objective:ratio', app='$app')} or {on_host('app:slo_threshold:seconds', app='$app')}"

BREACHES = Signal(
    "Objective breaches by cause",
    (
        "max by (app, objective) ("
        + " or ".join(
            f'{number} * ({_MISSED} and {_OF_OBJECTIVE} {_CAUSE[:-1]}, cause="{cause}"}})'
            for number, cause in CAUSES.items()
            if number
        )
        + f" or on (app, objective) 0 * ({_OBJECTIVES}))"
    ),
    units.NoUnit,
    (
        "When alerts about objectives were pending or fired, and the most likely cause at each moment (unknown: no "
        "evidence for any). At all other times the objective was met."
    ),
    _NO_OBJECTIVE,
    legend="{{app}} {{objective}}",
)

SCORES = Signal(
    "Evidence over time",
    on_host("app:cause:score", app="$app"),
    units.NoUnit,
    (
        "Score of each cause; above the line there is evidence for it. It matters while an objective is missed: an "
        "application may wait all day and answer in time."
    ),
    _NO_TIERS,
    legend="{{app}} {{cause}}",
    high=1,
)

CAPPED = Signal(
    "CPU cap (self)",
    (
        f"{on_host('vserver:cpu_capped:score')} and on (host, platform, vserver, role) "
        f"{on_host('vserver:app:info', app='$app')}"
    ),
    units.NoUnit,
    (
        "Evidence for self. Above the line one of its virtual servers uses 90 % of its CPU limit, or is throttled by "
        "it for half as long as it runs. Raise the cap, or find what uses the CPU."
    ),
    "No virtual server of these applications has a CPU cap.",
    legend="{{vserver}}",
    high=1,
)

WAITS = Signal(
    "CPU wait ratio (neighbour)",
    on_host("app:cpu_wait_per_cpu:ratio", app="$app"),
    units.NoUnit,
    (
        "Evidence for neighbour, if these are busy and who ran meanwhile isn't measured. Above the line it waits half "
        "as long as it runs; it must also be twice its median of a week (dashed)."
    ),
    _NO_TIERS,
    legend="{{app}}",
    high=0.5,
)

WAITS_MEDIAN = replace(
    WAITS, query=on_host("app:cpu_wait_per_cpu:ratio_median1w", app="$app"), legend="{{app}}, median"
)

NEIGHBOURS = Signal(
    "CPU usage of neighbours",
    on_host("app:neighbours_cpu:rate", app="$app"),
    CPUS,
    (
        "CPU used by the other guests of its host. Evidence for neighbour, from half of what it uses itself on, where "
        "who ran while it waited isn't measured. The page Host names them."
    ),
    _NO_TIERS,
    legend="{{app}}",
)
