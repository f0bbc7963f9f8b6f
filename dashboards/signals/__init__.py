"""Signals: every quantity a person sees, said once. Panels are made from them, and tests hold the alerts to them.

A signal's expression speaks the shared vocabulary alone (``level:metric:operations`` records), never an exporter's own
series, so that a new platform needs no new dashboard. What only one platform or source has is in no vocabulary: files
called like it (xen, openvz, exporters) have that, and the pages that are there for it show it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace

# A host of containers is known as a bare machine too: `$host_platform` is one of the two, so that nothing counts twice.
ONE_HOST = 'platform="$host_platform", host="$host"'
ANY_HOSTS = 'platform=~"$platform", host=~"$hosts"'

# A host whose exporter runs but whose sources fail is known by the cost of monitoring alone. It can be chosen too, as
# it is one to look at. Of virtual servers there are thousands; each of these has a few series for a host.
KNOWN_HOSTS = '__name__=~"host:cpu_capacity:cpus|host:guests:count|monitor:cpu_usage:rate"'

SEVERITY_POINTS = {"OK": 0, "warning": 1, "critical": 1000}
"""Points of an alert of each severity: a host's warnings never add up to a critical alert, being below a thousand."""

CPUS = "suffix:CPUs"  # Grafana's spelling of a unit of its user's own

LINES = 10
"""Series that a graph has room for."""


@dataclass(frozen=True)
class Scope:
    """Whose series a query selects."""

    hosts: str = ONE_HOST
    """Matchers that select hosts."""

    chosen: bool = True
    """Whether only the applications and virtual servers that are chosen, on a page where these can be."""

    def __call__(self, metric: str, *matchers: str, **labels: str) -> str:
        """A selector of a metric, narrowed by matchers and labels; a variable stands for any set of values."""
        wanted = {label: value for label, value in labels.items() if self.chosen or value not in ("$app", "$vserver")}
        narrowed = (f'{label}{"=~" if value.startswith("$") else "="}"{value}"' for label, value in wanted.items())
        return f"{metric}{{{', '.join([self.hosts, *narrowed, *matchers])}}}"


@dataclass(frozen=True)
class Signal:
    """One quantity: how to ask for it, and how to say what came back."""

    name: str
    """The quantity in a few words: a panel's title or a column's header."""

    query: str | Callable[[Scope], str]
    """PromQL in which ``$platform``, ``$host`` and their like are the dashboard's variables. Signals that pages show in
    several scopes have a function of the scope."""

    unit: str
    """Grafana's identifier of the unit: one of ``grafana_foundation_sdk.models.units``, or ``CPUS``."""

    description: str = ""
    """What the number means and how it is computed, for a new reader. A column needs none, as its table has one."""

    absent: str = ""
    """One line that an empty panel shows: why there is nothing, or where that is said, and what to do about it."""

    _: KW_ONLY

    scope: Scope = Scope()
    """Whose series the function selects."""

    gap: str = "no data"
    """The same in two words or three, for a tile."""

    legend: str = "{{host}}"
    """Legend of one series, in Grafana's label template."""

    decimals: int | None = None
    """Digits after the point where the value stands as a number; None leaves it to Grafana."""

    signed: bool = False
    """Whether it can be below 0, which a graph of it then shows."""

    high: float | None = None
    """From here on the value is a warning, in the expression's own unit. An alert on it compares with the same."""

    critical: float | None = None
    """From here on it is critical."""

    low: float | None = None
    """Below this the value is a warning."""

    critically_low: float | None = None
    """Below this it is critical."""

    @property
    def expr(self) -> str:
        """The query of this scope."""
        return self.query if isinstance(self.query, str) else self.query(self.scope)

    def scoped(self, *, hosts: str | None = None, chosen: bool | None = None) -> Signal:
        """The same of other hosts, or of all applications and virtual servers; ValueError if it has only one scope."""
        if isinstance(self.query, str):
            raise ValueError(f"{self.name} has only one scope: {self.query}")
        changed = Scope(hosts or self.scope.hosts, self.scope.chosen if chosen is None else chosen)
        return replace(self, scope=changed)

    @property
    def is_judged(self) -> bool:
        """Whether a value of it is fine or not."""
        return (self.high, self.critical, self.low) != (None, None, None)


