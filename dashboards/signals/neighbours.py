"""Who waits for whom: by what had the CPU or disk meanwhile, and the neighbours named for an application."""

from dataclasses import replace
from functools import partial

from grafana_foundation_sdk.models import units

from dashboards.signals import DELAY, Scope, Signal, on_host

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


_STEPS = "[$__range:$__interval]"
_MEAN = "* $__interval_ms/$__range_ms"  # of a sum over _STEPS: what is absent at a step counts as 0


def _waited(reasons: str) -> str:
    return f'sum_over_time(vserver:delay:rate{{host="$host",resource="$for",reason=~"{reasons}"}}{_STEPS})'


_FOR_OTHERS = _waited("neighbour|host")
_OF_VICTIMS = f"and on (vserver) topk({ROWS}, sum by (vserver) ({_FOR_OTHERS}))"
_OFFENDERS = f"topk({COLUMNS}, sum by (by) ({_FOR_OTHERS}))"
_WITH_BOTH = f'label_join({_waited("neighbour|host|self")} and on (by) {_OFFENDERS}, "{COLUMN}", ";", "reason", "by")'
# Headers are narrow: the host's units are named without their slices.
_WITH_COLUMN = f'label_replace({_WITH_BOTH}, "{COLUMN}", "$1$2", "{COLUMN}", "host;(?:.*/)?(.+)|[a-z]+;(.+)")'
_OF_ALL = f'label_replace({_waited("neighbour|host|unknown")}, "{COLUMN}", "{TOTAL}", "", "")'


def _cells(waited: str) -> str:
    return f"sum by (vserver, {COLUMN}) ({waited} {_OF_VICTIMS}) {_MEAN} >= {_MIN_SHOWN}"


MATRIX = Signal(
    "Who waits for whom on the host",
    f"sort_desc({_cells(_WITH_COLUMN)})",
    units.NoUnit,
    "CPUs that the virtual server of the row waited for while that of the column ran on them; if you choose another "
    "resource at the top, seconds per second that the column's delayed it there: means over the time "
    f"shown, in which absence counts as 0; the {ROWS} that wait most, the {COLUMNS} they wait for most, cells from "
    f"{_MIN_SHOWN} on. {TOTAL} is without its own threads, which are where row and column are the same. The graphs "
    f"also have waiting for a cap, a hypervisor below and waking up. {_ESTIMATED}",
    _NOT_MEASURED,
    decimals=2,
)
TOTALS = Signal("Total of each row", _cells(_OF_ALL), units.NoUnit, decimals=2)


def _caused(at: Scope, *matchers: str) -> str:
    return at("vserver:delay:rate", *matchers, resource="$for", vserver="$vserver")


