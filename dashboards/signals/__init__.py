"""Signals: every displayed quantity, defined once. Panels use them, and tests compare the alerts with them.

A signal's expression uses only the shared vocabulary (``level:metric:operations`` records), never an exporter's own
series, so a new platform needs no new dashboard. Metrics of only one platform or source aren't in the vocabulary: they
are in the module named after it (xen, openvz, exporters) and on its own page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace

from grafana_foundation_sdk.models import units

# A host of containers is also a bare machine: `$host_platform` selects one of the two, so nothing counts twice.
ONE_HOST = 'platform="$host_platform", host="$host"'
ANY_HOSTS = 'platform=~"$platform", host=~"$hosts"'

# A host whose exporter runs but whose sources fail only has monitoring costs. It can be chosen too, as it needs a look.
# These metrics have few series per host, while virtual servers number in the thousands.
KNOWN_HOSTS = '__name__=~"host:cpu_capacity:cpus|host:guests:count|monitor:cpu_usage:rate"'

SEVERITY_POINTS = {"OK": 0, "warning": 1, "critical": 1000}
"""Points per alert by severity: a host's warnings sum to less than a thousand, so never to a critical alert."""

CPUS, DELAY = "suffix:CPUs", "suffix:s/s"  # Grafana's syntax for a custom unit
_DIGITS = {CPUS: 2, "suffix:/s": 1, units.NoUnit: 0}

_OF_VSERVER = "host, platform, vserver, role"

LINES = 10
"""Maximum number of series in a graph."""


@dataclass(frozen=True)
class Scope:
    """Which hosts' series a query selects."""

    hosts: str = ONE_HOST  # matchers that select hosts
    chosen: bool = True  # only chosen applications and virtual servers, on pages that offer the choice

    def __call__(self, metric: str, *matchers: str, **labels: str) -> str:
        """A selector of a metric, narrowed by matchers and labels; a variable matches any set of values.

        >>> on_host("vserver:cpu_usage:rate", role="guest", vserver="$vserver")
        'vserver:cpu_usage:rate{platform="$host_platform", host="$host", role="guest", vserver=~"$vserver"}'
        """
        wanted = {label: value for label, value in labels.items() if self.chosen or value not in ("$app", "$vserver")}
        narrowed = (f'{label}{"=~" if value.startswith("$") else "="}"{value}"' for label, value in wanted.items())
        return f"{metric}{{{', '.join([self.hosts, *narrowed, *matchers])}}}"


@dataclass(frozen=True)
class Signal:
    """One quantity: its query, and how to display the answer.

    query: PromQL with the dashboard's variables such as ``$platform`` and ``$host``; a function of the scope for
    signals shown in several scopes.
    """

    name: str  # short: a panel's title or a column's header
    query: str | Callable[[Scope], str]
    unit: str  # a Grafana identifier from ``grafana_foundation_sdk.models.units``, `CPUS` or `DELAY`
    description: str = ""  # meaning and computation, for a new reader; tables describe their columns
    absent: str = ""  # text of an empty panel: why there is no data, and what to do about it or where to read that
    _: KW_ONLY
    scope: Scope = Scope()
    gap: str = "no data"  # text of an empty tile: two or three words
    legend: str = "{{host}}"  # Grafana's label template for a series
    decimals: int | None = None  # digits after the point for a single number; None: by its unit, or Grafana's choice
    signed: bool = False  # may be negative, so graphs show values below 0
    # Thresholds for warning and critical, upper or lower, in the expression's own unit. An alert on the signal uses the
    # same.
    high: float | None = None
    critical: float | None = None
    low: float | None = None
    critically_low: float | None = None

    @property
    def expr(self) -> str:
        """The query in this scope."""
        return self.query if isinstance(self.query, str) else self.query(self.scope)

    def scoped(self, *, hosts: str | None = None, chosen: bool | None = None) -> Signal:
        """The same for other hosts, or all applications and virtual servers; ValueError if it has only one scope."""
        if isinstance(self.query, str):
            raise ValueError(f"{self.name} has only one scope: {self.query}")
        changed = Scope(hosts or self.scope.hosts, self.scope.chosen if chosen is None else chosen)
        return replace(self, scope=changed)

    @property
    def digits(self) -> int | None:
        """Digits after the point for a single number; None leaves it to Grafana."""
        return _DIGITS.get(self.unit) if self.decimals is None else self.decimals

    @property
    def is_judged(self) -> bool:
        """Whether it has thresholds."""
        return (self.high, self.critical, self.low) != (None, None, None)


