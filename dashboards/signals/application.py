"""An application: what its users feel, what it has promised them, and why a promise was broken."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, ONE_HOST, Signal, on_host, with_cause

_NO_REQUESTS = (
    "No requests of the chosen applications are known. It takes a sensor that reads their access log, or a histogram "
    "of their own: docs/sensors.md. Without requests there is no response time either."
)
_NO_OBJECTIVE = (
    "The chosen applications have promised nothing: docs/objectives.md tells how to write a file in "
    "alerts/objectives/ and to have it judged."
)
_NO_TIERS = (
    "Nothing known of where the chosen applications run: name their virtual servers under `tiers:` in "
    "alerts/objectives/ (docs/objectives.md). Or this platform does not tell it."
)


def _of_users(record: str) -> str:
    """What those feel who ask the application, not its own tiers among themselves."""
    return on_host(record, app="$app", tier="web")


def _response(name: str, record: str, description: str) -> Signal:
    return Signal(
        name=name,
        expr=_of_users(record),
        unit=units.Seconds,
        description=f"{description} Of the last minute; failed requests are none, as failing at once is not fast.",
        legend="{{app}}",
        absent=_NO_REQUESTS,
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

SLOWEST_MEAN = replace(MEAN, name="Slowest mean", expr=f"max({MEAN.expr})")


MEAN_USED_UP = Signal(
    name="Mean, of promised",
    expr=f"max({on_host('app:slo_response:ratio', app='$app', objective='mean')})",
    unit=units.PercentUnit,
    description=(
        "How much of the mean response that it has promised an application takes, of the one that takes most: above "
        "100 % the objective is broken."
    ),
    absent=_NO_OBJECTIVE,
    decimals=0,
    high=1,
)


def _threshold(objective: str, description: str) -> Signal:
    return Signal(
        name="Objective",
        expr=f"min by (objective) ({on_host('app:slo_threshold:seconds', app='$app', objective=objective)})",
        unit=units.Seconds,
        description=description,
        legend="- - objective",  # as it is drawn; names of even length get their dashes from the palette
        absent=_NO_OBJECTIVE,
    )


CEILING = _threshold("mean", "What the mean may be at most: the strictest of the chosen applications.")
LATENCY = _threshold("latency", "What an answer may take: the strictest of the chosen applications.")

BUCKETS = Signal(
    name="How long answers took",
    # The buckets of the histogram that the vocabulary's percentiles are made of.
    expr=(
        f'sum by (le) (requests:duration_seconds_bucket:rate1m{{{ONE_HOST}, app=~"$app", tier="web", status!="5xx"}})'
    ),
    unit=units.RequestsPerSecond,
    description=(
        "Answers per second by how long they took, of all chosen applications together: two bands, where the mean has "
        "one line, are two kinds of requests."
    ),
    legend="{{le}}",
    absent=_NO_REQUESTS,
)

REQUESTS = Signal(
    name="Requests",
    expr=_of_users("app:requests:rate"),
    unit=units.RequestsPerSecond,
    description="Requests per second, failed ones too.",
    legend="{{app}}",
    absent=_NO_REQUESTS,
    decimals=1,
)

ALL_REQUESTS = replace(REQUESTS, expr=f"sum({REQUESTS.expr})")

MOST_REQUESTS = replace(
    REQUESTS,
    name="Most requests",
    # One after the other, they are one line.
    expr=(
        f"max by (app) ({on_host('app:requests:rate_max1w', app='$app')}"
        f" or {on_host('app:requests:rate_max1h', app='$app')})"
    ),
    description=(
        "Evidence for load, from a fifth more than the most so far (dashed): that of a minute of the past week, in an "
        "application's first day of the past hour."
    ),
    legend="{{app}}, the most so far",
)

FAILED = Signal(
    name="Failed",
    expr=_of_users("app:errors:ratio"),
    unit=units.PercentUnit,
    description="The share of requests that the server failed (5xx).",
    legend="{{app}}",
    absent=_NO_REQUESTS,
    decimals=2,
)

MOST_FAILED = replace(FAILED, name="Failed, at most", expr=f"max({FAILED.expr})")

CPU = Signal(
    name="CPU",
    expr=on_host("app:cpu_usage:rate", app="$app"),
    unit=CPUS,
    description="CPU used by all virtual servers of an application on this host.",
    legend="{{app}}",
    absent=_NO_TIERS,
    decimals=2,
)

CPU_PER_REQUEST = Signal(
    name="CPU/request",
    expr=on_host("app:cpu_per_request:seconds", app="$app"),
    unit=units.Seconds,
    description="CPU that a request costs, the application's part of the host's own share included.",
    legend="{{app}}",
    absent=_NO_TIERS,
)


def _burn(name: str, window: str) -> Signal:
    errors = on_host(f"app:slo_error:ratio_rate{window}", app="$app")
    promised = on_host("app:slo_objective:ratio", app="$app")
    return Signal(
        name=name,
        expr=f"{errors} / on (host, platform, app, objective) (1 - {promised})",
        unit=units.NoUnit,
        description=(
            f"How many times too fast the error budget was used up, by the last {window}: at 1 (the line) it lasts for "
            "30 days, at 14.4 ObjectiveBurnsFast fires."
        ),
        legend="{{app}} {{objective}}",
        absent=_NO_OBJECTIVE,
        decimals=1,
        high=1,
    )


BURN_5M = _burn("Burn, 5 min", "5m")
BURN_1H = _burn("1 h", "1h")
BURN_6H = _burn("6 h", "6h")
BURN_1D = _burn("1 d", "1d")
BURN_3D = _burn("3 d", "3d")
FASTEST_BURN = replace(BURN_5M, name="Fastest burn", expr=f"max({BURN_5M.expr})")

BUDGET_LEFT = Signal(
    name="Budget left",
    expr=on_host("app:slo_budget_left:ratio", app="$app"),
    unit=units.PercentUnit,
    description=(
        "What is left of the error budget of the last 30 days, or of what has been watched of them: 100 % is all, "
        "below 0 more than all was used."
    ),
    legend="{{app}} {{objective}}",
    absent=_NO_OBJECTIVE,
    decimals=0,
    signed=True,
)

LEAST_BUDGET_LEFT = replace(BUDGET_LEFT, name="Least budget left", expr=f"min({BUDGET_LEFT.expr})")

PROMISED = Signal(
    name="Promised",
    expr=on_host("app:slo_objective:ratio", app="$app"),
    unit=units.PercentUnit,
    description="The share of requests that is to be good. The objective mean has none: it is a ceiling.",
    absent=_NO_OBJECTIVE,
)

WITHIN = Signal(
    name="Within",
    expr=on_host("app:slo_threshold:seconds", app="$app"),
    unit=units.Seconds,
    description="What an answer may take (latency), or all on average (mean).",
    absent=_NO_OBJECTIVE,
)

CAUSES = {0: "kept", 1: "self", 2: "neighbour", 3: "load", 4: "hypervisor", 5: "unknown"}
"""Why an objective is broken, in docs/alerting.md's order, and the number that stands for each on a graph."""