_of_delays = partial(Signal, unit=DELAY, absent=_NOT_MEASURED)
BY_REASON = _of_delays(
    "Waiting by reason",
    lambda at: f"sum by (reason) ({_caused(at)})",
    description=(
        "What the chosen virtual servers waited for: neighbours, self (own threads or requests), cap, host (services, "
        "kernel threads), stolen (by a hypervisor below), wakeup (of an idle CPU), device (the disk's own time), "
        f"throttled (delayed by the kernel), unknown. 1: one vCPU or disk request that always waits. {_ESTIMATED}"
    ),
    legend="{{reason}}",
)
WHO = _of_delays(
    "Who ran meanwhile",
    lambda at: f"""sum by (by) ({_caused(at, 'reason!="self"')})""",
    description=(
        "Waiting of the chosen virtual servers by who ran meanwhile: choose one at the top. In parentheses what is "
        f"nobody: its cap, a hypervisor below (stolen), a CPU that was waking up. {_ESTIMATED}"
    ),
    legend="{{by}}",
)
OWN = _of_delays(OWN_THREADS, lambda at: f"""sum({_caused(at, 'reason="self"')})""", legend=OWN_THREADS)
_DELAYS = (
    f"sum by (vserver, resource, reason, by) (sum_over_time({on_host('vserver:delay:rate')}{_STEPS})"
    f" and on (vserver) last_over_time({on_host('vserver:app:info', app='$app')}[$__range]))"
)
_of_range = partial(Signal, absent=_NO_TIERS)
WAITED = _of_range("Wait", f"topk(50, {_DELAYS} > 0) {_MEAN}", DELAY, decimals=2)
WAITED_SHARE = _of_range(
    "Of all for it",
    f"topk(50, {_DELAYS} > 0) / on (resource) group_left () sum by (resource) ({_DELAYS})",
    units.PercentUnit,
    decimals=0,
)
OWN_WORK = "own work"
_OF_APP = f"sum by (resource, reason, by) (sum_over_time({on_host('app:delay:rate', app='$app')}{_STEPS}))"
_WORKED = f"sum(sum_over_time({on_host('app:cpu_usage:rate', app='$app')}{_STEPS}))"
_ANSWERED = f"(sum(sum_over_time({on_host('app:requests:rate', app='$app', tier='web')}{_STEPS})) > 0)"
OF_A_REQUEST = _of_range(
    "Time",
    f"""topk(20, ({_OF_APP} or label_replace({_WORKED}, "reason", "{OWN_WORK}", "", "")) / on () group_left () """
    f"{_ANSWERED} > 0.00005)",
    units.Seconds,
)
APP_BY_REASON = replace(
    BY_REASON,
    name="Waiting by reason (neighbour)",
    query=f"sum by (reason) ({on_host('app:delay:rate', app='$app', resource='cpu')})",
    description=(
        "What the chosen applications waited for. Evidence for neighbour where it is measured: waiting for neighbours "
        f"half as long as it computes; for hypervisor: the same of host. {_ESTIMATED}"
    ),
    absent=_NO_TIERS,
)
APP_FOR = replace(
    WHO,
    name="Waiting for each neighbour (neighbour)",
    query=f"sum by (resource, by) ({on_host('app:delay:rate', app='$app', reason='neighbour')})",
    description=(
        "Delays of the chosen applications by neighbour and resource. Named is who has a third of it or more, if those "
        f"together have half: of many small ones nobody is named. {_ESTIMATED}"
    ),
    absent=_NO_TIERS,
    legend="{{by}} ({{resource}})",
)


PER_REQUEST = Signal(
    "Waiting per request",
    f"sum by (resource, reason) ({on_host('app:delay_per_request:seconds', app='$app')})",
    units.Seconds,
    "What delayed the virtual servers of the chosen applications, divided by the requests that they "
    f"answered. {_ESTIMATED}",
    _NO_TIERS,
    legend="{{resource}} {{reason}}",
)


def _waited_for(at: Scope) -> str:
    return at("app:delay:rate", app="$app", reason="neighbour")


def _named(at: Scope) -> str:
    return at("app:neighbour:ratio", app="$app")


def _waited_while_named(at: Scope) -> str:
    while_named = f"({_waited_for(at)} and on (host, platform, app, resource, by) {_named(at)})"
    return f"sum by (app, resource, by) (sum_over_time({while_named}{_STEPS}))"


GIVES_BACK = Signal(
    "Would give back at most",
    lambda at: f"{_waited_while_named(at)} {_MEAN}",
    DELAY,
    absent="No application waited for a neighbour that can be named: see the evidence on Applications.",
    decimals=2,
)
SHARE = Signal(
    "Share",
    lambda at: (
        f"{_waited_while_named(at)} / on (app, resource) group_left () "
        f"sum by (app, resource) (sum_over_time({_waited_for(at)}{_STEPS}))"
    ),
    units.PercentUnit,
    decimals=0,
)
NAMED_FOR = Signal(
    "Named for",
    lambda at: f"sum by (app, resource, by) (count_over_time({_named(at)}{_STEPS})) * $__interval_ms / 1000",
    units.Seconds,
    decimals=1,
)
SINCE = Signal(
    "Last named since",
    lambda at: (
        f"1000 * max by (app, resource, by) (max_over_time({at('app:neighbour_since:seconds', app='$app')}[$__range]))"
    ),
    units.DateTimeFromNow,
)