on_host, on_hosts = Scope(), Scope(ANY_HOSTS)


def of_exporters(metric: str, hosts: str) -> str:
    """Select a metric that each exporter of this project has under its own name, for these hosts.

    Sensors and applications are excluded: their metrics may have any name.

    >>> of_exporters("source_up", ONE_HOST)
    '{__name__=~".+_source_up", job!~"telegraf|app", platform="$host_platform", host="$host"}'
    """
    return f'{{__name__=~".+_{metric}", job!~"telegraf|app", {hosts}}}'


def with_cause(alerts: str, causes: str) -> str:
    """Alerts with a label `cause`, where an objective has one: alerts lack it, as the cause may change.

    If a restart of Prometheus leaves two causes for some minutes, the newer one.
    """
    each = "host, platform, app, objective"
    newest = f"group by ({each}, cause) (topk by ({each}) (1, timestamp({causes})))"
    return f"{alerts} * on ({each}) group_left (cause) {newest} or ignoring (cause) {alerts}"


def highest(signal: Signal, by: Signal | None = None) -> Signal:
    """Only the series with the highest means over the time range: as many as fit in a graph.

    by: the signal of virtual servers that selects them; by default the shown one.
    """
    same = f"on ({_OF_VSERVER}) " if by else ""
    most = f"those with most {by.name.lower()}" if by else "the highest"
    return replace(
        signal,
        query=f"({signal.expr}) and {same}{top(by or signal)}",
        description=f"{signal.description} Of more than {LINES}, {most} over the time shown.",
    )


def of_highest(signal: Signal, variable: str) -> Signal:
    """The same series, only for hosts found by a variable (`variables.highest`)."""
    return replace(
        signal.scoped(hosts=f'{ANY_HOSTS}, host=~"${variable}"'),
        description=f"{signal.description} Of more than {LINES}, the highest over the time shown.",
    )


def others(signal: Signal) -> Signal:
    """The sum of all series that `highest` leaves out."""
    return replace(signal, query=f"sum(({signal.expr}) unless {top(signal)})", legend="all others")


def top_now(signal: Signal, by: Signal) -> Signal:
    """The signal of only those fifty virtual servers that are highest now by another signal."""
    return replace(signal, query=f"({signal.expr}) and on ({_OF_VSERVER}) topk(50, {by.expr})")


def top(signal: Signal) -> str:
    """The series with the highest means over the time range, for queries and variables."""
    # The mean only selects series and isn't displayed; a displayed mean of a ratio would need its parts.
    # ${__range_s}00ms is a tenth of the range: with thousands of series, more samples would take over a second. Series
    # that began after the last of these samples only have a value at the end.
    mean = f"avg_over_time(({signal.expr})[$__range:${{__range_s}}00ms] @ end())"
    at_the_end = f"last_over_time(({signal.expr})[1m:20s] @ end())"
    return f"topk({LINES}, {mean} or {at_the_end})"


def unfiltered(signal: Signal) -> Signal:
    """The signal of all applications and virtual servers, for a page without that choice."""
    return signal.scoped(chosen=False)


def across_hosts(signal: Signal, legend: str = "{{host}}") -> Signal:
    """The same signal for all chosen hosts, on a page that shows several."""
    return replace(signal.scoped(hosts=ANY_HOSTS), legend=legend)
