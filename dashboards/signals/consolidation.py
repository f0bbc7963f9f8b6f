"""A host that carries applications: how many more fit, and what became of the rest with each that came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, ONE_HOST, Signal, host, on_host

_NO_APPS = (
    "No application is known of this host: docs/sensors.md tells how its requests are counted, docs/objectives.md how "
    "to say where it runs."
)
_NO_HEADROOM = (
    "Not known: it takes applications whose virtual servers are named in alerts/objectives/ (docs/objectives.md) and "
    "that are at work."
)
_NO_OBJECTIVE = "None of its applications has promised a response time: docs/objectives.md. The CPU alone decides."

APPS = Signal(
    name="Applications",
    expr=on_host("host:consolidation:apps"),
    unit=units.NoUnit,
    description="Applications that this host carries.",
    absent=_NO_APPS,
    legend="applications",
    decimals=0,
)

HEADROOM = Signal(
    name="More that fit",
    expr=f"floor({on_host('host:headroom:apps')})",
    unit=units.NoUnit,
    description=(
        "How many more applications like the mean of those that are here, under the load of this minute, fit before "
        "the CPU is used up or the first objective breaks: the smaller of the two numbers beside."
    ),
    absent=_NO_HEADROOM,
    legend="fit",
    decimals=0,
)

BY_CPU = Signal(
    name="By CPU",
    expr=on_host("host:headroom_cpu:apps"),
    unit=units.NoUnit,
    description=(
        "CPU that nobody uses, over what the mean application uses with its part of the host's own share. The next one "
        "is taken to cost as much as those that are here."
    ),
    absent=_NO_HEADROOM,
    legend="by CPU",
    decimals=1,
)

BY_OBJECTIVE = Signal(
    name="By objectives",
    expr=on_host("host:headroom_objective:apps"),
    unit=units.NoUnit,
    description=(
        "The same until the first response breaks its objective. Answers are taken to grow as in a queue, by "
        "1 / (1 - utilisation): with R the response, T what is promised and F the free CPU, F * (1 - R / T) of it may "
        "be used. That is the careful side. Of a promise that a share of the answers is in time, the last five minutes "
        "count: after a breach it stays at 0 for that long. docs/vocabulary.md has the reasoning."
    ),
    absent=_NO_OBJECTIVE,
    legend="by objectives",
    decimals=1,
)

BUSY_HOURS = Signal(
    name="In busy hours",
    expr=on_host("host:headroom:apps_p10_1d"),
    unit=units.NoUnit,
    description="How many more there was room for in nine tenths of the past day: what the busy hours leave.",
    absent="Known after eight hours at work.",
    legend="in busy hours",
    decimals=1,
)

IN_A_WEEK = Signal(
    name="In a week",
    expr=on_host("host:headroom_in_a_week:apps"),
    unit=units.NoUnit,
    description=(
        "What the busy hours will leave in a week, if it goes on as in the past two. Below 1, HeadroomEndsSoon fires."
    ),
    absent="Known after three days at work.",
    legend="in a week",
    decimals=1,
)

OVERHEAD = Signal(
    name="The host itself",
    expr=on_host("host:overhead_cpu:rate"),
    unit=CPUS,
    description="CPU used by the applications, and by the host itself on top; the dashed line is what the machine has.",
    absent="No overhead here: on bare Linux there is nothing to compare.",
    legend="the host itself",
)

# A machine of containers is there a second time, as platform base.
CAPACITY = replace(host.CPU_CAPACITY, expr=f"max by (host) ({host.CPU_CAPACITY.expr})")

USED_UP = Signal(
    name="Objectives, used up",
    # Where no answer is in time, a mean that would have as many has no end.
    expr=f"clamp_max({on_host('app:slo_response:ratio', app='$app')}, 3)",
    unit=units.PercentUnit,
    description=(
        "How much of the promised response is used up, which the headroom by objectives is made of: at the line it "
        "breaks. Of a share of answers in time (latency), by the mean that would have that share, over the last five "
        "minutes: it lags behind the mean. More than 300 % is drawn as that."
    ),
    legend="{{app}} {{objective}}",
    absent=_NO_OBJECTIVE,
    high=1,
)

MISSES = Signal(
    name="LLC misses per 1,000 instructions",
    expr=f"1000 * {on_host('host:llc_misses_per_instruction:ratio')}",
    unit=units.NoUnit,
    description="Of the host and all its guests: the more share the cache, the more often each misses it.",
    absent=(
        "Not counted here. It takes a perf-exporter on the host, in a Xen guest one inside; where one runs, the page "
        "Caches and events says why."
    ),
    legend="{{platform}}",
)


@dataclass(frozen=True)
class _Parts:
    """What a ratio is made of: its mean over time and applications is `part`'s over `whole`'s."""

    part: str
    whole: str


def _answers(series: str) -> str:
    """Of all applications' users, those that got an answer."""
    return f"sum by (host, platform) (requests:duration_seconds_{series}:rate1m{{{_ANSWERED}}})"


