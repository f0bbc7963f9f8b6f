"""A host that runs applications: headroom for more, and how each that came changed the others."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Signal, host, on_host

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
    "How many more applications like the mean of those that are here fit under the load of this minute, before the "
    "CPU is used up or the first objective is missed, whichever is first.",
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
    "Applications that still fit in busy hours: there was room for as many in nine tenths of the past day. Like the "
    "mean of those that are here, before the CPU is used up or the first objective is missed.",
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
    "Headroom in busy hours a week from now, if the trend of the past two weeks goes on. Below 1, HeadroomEndsSoon "
    "fires.",
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
    "LLC misses per 1,000 instructions (MPKI) of the host and all its guests: the more of them share the cache, the "
    "more often each misses it.",
    "LLC misses are not counted here: the page Caches and events says why.",
    legend="{{platform}}",
)


# Means of the time shown for each number of applications (`apps`) that the host has had, and their `placement`. That of
# a ratio is a sum divided by a sum.

_CROWD = 'host:consolidation:info{host="$host"}'
_ANSWERS = 'requests:duration_seconds_{}:rate1m{{host="$host", tier="web", status!~"1xx|5xx"}}'
_REQUESTS = 'app:requests:rate{host="$host", tier="web"}'
_PER_REQUEST = 'app:cpu_per_request:seconds{host="$host"}'
_APP = "on (host, platform, app)"
_RATIO = 'host:llc_misses_per_instruction:ratio{host="$host"}'
_INSTRUCTIONS = 'host:instructions:rate{host="$host"}'


def _by_crowd(part: str) -> str:
    """The sum of all series at all moments."""
    moments = f"({part} * on (host, platform) group_left (apps, placement) {_CROWD})[$__range:$__interval]"
    return f"sum by (apps, placement) (sum_over_time({moments}))"


def _against_apps(name: str, unit: str, description: str, part: str, whole: str = _CROWD) -> Signal:
    """The mean of a part by the whole; by default that of all series' sum over the moments."""
    divisor = (
        _by_crowd(whole)
        if whole != _CROWD
        else f"sum by (apps, placement) (sum_over_time({whole}[$__range:$__interval]))"
    )
    return Signal(
        f"{name} by apps",
        f"{_by_crowd(part)} / {divisor}",
        unit,
        f"{description} The mean over the time shown for each number of applications; in the lab a line for each "
        "placement, else one (as found).",
        _NO_APPS,
    )


AGAINST_APPS = [
    _against_apps(
        "Mean response",
        units.Seconds,
        "Mean response of all applications together.",
        _ANSWERS.format("sum"),
        _ANSWERS.format("count"),
    ),
    _against_apps(
        "Throughput",
        units.RequestsPerSecond,
        "Requests per second to all applications together. Where it no longer grows, the machine is full.",
        _REQUESTS,
    ),
    _against_apps(
        "Application CPU",
        CPUS,
        "CPU usage of all applications' virtual servers together.",
        'app:cpu_usage:rate{host="$host"}',
    ),
    _against_apps(
        "Overhead",
        CPUS,
        "CPU used by the host itself. In the study Dom0's grew threefold from one application to four.",
        'host:overhead_cpu:rate{host="$host"}',
    ),
    _against_apps(
        MISSES.name,
        units.NoUnit,
        MISSES.description,
        f"1000 * {_RATIO} * {_INSTRUCTIONS}",
        f"({_INSTRUCTIONS} and {_RATIO})",
    ),
    _against_apps(
        "CPU per request",
        units.Seconds,
        "CPU time per request, its part of the overhead included, of all applications together.",
        f"{_PER_REQUEST} * {_APP} {_REQUESTS}",
        f"({_REQUESTS} and {_APP} {_PER_REQUEST})",
    ),
]
