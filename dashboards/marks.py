"""Events that graphs mark with a line: what changed on a host, alerts, and the steps of the lab."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.models import dashboard

from dashboards import palette
from dashboards.signals import on_host
from dashboards.variables import DATASOURCE

_CAP = on_host("vserver:cpu_limit:cpus")
_WEIGHT = on_host("vserver:cpu_weight:shares")
_OVERCOMMIT = on_host("host:vcpu_overcommit:ratio")
_ALIVE = on_host("vserver:cpu_usage:rate")
_STARTS = on_host("vserver:starts:count1h")
_CAPACITY = on_host("host:cpu_capacity:cpus")
_STEP = on_host("lab_step_info")

_MANY = 20  # marks, more than a graph's lines can be read behind
_HOUR = 3600


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
    monitored = f"on (host, platform) ({_CAPACITY} and {_CAPACITY} offset $__interval)"
    each = _in_words(
        {
            "$1 started": f"({_ALIVE} unless {_ALIVE} offset $__interval) and {monitored}",
            "$1 ended": f"({_ALIVE} offset $__interval unless {_ALIVE}) and {monitored}",
            "$1 restarted": f"{_STARTS} > {_STARTS} offset $__interval",
            "$1: cap changed": f"{_CAP} != {_CAP} offset $__interval",
            "$1: cap set": f"({_CAP} unless {_CAP} offset $__interval) and {_ALIVE} offset $__interval",
            "$1: cap removed": f"({_CAP} offset $__interval unless {_CAP}) and {_ALIVE}",
            "$1: weight changed": f"{_WEIGHT} != {_WEIGHT} offset $__interval",
            "vCPUs changed": f"{_OVERCOMMIT} != {_OVERCOMMIT} offset $__interval",
        }
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
    began = f"group by (host, alertname) ({firing}) unless group by (host, alertname) ({firing} offset $__interval)"
    named = (
        f'label_join({began}, "what", " ", "host", "alertname")'
        if any_hosts
        else (f'label_replace({began}, "what", "$1", "alertname", "(.*)")')
    )
    return Marks(
        "Alerts",
        # Between the marks of changes: of two at the same time one would hide the other.
        _thinned(f"group by (what) ({named})", "Alerts", later=0.5),
        title="{{what}}",
        text="",
        colour=palette.CRITICAL,
    )


def _in_words(looks: Mapping[str, str]) -> str:
    """Events of several kinds, in words; $1 is the virtual server."""
    return " or ".join(f'label_replace({look}, "what", "{what}", "vserver", "(.*)")' for what, look in looks.items())


def _thinned(events: str, kind: str, *, later: float = 0) -> str:
    """Each event by its name, if the graph shows an hour at most and not too many of them.

    Else their number in each fifth of what is shown, so that there never are more than a few lines.

    later: by which part of a fifth those lines are moved.
    """
    many = f"sum(sum_over_time(count({events})[$__range:$__interval] @ end()))"
    few = f"on () (vector($__range_s) <= {_HOUR} unless on () ({many} > {_MANY}))"
    tenth = "${__range_s}00ms"  # a tenth of so many seconds
    last, before = (
        f"sum_over_time(count({events})[{tenth}:$__interval]{offset})" for offset in ("", f" offset {tenth}")
    )
    number = f"(({last} or vector(0)) + ({before} or vector(0)) > 0)"
    moved = f"(vector(time()) - $__range_s * {later / 5:g})" if later else "vector(time())"
    once = f"on () ({moved} % ($__range_s / 5) < $__interval_ms / 1000)"
    counted = f'label_replace(count_values("n", {number}), "what", "{kind}: $1", "n", "(.*)")'
    return f"({events}) and {few} or (group by (what) ({counted}) and {once}) unless {few}"


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
