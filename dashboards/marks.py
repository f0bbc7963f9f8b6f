"""Events that graphs mark with a line: changes on a host, alerts, and steps of the lab."""

from grafana_foundation_sdk.models import dashboard

from dashboards import palette
from dashboards.signals import on_host
from dashboards.variables import DATASOURCE

_OF = '{host="$host"}'
_BEFORE = "offset $__interval"
_CAP = f"vserver:cpu_limit:cpus{_OF}"
_WEIGHT = f"vserver:cpu_weight:shares{_OF}"
_OVERCOMMIT = f"host:vcpu_overcommit:ratio{_OF}"
_ALIVE = f"vserver:cpu_usage:rate{_OF}"
_STARTS = f"vserver:starts:count1h{_OF}"
_CAPACITY = f"host:cpu_capacity:cpus{_OF}"


class Marks(dashboard.AnnotationQuery):
    """A line wherever a query's series is above 0, with text from its labels."""

    def __init__(
        self, name: str, expr: str, *, colour: str, title: str = "{{what}}", text: str = "", step: str = "60s"
    ) -> None:
        super().__init__(name=name, datasource=DATASOURCE, icon_color=colour)
        # The query is in `target`. At the top level, as before Grafana 8, Grafana 13's conversion to the new format
        # would lose it. Its minimum interval is 60 s by default.
        target = {"expr": expr, "interval": step, "refId": "Anno"}
        self.of_prometheus = {"target": target, "titleFormat": title, "textFormat": text}

    def to_json(self) -> dict[str, object]:
        """Grafana's fields, including its own for Prometheus, which the SDK's model lacks."""
        return super().to_json() | self.of_prometheus


def changes() -> Marks:
    """Virtual servers that started or ended; changed caps, weights and vCPUs, while the host was monitored."""
    # One sample for each $__interval, compared with the previous one: changes() would need two samples in that time.
    monitored = f"on (host, platform) ({_CAPACITY} and {_CAPACITY} {_BEFORE})"
    each = " or ".join(
        f'label_replace({happened}, "what", "{what}", "vserver", "(.*)")'
        for what, happened in {
            "$1 started": f"({_ALIVE} unless {_ALIVE} {_BEFORE}) and {monitored}",
            "$1 ended": f"({_ALIVE} {_BEFORE} unless {_ALIVE}) and {monitored}",
            "$1 restarted": f"{_STARTS} > {_STARTS} {_BEFORE}",
            "$1: cap changed": f"{_CAP} != {_CAP} {_BEFORE}",
            "$1: cap set": f"({_CAP} unless {_CAP} {_BEFORE}) and {_ALIVE} {_BEFORE}",
            "$1: cap removed": f"({_CAP} {_BEFORE} unless {_CAP}) and {_ALIVE}",
            "$1: weight changed": f"{_WEIGHT} != {_WEIGHT} {_BEFORE}",
            "vCPUs changed": f"{_OVERCOMMIT} != {_OVERCOMMIT} {_BEFORE}",
        }.items()
    )
    return Marks(
        "Changes",
        _thinned(f"group by (what) ({each})", "Starts, ends and reallocations"),
        colour=palette.BLUE,
    )


def alerts(*, any_hosts: bool = False) -> Marks:
    """Alerts that began to fire, of one host or of any."""
    # Without the platform: only alerts from platform records have that label.
    whose = 'host=~"$hosts"' if any_hosts else 'host="$host"'
    firing = f'ALERTS{{{whose}, alertstate="firing", severity!="none"}}'
    began = f"group by (host, alertname) ({firing}) unless group by (host, alertname) ({firing} {_BEFORE})"
    labels = '"host", "alertname"' if any_hosts else '"alertname"'
    return Marks(
        "Alerts",
        # Offset from the marks of changes: of two marks at the same time, one would hide the other.
        _thinned(f'group by (what) (label_join({began}, "what", " ", {labels}))', "Alerts", later=0.5),
        colour=palette.CRITICAL,
    )


def _thinned(events: str, kind: str, *, later: float = 0) -> str:
    """Each event by name, if few occur in the time range; otherwise their number in each fifth of it.

    later: offset of those lines, as a fraction of a fifth.
    """
    # Their number is one series: it has the label `if` from 21 on, more marks than that would hide a graph's lines.
    moved = f"(vector(time()) - $__range_s * {later / 5:g})" if later else "vector(time())"
    once = f"{moved} % ($__range_s / 5) < $__interval_ms / 1000"
    number = f'count_values("n", sum(sum_over_time(count({events})[$__range:$__interval] @ end())))'
    many = f'label_replace({number}, "many", "{kind}: $1", "n", "(2[1-9]|[3-9].|...+)")'
    return (
        f'group by (what) (label_join(({events} or label_replace({once}, "if", "many", "", "")) * on (if) '
        f'group_left (many) label_replace({many}, "if", "many", "many", ".+"), "what", "", "what", "many"))'
    )


def of_lab() -> Marks:
    """Where the lab changed the number of applications."""
    # Where steps with these labels in common begin. Grafana would mark each sample of a whole step from an hour on.
    # 45 s bridge the warm-up between two steps, which isn't measured. Beyond half a day, marks of a lab that always
    # runs would hide the graph.
    running, before = (
        f"max by (scenario, placement, instances) (last_over_time({on_host('lab_step_info')}[45s]{offset}))"
        for offset in ("", " offset $__interval")
    )
    return Marks(
        "Applications in the lab",
        f"({running} unless {before}) and on () (vector($__range_s) <= 43200)",
        title="{{instances}} applications",
        text="{{placement}}, scenario {{scenario}}",
        colour=palette.VIOLET,
        step="15s",
    )
