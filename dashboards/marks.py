"""Events that graphs mark with a line: what changed on a host, alerts, and the steps of the lab."""

from __future__ import annotations

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
_STEP = on_host("lab_step_info")

_MANY = 20  # marks, more than a graph's lines can be read behind


class Marks(dashboard.AnnotationQuery):
    """A line wherever a query's series is above 0, with words made of its labels."""

    def __init__(
        self, name: str, expr: str, *, title: str, text: str, colour: str, step: str = "60s", at_first: bool = True
    ) -> None:
        super().__init__(name=name, datasource=DATASOURCE, enable=at_first, icon_color=colour)
        self._expr = expr
        self._title = title
        self._text = text
        self._step = step  # how often it is looked at least, 60 s being Grafana's own

    def to_json(self) -> dict[str, object]:
        """Grafana's own fields for Prometheus, which the SDK's model lacks.

        The query is in `target`. Beside the name, where it was before Grafana 8, it would be lost when Grafana 13
        converts the page to its new format.
        """
        target = {"expr": self._expr, "interval": self._step, "refId": "Anno"}
        return {**super().to_json(), "target": target, "titleFormat": self._title, "textFormat": self._text}


def changes() -> Marks:
    """Virtual servers that started or ended; caps, weights and vCPUs that changed, while the host was monitored."""
    # Prometheus is asked once for each $__interval: each answer compares with the one before. The function changes()
    # would need two samples in that time.
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
        title="{{what}}",
        text="",
        colour=palette.BLUE,
    )


def alerts(*, any_hosts: bool = False) -> Marks:
    """Alerts that began to fire, of the host or of any."""
    # Without the platform, which alerts have only where their records do.
    whose = 'host=~"$hosts"' if any_hosts else 'host="$host"'
    firing = f'ALERTS{{{whose}, alertstate="firing", severity!="none"}}'
    began = f"group by (host, alertname) ({firing}) unless group by (host, alertname) ({firing} {_BEFORE})"
    labels = '"host", "alertname"' if any_hosts else '"alertname"'
    return Marks(
        "Alerts",
        # Between the marks of changes: of two at the same time one would hide the other.
        _thinned(f'group by (what) (label_join({began}, "what", " ", {labels}))', "Alerts", later=0.5),
        title="{{what}}",
        text="",
        colour=palette.CRITICAL,
    )


def _thinned(events: str, kind: str, *, later: float = 0) -> str:
    """Each event by its name, if there are not too many in the time shown; else how many, at each fifth of it.

    later: by which part of a fifth those lines are moved.
    """
    number = f"sum(sum_over_time(count({events})[$__range:$__interval] @ end()))"
    moved = f"(vector(time()) - $__range_s * {later / 5:g})" if later else "vector(time())"
    once = f"on () ({moved} % ($__range_s / 5) < $__interval_ms / 1000)"
    counted = f'label_replace(count_values("n", {number} > {_MANY}), "what", "{kind}: $1", "n", "(.*)")'
    return f"({events}) and on () ({number} <= {_MANY}) or group by (what) ({counted}) and {once}"


def lab_crowds() -> Marks:
    """Where the lab began to run so many applications."""
    return Marks(
        "Applications in the lab",
        _begun("scenario, placement, instances"),
        title="{{instances}} applications",
        text="{{placement}}, scenario {{scenario}}",
        colour=palette.VIOLET,
        step="15s",
    )


def lab_steps() -> Marks:
    """Where each step of the lab began to be measured, with what was tried; too many for a look at hours."""
    return Marks(
        "Each step of the lab",
        _begun("scenario, placement, instances, clients, repetition"),
        title="{{instances}} applications x {{clients}} clients",
        text="{{placement}}, scenario {{scenario}}",
        colour=palette.VIOLET,
        step="15s",
        at_first=False,
    )


def _begun(labels: str) -> str:
    """Where steps that have these labels in common begin. Of whole steps Grafana marks each sample, from an hour on."""
    # 45 s bridge the warm-up between two steps, when none is measured. In more than half a day the lines of a lab that
    # always runs would hide what they mark.
    running, before = (
        f"max by ({labels}) (last_over_time({_STEP}[45s]{offset}))" for offset in ("", " offset $__interval")
    )
    return f"({running} unless {before}) and on () (vector($__range_s) <= 43200)"