_ANSWERED = f'{ONE_HOST}, tier="web", status!~"1xx|5xx"'
_ANSWERING = _Parts(_answers("sum"), _answers("count"))
_RESPONSE = Signal(
    name="Mean response",
    expr=f"{_ANSWERING.part} / ({_ANSWERING.whole} > 0)",
    unit=units.Seconds,
    description="How long answers took on average, those of all applications together.",
    absent="",
)
_THROUGHPUT = Signal(
    name="Throughput",
    expr=f"sum by (host, platform) ({on_host('app:requests:rate', tier='web')})",
    unit=units.RequestsPerSecond,
    description="Requests per second to all applications together. Where it no longer grows, the machine is full.",
    absent="",
)
_CPU = Signal(
    name="Applications' CPU",
    expr=f"sum by (host, platform) ({on_host('app:cpu_usage:rate')})",
    unit=CPUS,
    description="CPU of all applications' virtual servers together.",
    absent="",
)
_OVERHEAD = replace(
    OVERHEAD,
    name="Overhead",
    description="CPU that no guest got. In the study Dom0's grew threefold from one application to four, not fourfold.",
)
# What an application costs in CPUs, its part of the overhead included; over what a request costs it, its requests.
_PER_REQUEST = f"({on_host('app:cpu_per_request:seconds')} > 0)"
_OWN = on_host("app:cpu_usage:rate")
_COST = (
    f"({_OWN} * on (host, platform) group_left () "
    f"(1 + {on_host('host:overhead_cpu:rate')} / ({on_host('host:guests_cpu_usage:rate')} > 0)) or {_OWN})"
)
_COSTING = _Parts(
    f"sum by (host, platform) ({_COST} and on (host, platform, app) {_PER_REQUEST})",
    f"sum by (host, platform) ({_COST} / on (host, platform, app) {_PER_REQUEST})",
)
_CPU_PER_REQUEST = Signal(
    name="CPU per request",
    expr=f"{_COSTING.part} / ({_COSTING.whole} > 0)",
    unit=units.Seconds,
    description="What a request costs, its part of the overhead included: those of all applications together.",
    absent="",
)
_RATIO = on_host("host:llc_misses_per_instruction:ratio")
_INSTRUCTIONS = on_host("host:instructions:rate")
_MISSING = _Parts(f"1000 * {_RATIO} * {_INSTRUCTIONS}", f"({_INSTRUCTIONS} and {_RATIO})")

_QUANTITIES: list[tuple[Signal, _Parts | None]] = [
    (_RESPONSE, _ANSWERING),
    (_THROUGHPUT, None),
    (_CPU, None),
    (_OVERHEAD, None),
    (MISSES, _MISSING),
    (_CPU_PER_REQUEST, _COSTING),
]


def _mean(quantity: Signal, parts: _Parts | None, mean: Callable[[str], str]) -> str:
    return f"{mean(parts.part)} / ({mean(parts.whole)} > 0)" if parts else mean(quantity.expr)


def _against_apps(quantity: Signal, parts: _Parts | None) -> Signal:
    # The first minute of another number is left out: rates still hold the one before.
    number = on_host("host:consolidation:apps")
    settled = f"{number} unless ({number} offset 1m != {number})"

    def mean(expr: str) -> str:
        return (
            f"avg by (apps) (avg_over_time((({expr}) * on (host, platform) group_right () "
            f'count_values by (host, platform) ("apps", {settled}))[$__range:$__interval]))'
        )

    return replace(
        quantity,
        name=f"{quantity.name}, by applications",
        expr=_mean(quantity, parts, mean),
        description=f"{quantity.description} For each number of applications, the mean over the time shown.",
        absent=f"No such figures in the time shown. {quantity.absent or _NO_APPS}",
    )


def _against_clients(quantity: Signal, parts: _Parts | None) -> Signal:
    # By its last minute, which is wholly a step's own: rates hold the minute before.
    measured = on_host("lab_step_info")
    # Prometheus takes a series that just ends for alive a while longer, where no scrape said that it is gone.
    steps = (
        "max by (host, platform, run, repetition, placement, instances, clients) "
        f"({measured} and max_over_time({measured}[15s]))"
    )

    def mean(expr: str) -> str:
        return (
            "avg by (clients, steps) (label_replace(label_join("
            f"last_over_time((({expr}) * on (host, platform) group_right () {steps})[$__range:$__interval]), "
            '"steps", " applications, ", "instances", "placement"), '
            '"steps", "1 application, $1", "steps", "1 applications, (.*)"))'
        )

    return replace(
        quantity,
        name=f"{quantity.name}, by clients",
        expr=_mean(quantity, parts, mean),
        description=(
            f"{quantity.description} Of each step of the lab the last minute: against the clients of each application, "
            "a line for each number of applications and placement."
        ),
        absent=f"No step of the lab, or not this, was measured in this time: docs/lab.md. {quantity.absent}".strip(),
    )


AGAINST_APPS = [_against_apps(quantity, parts) for quantity, parts in _QUANTITIES]
"""Quantities for each number of applications (`apps`) that the host has had."""

AGAINST_CLIENTS = [_against_clients(quantity, parts) for quantity, parts in _QUANTITIES]
"""Quantities for each number of `clients`, and of applications with their placement (`steps`), that the lab tried."""
