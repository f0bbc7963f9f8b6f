"""A host that runs applications: headroom for more, and how each additional one affected the others."""

from dataclasses import replace
from functools import partial

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Signal, host, on_host

_NO_APPS = "No application is known on this host: docs/sensors.md, docs/objectives.md."
_NO_HEADROOM = "Needs applications with requests, and `tiers:` in alerts/objectives/: docs/objectives.md."

_count = partial(Signal, unit=units.NoUnit, legend="applications")

APPS = _count(
    "Applications",
    on_host("host:consolidation:apps"),
    description="Applications that run on this host.",
    absent=_NO_APPS,
    gap="no applications",
)
HEADROOM = _count(
    "Headroom now",
    f"floor({on_host('host:headroom:apps')})",
    description=(
        "How many more average applications fit at the current load before CPU, memory or disk is used up, or the "
        "first objective is missed."
    ),
    absent=_NO_HEADROOM,
    gap="no applications",
    low=1,
)
BY_CPU = _count("Headroom by CPU", on_host("host:headroom_cpu:apps"), absent=_NO_HEADROOM, legend="by CPU")
BY_OBJECTIVE = _count(
    "Headroom by objectives",
    f"{BY_CPU.expr} * on (host, platform) "
    f"clamp_min(1 - max by (host, platform) ({on_host('app:slo_response:ratio')}), 0)",
    legend="by objectives",
)
BUSY_HOURS = _count(
    "Headroom (apps)",
    f"floor({on_host('host:headroom:apps_p10_1d')})",
    description=(
        "How many more average applications fit in busy hours: the headroom was at least this in nine tenths of the "
        "past day."
    ),
    absent="Known after eight hours with requests.",
    gap="after 8 hours",
    low=1,
)
IN_A_WEEK = _count(
    "Headroom in a week",
    f"floor({on_host('host:headroom_in_a_week:apps')})",
    description=(
        "Headroom in busy hours a week from now, if the trend of the past two weeks goes on. Below 1, HeadroomEndsSoon "
        "fires."
    ),
    absent="Known after three days with requests.",
    gap="after 3 days",
    low=1,
)
TIME_LEFT = _count(
    "Time left (days)",
    on_host("host:time_left:days"),
    description=(
        "Days until nothing more fits in busy hours by the trend of two weeks: the middle line. With 90 % confidence "
        "it is between the other two. A line that is missing is beyond a year."
    ),
    absent="More than a year, or unknown until there are three days with requests.",
    legend="{{quantile}}",
)
FITS = _count(
    "Fits (guests)",
    on_host("host:fits:vservers"),
    description=(
        "How many more guests like the median busy one fit, by each limit: the lowest decides. A limit that isn't "
        "measured, or that nearly idle guests never reach, has no line."
    ),
    absent="No guests here, or neither their CPU nor memory is measured: docs/vocabulary.md, Headroom.",
    legend="{{limit}}",
)
OVERHEAD = Signal("Overhead", on_host("host:overhead_cpu:rate"), CPUS, legend="overhead")
# A machine with containers also exists as platform base.
CAPACITY = replace(host.CPU_CAPACITY, query=f"max by (host) ({host.CPU_CAPACITY.expr})")
# Clamped: if no answer is in time, the equivalent mean is infinite.
USED_UP = Signal(
    "Response / objective",
    lambda at: f"clamp_max({at('app:slo_response:ratio', app='$app')}, 3)",
    units.PercentUnit,
    "Response divided by its target: above the line the objective is missed. For a latency objective it is the mean "
    "that has the same share of slow answers, over five minutes. More than 300 % is drawn as 300 %.",
    "No application here has an objective: CPU alone limits headroom (docs/objectives.md).",
    legend="{{app}} {{objective}}",
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

# Means over the time range for each number of applications (`apps`) on the host and each `placement`. The mean of a
# ratio is a ratio of sums.

_CROWD = 'host:consolidation:info{host="$host"}'
_ANSWERS = 'requests:duration_seconds_{}:rate1m{{host="$host", tier="web", status!~"1xx|5xx"}}'
_REQUESTS = 'app:requests:rate{host="$host", tier="web"}'
_PER_REQUEST = 'app:cpu_per_request:seconds{host="$host"}'
_APP = "on (host, platform, app)"
_MISSED = 'host:events:rate{host="$host", group="cache", event="cache-misses"}'
_INSTRUCTIONS = 'host:events:rate{host="$host", group="cache", event="instructions"}'


def _by_crowd(part: str) -> str:
    """The sum over all series and moments."""
    moments = f"({part} * on (host, platform) group_left (apps, placement) {_CROWD})[$__range:$__interval]"
    return f"sum by (apps, placement) (sum_over_time({moments}))"


def _against_apps(name: str, unit: str, description: str, part: str, whole: str = _CROWD) -> Signal:
    """The ratio of a part's and a whole's sums; by default the mean over moments of the part's sum."""
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
        f"1000 * {_MISSED}",
        f"({_INSTRUCTIONS} and ignoring (event) {_MISSED} > 0)",
    ),
    _against_apps(
        "CPU per request",
        units.Seconds,
        "CPU time per request, its part of the overhead included, of all applications together.",
        f"{_PER_REQUEST} * {_APP} {_REQUESTS}",
        f"({_REQUESTS} and {_APP} {_PER_REQUEST})",
    ),
]
