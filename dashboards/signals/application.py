"""An application: the response its users see, its objectives, and the causes of their breaches."""

from dataclasses import replace
from functools import partial

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, ONE_HOST, Signal, on_host, with_cause

_NO_REQUESTS = "No requests of these applications are counted: docs/sensors.md."
_NO_OBJECTIVE = "These applications have no objective: docs/objectives.md."
_NO_TIERS = "Not known for these applications or this platform: docs/objectives.md, tiers."
_of_users = partial(Signal, absent=_NO_REQUESTS, gap="no requests", legend="{{app}}")
_of_tiers = partial(Signal, absent=_NO_TIERS, legend="{{app}}")
_of_objectives = partial(Signal, absent=_NO_OBJECTIVE, gap="no objective", legend="{{app}} {{objective}}")


def _response(name: str, record: str, description: str) -> Signal:
    """Measured for the application's users, not between its own tiers."""
    return _of_users(
        name,
        lambda at: at(f"app:response_seconds:{record}", app="$app", tier="web"),
        units.Seconds,
        f"{description} Of the last minute; failed requests are none, as failing at once is not fast.",
    )


MEAN = _response("Mean", "mean", "How long answers took on average.")
P50 = _response("Median", "p50", "Half of the answers took no longer.")
P95 = _response("95th", "p95", "95 of 100 answers took no longer.")
P99 = _response(
    "99th",
    "p99",
    "99 of 100 answers took no longer. An estimate between two edges of the histogram, exact at an objective's "
    "threshold; above the highest edge it reads 'at least'.",
)

MEAN_OF_TARGET = _of_objectives(
    "Mean / target",
    f"max({on_host('app:slo_response:ratio', app='$app', objective='mean')})",
    units.PercentUnit,
    "Mean response divided by the target of the objective mean, of the application with the highest quotient: above "
    "100 % the objective is missed.",
    decimals=0,
    high=0.8,
    critical=1,
)


def _threshold(objective: str) -> Signal:
    """The strictest threshold among the chosen applications."""
    return _of_objectives(
        "Objective",
        lambda at: f"min by (objective) ({at('app:slo_threshold:seconds', app='$app', objective=objective)})",
        units.Seconds,
        legend="objective",
    )


CEILING, LATENCY = _threshold("mean"), _threshold("latency")

# The histogram buckets behind the vocabulary's percentiles.
_ANSWERS = on_host("requests:duration_seconds_bucket:rate1m", 'tier="web", status!="5xx"', app="$app")
BUCKETS = _of_users(
    "Response time distribution",
    f"sum by (le) ({_ANSWERS})",
    units.RequestsPerSecond,
    "Answers per second by response time, of all chosen applications together. Two bands, where the mean has one line, "
    "are two kinds of requests.",
    legend="{{le}}",
)
REQUESTS = _of_users(
    "Request rate",
    lambda at: at("app:requests:rate", app="$app", tier="web"),
    units.RequestsPerSecond,
    "Requests per second, failed ones included.",
    decimals=1,
)
# One follows the other in time, so they form one line.
MAX_REQUESTS = _of_users(
    "Past maximum",
    f"max by (app) ({on_host('app:requests:rate_max1w', app='$app')}"
    f" or {on_host('app:requests:rate_max1h', app='$app')})",
    units.RequestsPerSecond,
    legend="{{app}}, max",
)
FAILED = _of_users(
    "Error ratio",
    on_host("app:errors:ratio", app="$app", tier="web"),
    units.PercentUnit,
    "Share of requests that the server failed (5xx).",
    decimals=2,
)
MAX_FAILED = replace(FAILED, name="Max error ratio", query=f"max({FAILED.expr})")

CPU = _of_tiers("CPU", lambda at: at("app:cpu_usage:rate", app="$app"), CPUS)
CPU_PER_REQUEST = _of_tiers(
    "CPU/request",
    lambda at: at("app:cpu_per_request:seconds", app="$app"),
    units.Seconds,
    "CPU time per request, the application's part of the host's overhead included.",
)

MAX_LOAD = _of_tiers(
    "Max load / load",
    f"min by (app) ({on_host('app:max_load:ratio', app='$app')})",
    units.NoUnit,
    decimals=1,
    low=1,
)

# Objectives


def _burn(name: str, window: str) -> Signal:
    errors = f"max by (host, platform, app, objective) ({on_host(f'slo:sli_error:ratio_rate{window}', app='$app')})"
    objective = on_host("app:slo_objective:ratio", app="$app")
    return _of_objectives(
        name,
        f"{errors} / on (host, platform, app, objective) (1 - {objective})",
        units.NoUnit,
        f"Burn rate of the error budget over the last {window}: at 1 (the line) it lasts for 30 days, at 14.4 "
        "ObjectiveBurnsFast fires. 0 is no error at all.",
        decimals=1,
        high=1,
        critical=14.4,
    )


BURN_5M, BURN_1H = _burn("Burn 5 m", "5m"), _burn("1 h", "1h")
LONGER_BURNS = [_burn("6 h", "6h"), _burn("1 d", "1d"), _burn("3 d", "3d")]
MAX_BURN = replace(BURN_5M, name="Max burn rate", query=f"max({BURN_5M.expr})")