def on_host(metric: str, *matchers: str, **labels: str) -> str:
    """Select the chosen host's series of a metric, narrowed by matchers and labels, as a `Scope` does.

    >>> on_host("vserver:cpu_usage:rate", role="guest", vserver="$vserver")
    'vserver:cpu_usage:rate{platform="$host_platform", host="$host", role="guest", vserver=~"$vserver"}'
    """
    return Scope()(metric, *matchers, **labels)


def on_hosts(metric: str, *matchers: str, **labels: str) -> str:
    """Select the same of all chosen hosts, on a page that shows several."""
    return Scope(ANY_HOSTS)(metric, *matchers, **labels)


def of_exporters(metric: str, hosts: str) -> str:
    """Select a metric that each exporter of this project has under its own name, of these hosts.

    Sensors and applications, whose metrics may have any name, are left out.

    >>> of_exporters("source_up", ONE_HOST)
    '{__name__=~".+_source_up", job!~"telegraf|app", platform="$host_platform", host="$host"}'
    """
    return f'{{__name__=~".+_{metric}", job!~"telegraf|app", {hosts}}}'


def with_cause(alerts: str, causes: str) -> str:
    """Alerts with a label `cause`, where one stands for their objective: they don't have it, as it may change.

    Of two causes, as a restart of Prometheus may leave behind for minutes, the newer one.
    """
    each = "host, platform, app, objective"
    newest = f"group by ({each}, cause) (topk by ({each}) (1, timestamp({causes})))"
    return f"{alerts} * on ({each}) group_left (cause) {newest} or ignoring (cause) {alerts}"


def highest(signal: Signal) -> Signal:
    """The signal's highest series alone, by their mean over the time that is shown: more no graph can show."""
    return replace(
        signal,
        query=f"({signal.expr}) and {_top(signal)}",
        description=f"{signal.description} Of more than {LINES}, the highest over the time shown.",
    )


def of_highest(signal: Signal, variable: str) -> Signal:
    """The same series, of the hosts alone that a variable has found (`variables.highest`)."""
    return replace(
        signal.scoped(hosts=f'{ANY_HOSTS}, host=~"${variable}"'),
        description=f"{signal.description} Of more than {LINES}, the highest over the time shown.",
    )


def others(signal: Signal) -> Signal:
    """All that `highest` leaves out, as one sum."""
    return replace(signal, query=f"sum(({signal.expr}) unless {_top(signal)})", legend="all others")


def top_now(signal: Signal, by: Signal, count: int = 50) -> Signal:
    """The signal of those virtual servers alone that are highest now by another."""
    return replace(signal, query=f"({signal.expr}) and on (host, platform, vserver, role) topk({count}, {by.expr})")


def _top(signal: Signal) -> str:
    # The mean chooses lines alone, and is shown nowhere: of a ratio it would have to be of its parts.
    # ${__range_s}00ms is a tenth of the range: of thousands of series, no more samples could be had in a second. What
    # began after the last of these has a value at the end alone.
    mean = f"avg_over_time(({signal.expr})[$__range:${{__range_s}}00ms] @ end())"
    at_the_end = f"last_over_time(({signal.expr})[1m:20s] @ end())"
    return f"topk({LINES}, {mean} or {at_the_end})"


def unfiltered(signal: Signal) -> Signal:
    """The signal of all applications and virtual servers, for a page on which these can't be chosen."""
    return signal.scoped(chosen=False)


def across_hosts(signal: Signal, legend: str = "{{host}}") -> Signal:
    """The same signal of all chosen hosts, for a page that shows several."""
    return replace(signal.scoped(hosts=ANY_HOSTS), legend=legend)
