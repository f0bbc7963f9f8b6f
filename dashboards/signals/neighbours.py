"""Who waits for whom: CPU wait by what ran meanwhile, and the neighbours named for an application."""

from dataclasses import replace
from functools import partial

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Scope, Signal, on_host

ROWS, COLUMNS = 8, 7  # of the matrix: as many as fit on a laptop screen, including headers of three lines

TOTAL = "(total)"
"""The matrix column for everything but virtual servers; no virtual server has this name."""

COLUMN = "ran"
"""The label with the headers of the matrix."""

WITHOUT_PAGE = r"[(]total[)]|host|[^\/]+[.](service|slice|scope|socket|mount)"
"""Matrix columns that aren't virtual servers. A service chosen as one is named by its path."""

OWN_THREADS = "own threads"

_ESTIMATED = "On Xen these are estimates, from one second of each minute."
_NOT_MEASURED = "Nobody waits, or not measured: docs/sched-exporter.md; on Xen --xentrace.interval."
_NO_TIERS = "Nobody waits, not measured (docs/sched-exporter.md), or tiers unknown (docs/objectives.md)."

_MIN_SHOWN = 0.005  # smallest cell value: less would display as 0.00


def _waiting(reasons: str) -> str:
    return f'vserver:delay:rate{{host="$host", reason=~"{reasons}"}}'


_FOR_OTHERS = _waiting("neighbour|host")
_VICTIMS = f"topk({ROWS}, sum by (vserver) ({_FOR_OTHERS}))"
_OFFENDERS = f"topk({COLUMNS}, sum by (by) ({_FOR_OTHERS}))"
_WITH_BOTH = f'label_join({_waiting("neighbour|host|self")} and on (by) {_OFFENDERS}, "{COLUMN}", ";", "reason", "by")'
# Headers are narrow: the host's units are named without their slices.
_WITH_COLUMN = f'label_replace({_WITH_BOTH}, "{COLUMN}", "$1$2", "{COLUMN}", "host;(?:.*/)?(.+)|[a-z]+;(.+)")'
_TOTALS = f'label_replace({_waiting("neighbour|host|unknown")}, "{COLUMN}", "{TOTAL}", "", "")'
MATRIX = Signal(
    "Who waits for whom on the host",
    f"sort_desc((sum by (vserver, {COLUMN}) ({_WITH_COLUMN}) or sum by (vserver, {COLUMN}) ({_TOTALS})) "
    f">= {_MIN_SHOWN} and on (vserver) {_VICTIMS})",
    units.NoUnit,
    "CPUs that the virtual server of the row waited for while that of the column ran on them, at the end of the time "
    f"shown: the {ROWS} that wait most, the {COLUMNS} they wait for most, cells from {_MIN_SHOWN} on. {TOTAL} is "
    "without its own threads, which are where row and column are the same. The graphs also have waiting for a cap, a "
    f"hypervisor below and waking up. {_ESTIMATED}",
    _NOT_MEASURED,
    decimals=2,
)


def _caused(at: Scope, *matchers: str) -> str:
    return at("vserver:delay:rate", *matchers, vserver="$vserver")


_of_cpus = partial(Signal, unit=CPUS, absent=_NOT_MEASURED)
BY_REASON = _of_cpus(
    "Waiting by reason",
    lambda at: f"sum by (reason) ({_caused(at)})",
    description=(
        "CPU wait of the chosen virtual servers for: neighbours, self (own threads), cap, host (services, kernel "
        "threads), stolen (by a hypervisor below), wakeup (of an idle CPU), unknown. 1 CPU: one vCPU that always "
        f"waits. {_ESTIMATED}"
    ),
    legend="{{reason}}",
)
WHO = _of_cpus(
    "Who ran meanwhile",
    lambda at: f"""sum by (by) ({_caused(at, 'reason!="self"')})""",
    description=(
        "Waiting of the chosen virtual servers by who ran meanwhile: choose one at the top. In parentheses what is "
        f"nobody: its cap, a hypervisor below (stolen), a CPU that was waking up. {_ESTIMATED}"
    ),
    legend="{{by}}",
)
OWN = _of_cpus(OWN_THREADS, lambda at: f"""sum({_caused(at, 'reason="self"')})""", legend=OWN_THREADS)
_DELAYS = (
    f"sum by (vserver, reason, by) (sum_over_time({on_host('vserver:delay:rate')}[$__range:$__interval])"
    f" and on (vserver) last_over_time({on_host('vserver:app:info', app='$app')}[$__range]))"
)
_of_range = partial(Signal, absent=_NO_TIERS)
WAITED = _of_range("CPU wait", f"topk(50, {_DELAYS} > 0) * $__interval_ms / $__range_ms", CPUS)
WAITED_SHARE = _of_range(
    "Of all waiting", f"topk(50, {_DELAYS} > 0) / on () group_left () sum({_DELAYS})", units.PercentUnit, decimals=0
)
APP_BY_REASON = replace(
    BY_REASON,
    name="Waiting by reason (neighbour)",
    query=f"sum by (reason) ({on_host('app:delay:rate', app='$app')})",
    description=(
        "What the chosen applications waited for. Evidence for neighbour where it is measured: waiting for neighbours "
        f"half as long as it computes; for hypervisor: the same of host. {_ESTIMATED}"
    ),
    absent=_NO_TIERS,
)
APP_FOR = replace(
    WHO,
    name="Waiting for each neighbour (neighbour)",
    query=f"sum by (by) ({on_host('app:delay:rate', app='$app', reason='neighbour')})",
    description=(
        "Waiting of the chosen applications while each neighbour ran. Named is who has a third of it or more, if those "
        f"together have half: of many small ones nobody is named. {_ESTIMATED}"
    ),
    absent=_NO_TIERS,
)


def _share(at: Scope) -> str:
    return at("app:neighbour:ratio", app="$app")


def _of_named(at: Scope) -> str:
    return f"and on (host, platform, app, by) {_share(at)}"


GIVES_BACK = Signal(
    "Would give back at most",
    lambda at: f"{at('app:delay:rate', app='$app', reason='neighbour')} {_of_named(at)}",
    CPUS,
    absent="No application waits for a neighbour that can be named: see the evidence on Applications.",
)
SHARE = Signal("Share", _share, units.PercentUnit, decimals=0)
SINCE = Signal(
    "Named since",
    lambda at: f"1000 * ({at('app:neighbour_since:seconds', app='$app')} {_of_named(at)})",
    units.DateTimeFromNow,
)