BUDGET_LEFT = _of_objectives(
    "Budget left",
    on_host("app:slo_budget_left:ratio", app="$app"),
    units.PercentUnit,
    "Error budget left of the last 30 days, or of the part of them that was monitored: 100 % is all, below 0 it is "
    "overspent.",
    decimals=0,
    signed=True,
    low=0.25,
    critically_low=0,
)
MIN_BUDGET_LEFT = replace(BUDGET_LEFT, name="Min budget left", query=f"min({BUDGET_LEFT.expr})")
OBJECTIVE = _of_objectives("Target", on_host("app:slo_objective:ratio", app="$app"), units.PercentUnit)
WITHIN = _of_objectives("Threshold", on_host("app:slo_threshold:seconds", app="$app"), units.Seconds)
LAST_OBJECTIVE, LAST_WITHIN = (
    replace(signal, query=f"last_over_time({signal.expr}[$__range])") for signal in (OBJECTIVE, WITHIN)
)


def _answers_in_range(series: str) -> str:
    """A sum that is proportional to the answers of the time shown, by bucket or of all."""
    answers = on_host(f"requests:duration_seconds_{series}:rate1m", 'tier="web", status!~"1xx|5xx"', app="$app")
    return f"(sum_over_time({answers}[$__range]))"


_LATENCY = 'app:slo_threshold:seconds{host="$host", app=~"$app", objective!="mean"}'
MET = _of_objectives(
    "Met",
    f"sum by (app, objective) (sum by (app, le) {_answers_in_range('bucket')} * on (app, le) group_right () "
    f'group by (app, objective, le) (count_values by (app, objective) ("le", last_over_time({_LATENCY}[$__range]))))'
    f" / on (app) group_left () (sum by (app) {_answers_in_range('count')} > 0)",
    units.PercentUnit,
    decimals=2,
)
"""The share of answers in the time shown that were within today's threshold, also from before it was set."""

CAUSES = {0: "met", 1: "self", 2: "neighbour", 3: "load", 4: "hypervisor", 5: "unknown"}
"""Causes of a missed objective, in docs/alerting.md's order, and the number of each on a graph."""

_MISSED = f'ALERTS{{{ONE_HOST}, app=~"$app", objective!=""}}'
# No cause is recorded for the user's own alerts on objectives: it stays empty.
_MISSED_BY = f"({with_cause(_MISSED, on_host('app:objective_cause:info', app='$app'))})"
_of_breaches = partial(Signal, absent="No objective was missed in this time range.")

LAST_BREACH = _of_breaches(
    "Last seen",
    f"1000 * max by (app, objective, cause, alertname) (max_over_time(timestamp({_MISSED_BY})[$__range:$__interval]))",
    units.DateTimeFromNow,
)
MISSED_FOR = _of_breaches(
    "Duration",
    "sum by (app, objective, cause, alertname) "
    f"(count_over_time({_MISSED_BY}[$__range:$__interval])) * $__interval_ms / 1000",
    units.Seconds,
    decimals=1,
)
EVIDENCE = _of_breaches(
    "Score",
    f"max by (app, cause) (max_over_time(({on_host('app:cause:score', app='$app')}"
    f" and on (host, platform, app) {_MISSED})[$__range:$__interval]))",
    units.NoUnit,
    decimals=2,
)

_NUMBERED = " or ".join(
    f'{number} * app:objective_cause:info{{host="$host", cause="{cause}"}}'
    for number, cause in CAUSES.items()
    if number
)
_BREACHED = 'ALERTS{host="$host", app=~"$app", objective!=""}'
_OBJECTIVES = '{__name__=~"app:slo_objective:ratio|app:slo_threshold:seconds", host="$host", app=~"$app"}'
BREACHES = _of_objectives(
    "Objective breaches by cause",
    f"max by (app, objective) (({_NUMBERED}) and on (host, platform, app, objective) {_BREACHED})"
    f" or 0 * group by (app, objective) ({_OBJECTIVES})",
    units.NoUnit,
    "When alerts about objectives were pending or fired, and the most likely cause at each moment (unknown: no "
    "evidence for any). At all other times the objective was met.",
)

SCORES = _of_tiers(
    "Evidence over time",
    on_host("app:cause:score", app="$app"),
    units.NoUnit,
    "Score of each cause; above the line there is evidence for it. It matters while an objective is missed: an "
    "application may wait all day and answer in time.",
    legend="{{app}} {{cause}}",
    high=1,
)
CAPPED = Signal(
    "CPU cap (self)",
    f"{on_host('vserver:cpu_capped:score')} and on (host, platform, vserver, role) "
    f"{on_host('vserver:app:info', app='$app')}",
    units.NoUnit,
    "Evidence for self. Above the line one of its virtual servers uses 90 % of its CPU limit, or is throttled by it "
    "for half as long as it runs. Raise the cap, or find what uses the CPU.",
    "No virtual server of these applications has a CPU cap.",
    legend="{{vserver}}",
    high=1,
)
WAITS = _of_tiers(
    "CPU wait ratio (neighbour)",
    on_host("app:cpu_wait_per_cpu:ratio", app="$app"),
    units.NoUnit,
    "Evidence for neighbour, if these are busy and who ran meanwhile isn't measured. Above the line it waits half as "
    "long as it runs; it must also be twice its median of a week (dashed).",
    high=0.5,
)
WAITS_MEDIAN = replace(
    WAITS, query=on_host("app:cpu_wait_per_cpu:ratio_median1w", app="$app"), legend="{{app}}, median"
)
NEIGHBOURS = _of_tiers(
    "CPU usage of neighbours",
    on_host("app:neighbours_cpu:rate", app="$app"),
    CPUS,
    "CPU used by the other guests of its host. Evidence for neighbour, from half of what it uses itself on, where who "
    "ran while it waited isn't measured. The page Host names them.",
)