_BROKEN = f'ALERTS{{{ONE_HOST}, app=~"$app", objective!=""}}'
_CAUSE = on_host("app:objective_cause:info", app="$app")
_OF_OBJECTIVE = "on (host, platform, app, objective)"
# Of the user's own alerts about objectives, which no cause is recorded for, the cause stays empty.
_BROKEN_BY = f"({with_cause(_BROKEN, _CAUSE)})"
_NONE_BROKEN = "No objective of the chosen applications was broken in this time. Choose a longer one above."

LAST_BREACH = Signal(
    name="Last",
    expr=(
        "1000 * max by (app, objective, cause, alertname) "
        f"(max_over_time(timestamp({_BROKEN_BY})[$__range:$__interval]))"
    ),
    unit=units.DateTimeFromNow,
    description=(
        "Alerts about objectives in the time shown, pending ones too, the latest on top, with the cause that was "
        "the most likely one then: a line for each. What to do is in docs/runbooks/ALERT.md."
    ),
    absent=_NONE_BROKEN,
)

BROKEN_FOR = Signal(
    name="For",
    expr=(
        "sum by (app, objective, cause, alertname) "
        f"(count_over_time({_BROKEN_BY}[$__range:$__interval])) * $__interval_ms / 1000"
    ),
    unit=units.Seconds,
    description="How long of the time shown it was broken, with this cause.",
    absent=_NONE_BROKEN,
    decimals=0,
)

