"""Events that graphs mark with a line: what was changed, while the figures show what came of it."""

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


class Marks(dashboard.AnnotationQuery):
    """A line wherever a query's series is above 0, with words made of its labels."""

    def __init__(
        self, name: str, expr: str, *, title: str, text: str, colour: str, step: str = "60s", at_first: bool = True
    ) -> None:
        super().__init__(name=name, datasource=DATASOURCE, enable=at_first, icon_color=colour, expr=expr)
        self._title = title
        self._text = text
        self._step = step  # how often it is looked, 60 s being Grafana's own

    def to_json(self) -> dict[str, object]:
        """Grafana's own fields for Prometheus, which the SDK's model lacks."""
        return {**super().to_json(), "titleFormat": self._title, "textFormat": self._text, "step": self._step}


def reallocations() -> Marks:
    """Caps and weights that were changed, given or taken away, and vCPUs that came or went."""
    # Prometheus is asked once for each $__interval: each answer compares with the one before. changes() would need two
    # samples in that time.
    return _told(
        "Reallocations",
        {
            "Cap of $1 changed": f"{_CAP} != {_CAP} offset $__interval",
            "Cap of $1 given": f"({_CAP} unless {_CAP} offset $__interval) and {_ALIVE} offset $__interval",
            "Cap of $1 taken away": f"({_CAP} offset $__interval unless {_CAP}) and {_ALIVE}",
            "Weight of $1 changed": f"{_WEIGHT} != {_WEIGHT} offset $__interval",
            "vCPUs came or went": f"{_OVERCOMMIT} != {_OVERCOMMIT} offset $__interval",
        },
        palette.PURPLE,
    )


def starts_and_ends() -> Marks:
    """Virtual servers that came, went or were started again, while the host was watched."""
    watched = f"on (host, platform) ({_CAPACITY} and {_CAPACITY} offset $__interval)"
    return _told(
        "Starts and ends",
        {
            "$1 came": f"({_ALIVE} unless {_ALIVE} offset $__interval) and {watched}",
            "$1 went": f"({_ALIVE} offset $__interval unless {_ALIVE}) and {watched}",
            "$1 was started again": f"{_STARTS} > {_STARTS} offset $__interval",
        },
        palette.GREY,
    )


def _told(name: str, looks: Mapping[str, str], colour: str) -> Marks:
    """Marks of several kinds, in words; $1 is the virtual server."""
    told = (f'label_replace({look}, "what", "{what}", "vserver", "(.*)")' for what, look in looks.items())
    return Marks(name, " or ".join(told), title="{{what}}", text="", colour=colour)


def lab_crowds() -> Marks:
    """Where the lab began to run so many applications."""
    return Marks(
        "Applications in the lab",
        _begun("scenario, placement, instances"),
        title="{{instances}} applications",
        text="{{placement}}, scenario {{scenario}}",
        colour=palette.GREY,
        step="15s",
    )


def lab_steps() -> Marks:
    """Where each step of the lab began to be measured, with what was tried; too many for a look at hours."""
    return Marks(
        "Each step of the lab",
        _begun("scenario, placement, instances, clients, repetition"),
        title="{{instances}} applications x {{clients}} clients",
        text="{{placement}}, scenario {{scenario}}",
        colour=palette.GREY,
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
