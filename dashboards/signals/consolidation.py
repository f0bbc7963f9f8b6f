"""A host that runs applications: headroom for more, and how each that came changed the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, ONE_HOST, Signal, host, on_host

_NO_APPS = "No application is known on this host: docs/sensors.md, docs/objectives.md."
_NO_HEADROOM = "Needs applications with requests, and `tiers:` in alerts/objectives/: docs/objectives.md."
_NO_OBJECTIVE = "No application here has an objective: CPU alone limits headroom (docs/objectives.md)."

APPS = Signal(
    "Applications",
    on_host("host:consolidation:apps"),
    units.NoUnit,
    "Applications that run on this host.",
    _NO_APPS,
    gap="no applications",
    legend="applications",
    decimals=0,
)

HEADROOM = Signal(
    "Headroom now",
    f"floor({on_host('host:headroom:apps')})",
    units.NoUnit,
    (
        "How many more applications like the mean of those that are here fit under the load of this minute, before the "
        "CPU is used up or the first objective is missed, whichever is first."
    ),
    _NO_HEADROOM,
    gap="no applications",
    legend="now",
    decimals=0,
    low=1,
)

BY_CPU = Signal(
    "Headroom by CPU", on_host("host:headroom_cpu:apps"), units.NoUnit, absent=_NO_HEADROOM, legend="by CPU", decimals=1
)

BY_OBJECTIVE = Signal(
    "Headroom by objectives",
    on_host("host:headroom_objective:apps"),
    units.NoUnit,
    absent=_NO_OBJECTIVE,
    legend="by objectives",
    decimals=1,
)

BUSY_HOURS = Signal(
    "Headroom (apps)",
    f"floor({on_host('host:headroom:apps_p10_1d')})",
    units.NoUnit,
    (
        "Applications that still fit in busy hours: there was room for as many in nine tenths of the past day. Like "
        "the mean of those that are here, before the CPU is used up or the first objective is missed."
    ),
    "Known after eight hours with requests.",
    gap="after 8 hours",
    legend="in busy hours",
    decimals=0,
    low=1,
)

IN_A_WEEK = Signal(
    "Headroom in a week",
    f"floor({on_host('host:headroom_in_a_week:apps')})",
    units.NoUnit,
    (
        "Headroom in busy hours a week from now, if the trend of the past two weeks goes on. Below 1, HeadroomEndsSoon "
        "fires."
    ),
    "Known after three days with requests.",
    gap="after 3 days",
    legend="in a week",
    decimals=0,
    low=1,
)

OVERHEAD = Signal(
    "Overhead",
    on_host("host:overhead_cpu:rate"),
    CPUS,
    "CPU used by the applications, and the host's overhead on top; the dashed line is the capacity.",
    "No overhead is known: bare Linux has none.",
    legend="overhead",
)

# A machine of containers is there a second time, as platform base.
CAPACITY = replace(host.CPU_CAPACITY, query=f"max by (host) ({host.CPU_CAPACITY.expr})")

USED_UP = Signal(
    name="Response / objective",
    # Where no answer is in time, a mean that would have as many has no end.
    query=lambda at: f"clamp_max({at('app:slo_response:ratio', app='$app')}, 3)",
    unit=units.PercentUnit,
    description=(
        "Response divided by its target, which the headroom by objectives is computed from: above the line the "
        "objective is missed. Of a latency objective, the mean that has its share of slow answers, over the last five "
        "minutes: it lags behind the mean. More than 300 % is drawn as 300 %."
    ),
    legend="{{app}} {{objective}}",
    absent=_NO_OBJECTIVE,
    high=1,
)

MISSES = Signal(
    "LLC MPKI",
    f"1000 * {on_host('host:llc_misses_per_instruction:ratio')}",
    units.NoUnit,
    (
        "LLC misses per 1,000 instructions (MPKI) of the host and all its guests: the more of them share the cache, "
        "the more often each misses it."
    ),
    "LLC misses are not counted here: the page Caches and events says why.",
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
    "Mean response",
    f"{_ANSWERING.part} / ({_ANSWERING.whole} > 0)",
    units.Seconds,
    "Mean response of all applications together.",
    "",
)
_THROUGHPUT = Signal(
    "Throughput",
    f"sum by (host, platform) ({on_host('app:requests:rate', tier='web')})",
    units.RequestsPerSecond,
    "Requests per second to all applications together. Where it no longer grows, the machine is full.",
    "",
)
_CPU = Signal(
    "Application CPU",
    f"sum by (host, platform) ({on_host('app:cpu_usage:rate')})",
    CPUS,
    "CPU usage of all applications' virtual servers together.",
    "",
)
_OVERHEAD = replace(
    OVERHEAD,
    description="CPU used by the host itself. In the study Dom0's grew threefold from one application to four.",
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
    "CPU per request",
    f"{_COSTING.part} / ({_COSTING.whole} > 0)",
    units.Seconds,
    "CPU time per request, its part of the overhead included, of all applications together.",
    "",
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
    by_number = f'count_values by (host, platform) ("apps", {settled})'
    # Two applications on one node are no measure of two on two nodes. In the first minute of another placement the
    # number may still be that of the one before.
    placements, before = (
        f"group by (host, platform, placement) (topk by (host, platform) (1, timestamp({step})))"
        for step in (on_host("lab_step_info"), f"{on_host('lab_step_info')} offset 1m")
    )
    crowds = (
        f"{by_number} * on (host, platform) group_left (placement) "
        f"({placements} unless on (host, platform) ({before} unless {placements})) or on (host, platform) "
        f'label_replace({by_number}, "placement", "as found", "", "") unless on (host, platform) {placements}'
    )

    def mean(expr: str) -> str:
        return (
            f"avg by (apps, placement) (avg_over_time((({expr}) * on (host, platform) group_right () "
            f"({crowds}))[$__range:$__interval]))"
        )

    return replace(
        quantity,
        name=f"{quantity.name} by apps",
        query=_mean(quantity, parts, mean),
        description=(
            f"{quantity.description} The mean over the time shown for each number of applications; in the lab a line "
            "for each placement, else one (as found)."
        ),
        absent=quantity.absent or _NO_APPS,
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
        name=f"{quantity.name} by clients",
        query=_mean(quantity, parts, mean),
        description=(
            f"{quantity.description} The last minute of each step of the lab, against the clients of each application: "
            "a line for each number of applications and placement."
        ),
        absent="No step of the lab was measured in this time range: docs/lab.md.",
    )


AGAINST_APPS = [_against_apps(quantity, parts) for quantity, parts in _QUANTITIES]
"""Quantities for each number of applications (`apps`) that the host has had, and their `placement`."""

AGAINST_CLIENTS = [_against_clients(quantity, parts) for quantity, parts in _QUANTITIES]
"""Quantities for each number of `clients`, and of applications with their placement (`steps`), that the lab tried."""
