"""Who waits for whom: waiting for a CPU by who ran on it meanwhile, and whom that names for an application."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Scope, Signal, on_host

ROWS, COLUMNS = 8, 7  # of the matrix, as many as are seen at once on a laptop, headers of three lines included

TOTAL, REST = "(total)", "(others)"
"""Columns of the matrix beside those of the virtual servers; no virtual server is called so."""

COLUMN = "column"
"""The label with the headers of the matrix."""

WITHOUT_PAGE = r"[(](total|others)[)]|host|[^\/]+[.](service|slice|scope|socket|mount)"
"""Columns of the matrix that are no virtual servers. A service that was chosen as one is called by its path."""

OWN_THREADS = "own threads"

_ESTIMATED = "On Xen these are estimates, from one second of each minute."
_NOT_MEASURED = "Nobody waits, or not measured: docs/sched-exporter.md; on Xen --xentrace.interval."
_NO_TIERS = "Nobody waits, not measured (docs/sched-exporter.md), or tiers unknown (docs/objectives.md)."
_NOBODY_NAMED = "No application waits for a neighbour that can be named: see the evidence on Applications."
_NOTHING_MOVED = "No named neighbour was capped, moved or stopped in the time shown."

_LEAST = 0.005  # of a cell: it would be read as 0.00

_CAUSED = on_host("vserver:cpu_wait_caused:rate")


def _waiting(reasons: str) -> str:
    return f'{_CAUSED[:-1]}, reason=~"{reasons}"}}'


_FOR_OTHERS = _waiting("neighbour|host")
_VICTIMS = f"topk({ROWS}, sum by (vserver) ({_FOR_OTHERS}))"
_OFFENDERS = f"topk({COLUMNS}, sum by (by) ({_FOR_OTHERS}))"
# A header is narrow: the host's units are called without their slices.
_WITH_BOTH = f'label_join({_waiting("neighbour|host|self")} and on (by) {_OFFENDERS}, "{COLUMN}", ";", "reason", "by")'
_WITH_COLUMN = (
    f'label_replace({_WITH_BOTH}, "{COLUMN}", "$1$2", "{COLUMN}", "host;(?:.*/)?(.+)|(?:neighbour|self);(.+)")'
)
_CELLS = f"sum by (vserver, {COLUMN}) ({_WITH_COLUMN})"
# What has no column of its own, whoever it is.
_UNNAMED = f"sum by (vserver) ({_waiting('neighbour|host|unknown')} unless on (by) {_OFFENDERS})"
_ALL = f"sum by (vserver) ({_waiting('neighbour|host|unknown')})"


def _as_column(expr: str, name: str) -> str:
    return f'label_replace({expr}, "{COLUMN}", "{name}", "", "")'


MATRIX = Signal(
    "Who waits for whom on the host",
    f"sort_desc((({_CELLS} or {_as_column(_UNNAMED, REST)} or {_as_column(_ALL, TOTAL)})"
    f" and on (vserver) {_VICTIMS}) >= {_LEAST})",
    units.NoUnit,
    "Seconds per second (CPUs) that the virtual server of the row was ready to run and waited, while that of the "
    "column ran on the CPU it waited for; at the end of the time shown. Left out: all but the "
    f"{ROWS} that wait most and the {COLUMNS} that are waited for most (the rest is in {REST}), cells below "
    f"{_LEAST}, and waiting for a cap, a hypervisor below and waking up, which the graphs have. {TOTAL} is without "
    f"its own threads, which stand where row and column are the same. {_ESTIMATED} A click leads to either.",
    _NOT_MEASURED,
    decimals=2,
)


def _of_chosen(at: Scope, *, reason: str) -> str:
    """Waiting of the chosen virtual servers, with another matcher."""
    return f"{at('vserver:cpu_wait_caused:rate', vserver='$vserver')[:-1]}, {reason}}}"


BY_REASON = Signal(
    "Waiting by reason",
    lambda at: f"sum by (reason) ({at('vserver:cpu_wait_caused:rate', vserver='$vserver')})",
    CPUS,
    "What the chosen virtual servers waited for: neighbours, self (own threads), cap, host (its services and "
    "kernel threads), stolen (by a hypervisor below), wakeup (an idle CPU that was waking up), unknown. 1 CPU is "
    f"one thread or vCPU that waits all the time. {_ESTIMATED}",
    _NOT_MEASURED,
    legend="{{reason}}",
)

WHO = Signal(
    name="Who ran meanwhile",
    # Added up before they are renamed: of a thousand pairs, renaming each at each moment takes most of the time.
    query=lambda at: (
        f"""sum by (by) ({_of_chosen(at, reason='reason!="self"')})"""
        f""" or label_replace(sum({_of_chosen(at, reason='reason="self"')}), "by", "{OWN_THREADS}", "", "")"""
    ),
    unit=CPUS,
    description=(
        "Waiting of the chosen virtual servers by who ran meanwhile: choose one at the top. In parentheses what is "
        f"nobody: its cap, a hypervisor below (stolen), a CPU that was waking up. {_ESTIMATED}"
    ),
    legend="{{by}}",
    absent=_NOT_MEASURED,
)

APP_BY_REASON = replace(
    BY_REASON,
    name="Waiting by reason (neighbour)",
    query=f"sum by (reason) ({on_host('app:cpu_wait_caused:rate', app='$app')})",
    description=(
        "What the chosen applications waited for. Evidence for neighbour where it is measured: waiting for neighbours "
        f"half as long as it computes; for hypervisor: the same of host. {_ESTIMATED}"
    ),
    absent=_NO_TIERS,
)

APP_FOR = replace(
    BY_REASON,
    name="Waiting for each neighbour (neighbour)",
    query=f"sum by (by) ({on_host('app:cpu_wait_caused:rate', app='$app', reason='neighbour')})",
    description=(
        "Waiting of the chosen applications while each neighbour ran. Named is who has a third of it or more, if those "
        f"together have half: of many small ones nobody is named. {_ESTIMATED}"
    ),
    legend="{{by}}",
    absent=_NO_TIERS,
)


def _share(at: Scope) -> str:
    return at("app:neighbour:ratio", app="$app")


def _of_named(at: Scope) -> str:
    return f"and on (host, platform, app, by) {_share(at)}"


GIVES_BACK = Signal(
    "Would give back at most",
    lambda at: f"{at('app:cpu_wait_caused:rate', app='$app', reason='neighbour')} {_of_named(at)}",
    CPUS,
    absent=_NOBODY_NAMED,
    decimals=2,
)

SHARE = Signal("Share", _share, units.PercentUnit, absent=_NOBODY_NAMED, decimals=0)

SINCE = Signal(
    "Named since",
    lambda at: f"1000 * ({at('app:neighbour_since:seconds', app='$app')} {_of_named(at)})",
    units.DateTimeFromNow,
    absent=_NOBODY_NAMED,
)

PREDICTED = Signal(
    "Predicted, at most",
    lambda at: f"last_over_time({at('app:neighbour_predicted:rate', app='$app')}[$__range])",
    CPUS,
    absent=_NOTHING_MOVED,
    decimals=2,
)

REGAINED = Signal(
    "Measured",
    lambda at: f"last_over_time({at('app:neighbour_regained:rate', app='$app')}[$__range])",
    CPUS,
    absent=_NOTHING_MOVED,
    decimals=2,
)
