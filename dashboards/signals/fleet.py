"""All hosts at once: who is in trouble, and by what."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import Signal, across_hosts, events, host, on_hosts, with_cause

# Whatever is a target: a host that has fallen silent has no records, and is the one to be seen first.
_HOSTS = f"group by (host, platform) ({on_hosts('up')})"
_NO_HOSTS = "No host is watched. Add one by two lines in prometheus/targets/: see README.md, Watch another host."
_FIRING = 'alertstate="firing", host=~"$hosts"'


def _by_host(by_host: str) -> str:
    """What is known by host alone, as alerts of several platforms are, for each of its platforms; else 0."""
    return f"{_HOSTS} * on (host) group_left () ({by_host}) or 0 * {_HOSTS}"


_POINTS = (
    "sum by (host) ("
    f'10 * count by (host, severity) (ALERTS{{{_FIRING}, severity="critical"}})'
    f' or count by (host, severity) (ALERTS{{{_FIRING}, severity="warning"}}))'
)

TROUBLE = Signal(
    name="Trouble",
    # A tie goes to the host with the higher overhead, at less than half a point so that the number stays.
    expr=f"({_by_host(_POINTS)}) + on (host, platform) (0.4 * {on_hosts('host:overhead:ratio')} or 0 * {_HOSTS})",
    unit=units.NoUnit,
    description=(
        "A point for each warning that fires, ten for each critical alert. Of equals, the higher overhead is first."
    ),
    absent=_NO_HOSTS,
    decimals=0,
    high=1,
)

FIRING = Signal(
    name="Alerts",
    expr=_by_host(f'count by (host) (ALERTS{{{_FIRING}, severity!="none"}})'),
    unit=units.NoUnit,
    description="Alerts that fire for the host, its virtual servers and applications.",
    absent=_NO_HOSTS,
    decimals=0,
)

HOSTS = Signal(
    name="Hosts",
    expr=f"count(group by (host) ({on_hosts('up')}))",
    unit=units.NoUnit,
    description="Machines that are watched, of the chosen platforms.",
    absent=_NO_HOSTS,
    decimals=0,
)

SILENT = Signal(
    name="Silent hosts",
    expr=f"count(max by (host) ({on_hosts('up')}) == 0) or 0 * count({on_hosts('up')})",
    unit=units.NoUnit,
    description="Hosts of which nothing answers: they are down, or the way to them is.",
    absent=_NO_HOSTS,
    decimals=0,
    high=1,
)

CRITICAL = Signal(
    name="Critical alerts",
    expr=f'count(ALERTS{{{_FIRING}, severity="critical"}}) or 0 * count({on_hosts("up")})',
    unit=units.NoUnit,
    description="Alerts that ask a person to act now.",
    absent=_NO_HOSTS,
    decimals=0,
    high=1,
)

WARNINGS = replace(
    CRITICAL,
    name="Warnings",
    expr=f'count(ALERTS{{{_FIRING}, severity="warning"}}) or 0 * count({on_hosts("up")})',
    description="Alerts that can wait until the morning.",
)

WORST_BURN = Signal(
    name="Burn rate",
    expr=f"topk by (host, platform) (1, max by (host, platform, app) ({on_hosts('app:slo_burn:ratio', app='$app')}))",
    unit=units.NoUnit,
    description=(
        "The application whose error budget is used up fastest, and how many times too fast: at 1 it lasts 30 days. "
        "None without an objective: docs/objectives.md says how to give one."
    ),
    absent="No application with an objective.",
    decimals=1,
    high=1,
)

BURN = replace(
    WORST_BURN,
    name="Burn rate of the application worst off",
    expr=f"max by (host, platform) ({on_hosts('app:slo_burn:ratio', app='$app')})",
    legend="{{host}}",
)

HEADROOM = Signal(
    name="Room for",
    expr=f"floor({on_hosts('host:headroom:apps')})",
    unit="suffix:apps",
    description=(
        "How many more of the mean application fit on the host, before its CPU is used up or a response breaks its "
        "objective: whichever is first. The page Consolidation has the reasoning."
    ),
    absent="Known where applications are: docs/objectives.md says how to tell whose virtual servers are whose.",
    decimals=0,
)

OVERHEAD = replace(across_hosts(host.OVERHEAD_RATIO), name="Overhead")
CPU_USED = replace(across_hosts(host.CPU_USED_RATIO), name="CPU used")
LLC_MISSES = replace(across_hosts(events.HOST_LLC_MISSES), name="LLC misses")

ALERTS = replace(
    host.ALERTS,
    expr=with_cause(host.active_for('host=~"$hosts"', "firing"), 'app:objective_cause:info{host=~"$hosts"}'),
    description="Alerts that fire now, critical ones first. The runbook of each is docs/runbooks/NAME.md.",
    absent="No alert fires for any of these hosts.",
)