EVIDENCE = Signal(
    name="Score",
    expr=(
        f"max by (app, cause) (max_over_time(({on_host('app:cause:score', app='$app')}"
        f" and on (host, platform, app) {_BROKEN})[$__range:$__interval]))"
    ),
    unit=units.NoUnit,
    description=(
        "The highest score of each cause while an objective was broken: at 1 or more there is evidence for it. If for "
        "several, the order is self, neighbour, load, hypervisor (docs/alerting.md)."
    ),
    absent=_NONE_BROKEN,
    decimals=2,
)

_PROMISES = f"{on_host('app:slo_objective:ratio', app='$app')} or {on_host('app:slo_threshold:seconds', app='$app')}"

BREACHES = Signal(
    name="When objectives were broken, and why",
    expr=(
        "max by (app, objective) ("
        + " or ".join(
            f'{number} * ({_BROKEN} and {_OF_OBJECTIVE} {_CAUSE[:-1]}, cause="{cause}"}})'
            for number, cause in CAUSES.items()
            if number
        )
        + f" or on (app, objective) 0 * ({_PROMISES}))"
    ),
    unit=units.NoUnit,
    description="When alerts about objectives were pending or fired, and the most likely cause of each moment.",
    legend="{{app}} {{objective}}",
    absent=_NO_OBJECTIVE,
)

SCORES = Signal(
    name="Evidence, over time",
    expr=on_host("app:cause:score", app="$app"),
    unit=units.NoUnit,
    description=(
        "How much speaks for each cause; above the line there is evidence. It matters while an objective is broken: an "
        "application may wait all day and answer in time."
    ),
    legend="{{app}} {{cause}}",
    absent=_NO_TIERS,
    high=1,
)

CAPPED = Signal(
    name="At its own cap",
    expr=(
        f"{on_host('vserver:cpu_capped:score', vserver='$vserver')} and on (host, platform, vserver, role) "
        f"{on_host('vserver:app:info', app='$app')}"
    ),
    unit=units.NoUnit,
    description=(
        "Evidence for self. Above the line one of its virtual servers uses 90 % of its CPU limit, or is stopped by it "
        "for half as long as it computes. Raise the cap, or find what uses the CPU."
    ),
    legend="{{vserver}}",
    absent="None of the chosen applications' virtual servers has a cap, or nothing tells of it.",
    high=1,
)

WAITS = Signal(
    name="Waits for a CPU, for each second on one",
    expr=on_host("app:cpu_wait_per_cpu:ratio", app="$app"),
    unit=units.Seconds,
    description=(
        "Evidence for neighbour, if these are busy. Above the line it waits half as long as it computes; it must also "
        "be twice what is usual (dashed)."
    ),
    legend="{{app}}",
    absent=_NO_TIERS,
    high=0.5,
)

WAITS_USUALLY = replace(WAITS, expr=on_host("app:cpu_wait_per_cpu:ratio_median1w", app="$app"), legend="{{app}}, usual")

NEIGHBOURS = Signal(
    name="CPU of its neighbours",
    expr=on_host("app:neighbours_cpu:rate", app="$app"),
    unit=CPUS,
    description=(
        "What the other guests of its host use. They are to blame from half of what it uses itself. Who they are is on "
        "the dashboard Host."
    ),
    legend="{{app}}",
    absent=_NO_TIERS,
)
