"""All hosts at once: which needs attention, and why."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import (
    ANY_HOSTS,
    SEVERITY_POINTS,
    Scope,
    Signal,
    across_hosts,
    consolidation,
    events,
    host,
    on_hosts,
    with_cause,
)

_NO_HOSTS = "There are no hosts: see docs/watched-hosts.md."
_FIRING = 'alertstate="firing", host=~"$hosts"'


_WEIGHED = " or ".join(
    f'{points} * group by (host, alertname, app, vserver) (ALERTS{{{_FIRING}, severity="{severity}"}})'
    for severity, points in reversed(SEVERITY_POINTS.items())
    if points
)
_POINTS = f"sum by (host) ({_WEIGHED})"

ROWS = 100
"""Of the table of hosts: more nobody reads, and each column of 10,000 would be a megabyte."""

_SCORE = on_hosts("host:severity:score")
_SHOWN = f"topk({ROWS}, {_SCORE})"


def of_shown(signal: Signal) -> Signal:
    """A signal of all hosts, of those alone that have a row."""
    return replace(signal, query=f"({signal.expr}) and on (host, platform) {_SHOWN}")


SEVERITY = Signal(
    name="Severity",
    # A tie goes to the host with the higher overhead.
    query=f"max by (host, platform) ({_SHOWN})",
    unit=units.NoUnit,
    description="Severity of the worst alert that fires for the host; OK: none fires.",
    absent=_NO_HOSTS,
)

_WORST = f"topk by (host) (1, {_WEIGHED})"
_EACH_HOST = f"group by (host) ({_SCORE})"

WORST = Signal(
    name="Hosts that need attention",
    # Fractions sort hosts with alerts of the same severity by the points of all their alerts.
    query=(
        f'topk(4, (label_join({_WORST}, "why", " ", "alertname", "app", "vserver") '
        f"or on (host) 0 * {_EACH_HOST}) + on (host) group_left () "
        f"clamp_max(({_POINTS} or on (host) 0 * {_EACH_HOST}) / 1e6, 0.9))"
    ),
    unit=units.NoUnit,
    description=(
        "The four hosts with the most and severest alerts, and the worst alert of each with its application or "
        "virtual server. OK: no alert fires."
    ),
    absent=_NO_HOSTS,
    gap="no hosts",
    legend="{{host}} {{why}}",
)

_ROW = f"0 * {SEVERITY.expr}"

FIRING = Signal(
    "Alerts",
    f'{_ROW} + on (host) group_left () count by (host) (ALERTS{{{_FIRING}, severity!="none"}}) or {_ROW}',
    units.NoUnit,
    absent=_NO_HOSTS,
    decimals=0,
)

HOSTS = Signal(
    "Hosts",
    f"count(group by (host) ({on_hosts('up')}))",
    units.NoUnit,
    "Monitored machines of the chosen platforms.",
    _NO_HOSTS,
    decimals=0,
)

SILENT = Signal(
    "Down",
    f"count(max by (host) ({on_hosts('up')}) == 0) or 0 * count({on_hosts('up')})",
    units.NoUnit,
    "Hosts of which no target answers: they are down, or can't be reached.",
    _NO_HOSTS,
    decimals=0,
    critical=1,
)

CRITICAL = Signal(
    "Critical",
    f'count(ALERTS{{{_FIRING}, severity="critical"}}) or 0 * count({on_hosts("up")})',
    units.NoUnit,
    "Firing alerts that need action now.",
    _NO_HOSTS,
    decimals=0,
    critical=1,
)

WARNINGS = replace(
    CRITICAL,
    name="Warnings",
    query=f'count(ALERTS{{{_FIRING}, severity="warning"}}) or 0 * count({on_hosts("up")})',
    description="Firing alerts that can wait until the morning.",
    high=1,
    critical=None,
)

WORST_BURN = Signal(
    "Burn rate",
    f"topk by (host, platform) (1, max by (host, platform, app) ({on_hosts('app:slo_burn:ratio')}))",
    units.NoUnit,
    "Highest burn rate of an error budget on the host, and the application it is of: at 1 the budget lasts for 30 "
    "days.",
    "No application has an objective: docs/objectives.md.",
    decimals=1,
    high=1,
    critical=14.4,
)

BURN = replace(
    WORST_BURN,
    name="Max burn rate",
    query=lambda at: at("host:slo_burn:ratio"),
    scope=Scope(ANY_HOSTS),
    legend="{{host}}",
)

HEADROOM = Signal(
    "Headroom",
    f"floor({on_hosts('host:headroom:apps_p10_1d')} or {on_hosts('host:headroom:apps')})",
    units.NoUnit,
    absent=consolidation.HEADROOM.absent,
    decimals=0,
    low=1,
)

OVERHEAD = replace(across_hosts(host.OVERHEAD_RATIO), name="Overhead")
# As a record: the two that it is made of would be read for all hosts to find the highest.
CPU_USED = replace(across_hosts(host.CPU_USED_RATIO), name="CPU used", query=lambda at: at("host:cpu_used:ratio"))
LLC_MISSES = replace(across_hosts(events.HOST_LLC_MISSES), name="LLC MPKI")

# Behind a store of several Prometheus each series says whose it is.
_WHERE = "platform, shard"
_EACH = f"count by ({_WHERE}) ({_SCORE})"
_WARNING, _CRITICAL = SEVERITY_POINTS["warning"], SEVERITY_POINTS["critical"]

HOSTS_CRITICAL = Signal(
    "Critical",
    f"count by ({_WHERE}) ({_SCORE} >= {_CRITICAL}) or 0 * {_EACH}",
    units.NoUnit,
    absent=_NO_HOSTS,
    decimals=0,
    critical=1,
)

HOSTS_WARNING = replace(
    HOSTS_CRITICAL,
    name="Warning",
    query=f"count by ({_WHERE}) ({_SCORE} >= {_WARNING} < {_CRITICAL}) or 0 * {_EACH}",
    high=1,
    critical=None,
)

HOSTS_DOWN = replace(
    HOSTS_CRITICAL,
    name="Down",
    query=f"count by ({_WHERE}) (max by (host, {_WHERE}) ({on_hosts('up')}) == 0) or 0 * {_EACH}",
)

HOSTS_OF = replace(HOSTS_CRITICAL, name="Hosts", query=_EACH, critical=None)

ALERTS = replace(
    host.ALERTS,
    query=with_cause(host.active_for('host=~"$hosts"', "firing"), 'app:objective_cause:info{host=~"$hosts"}'),
    description="Alerts that fire now, critical ones first. An alert's name leads to its runbook.",
    absent="No alert fires for these hosts.",
)
