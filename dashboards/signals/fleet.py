"""All hosts at once: which needs attention, and why."""

from dataclasses import replace
from functools import partial

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

_count = partial(Signal, unit=units.NoUnit, absent="There are no hosts: see docs/watched-hosts.md.")
_FIRING = 'alertstate="firing", host=~"$hosts"'
_UP = on_hosts("up")
_SCORE = on_hosts("host:severity:score")

ROWS = 100
"""Rows in the table of hosts: nobody reads more, and each column of 10,000 hosts would be a megabyte."""

_SHOWN = f"topk({ROWS}, {_SCORE})"


def of_shown(signal: Signal) -> Signal:
    """A signal of all hosts, limited to hosts with a row."""
    return replace(signal, query=f"({signal.expr}) and on (host, platform) {_SHOWN}")


_WEIGHED = " or ".join(
    f'{points} * group by (host, alertname, app, vserver) (ALERTS{{{_FIRING}, severity="{severity}"}})'
    for severity, points in reversed(SEVERITY_POINTS.items())
    if points
)
_SCORE_OF_HOST = f"max by (host) ({_SCORE})"
# Fractions sort hosts of the same severity by the points of all their alerts.
WORST = _count(
    "Hosts that need attention",
    f'topk(4, (label_join(topk by (host) (1, {_WEIGHED}), "why", " ", "alertname", "app", "vserver") '
    f"or on (host) 0 * {_SCORE_OF_HOST}) + on (host) group_left () clamp_max({_SCORE_OF_HOST} / 1e6, 0.9))",
    description=(
        "The four hosts with the most and severest alerts, and the worst alert of each with its application or "
        "virtual server. OK: no alert fires."
    ),
    gap="no hosts",
    legend="{{host}} {{why}}",
)
HOSTS = _count("Hosts", f"count(group by (host) ({_UP}))", description="Monitored machines of the chosen platforms.")
SILENT = _count(
    "Down",
    f"count(max by (host) ({_UP}) == 0) or 0 * count({_UP})",
    description="Hosts of which no target answers: they are down, or can't be reached.",
    critical=1,
)
CRITICAL = _count(
    "Critical",
    f'count(ALERTS{{{_FIRING}, severity="critical"}}) or 0 * count({_UP})',
    description="Firing alerts that need action now.",
    critical=1,
)
WARNINGS = _count(
    "Warnings",
    f'count(ALERTS{{{_FIRING}, severity="warning"}}) or 0 * count({_UP})',
    description="Firing alerts that can wait until the morning.",
    high=1,
)

# The table of hosts: ties are broken by the higher overhead.
SEVERITY = _count("Severity", f"max by (host, platform) ({_SHOWN})")
_ROW = f"0 * {SEVERITY.expr}"
FIRING = _count(
    "Alerts", f'{_ROW} + on (host) group_left () count by (host) (ALERTS{{{_FIRING}, severity!="none"}}) or {_ROW}'
)
BURN = Signal(
    "Max burn rate",
    lambda at: f"max by (host, platform) ({at('app:slo_burn:ratio')})",
    units.NoUnit,
    "Highest burn rate of an error budget on the host, and the application it is of: at 1 the budget lasts for 30 "
    "days.",
    "No application has an objective: docs/objectives.md.",
    scope=Scope(ANY_HOSTS),
    decimals=1,
    high=1,
    critical=14.4,
)
WORST_BURN = replace(
    BURN,
    name="Burn rate",
    query=f"topk by (host, platform) (1, max by (host, platform, app) ({on_hosts('app:slo_burn:ratio')}))",
)
HEADROOM = Signal(
    "Headroom",
    f"floor({on_hosts('host:headroom:apps_p10_1d')} or {on_hosts('host:headroom:apps')})",
    units.NoUnit,
    absent=consolidation.HEADROOM.absent,
    low=1,
)
OVERHEAD = replace(across_hosts(host.OVERHEAD_RATIO), name="Overhead")
CPU_USED = replace(across_hosts(host.CPU_USED_RATIO), name="CPU used")
LLC_MISSES = replace(across_hosts(events.HOST_LLC_MISSES), name="LLC MPKI")

# Behind a store of several Prometheus servers each series has its server's label.
_WHERE = "platform, shard"
_EACH = f"count by ({_WHERE}) ({_SCORE})"
_WARNING, _CRITICAL = SEVERITY_POINTS["warning"], SEVERITY_POINTS["critical"]
BY_PLATFORM = [
    _count("Critical", f"count by ({_WHERE}) ({_SCORE} >= {_CRITICAL}) or 0 * {_EACH}", critical=1),
    _count("Warning", f"count by ({_WHERE}) ({_SCORE} >= {_WARNING} < {_CRITICAL}) or 0 * {_EACH}", high=1),
    _count("Down", f"count by ({_WHERE}) (max by (host, {_WHERE}) ({_UP}) == 0) or 0 * {_EACH}", critical=1),
    _count("Hosts", _EACH),
]

ALERTS = replace(
    host.ALERTS,
    query=with_cause(host.active_for('host=~"$hosts"', "firing"), 'app:objective_cause:info{host=~"$hosts"}'),
    description="Alerts that fire now, critical ones first. An alert's name leads to its runbook.",
    absent="No alert fires for these hosts.",
)
