"""Events that graphs mark with a line: what was changed, while the figures show what came of it."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from dashboards import palette
from dashboards.signals import on_host
from dashboards.variables import DATASOURCE

_CAP = on_host("vserver:cpu_limit:cpus")
_OVERCOMMIT = on_host("host:vcpu_overcommit:ratio")
_ALIVE = on_host("vserver:cpu_usage:rate")


class Marks(dashboard.AnnotationQuery):
    """A line wherever a query's series is above 0, with words made of its labels."""

    def __init__(self, name: str, expr: str, *, title: str, text: str, colour: str, step: str = "60s") -> None:
        super().__init__(name=name, datasource=DATASOURCE, enable=True, icon_color=colour, expr=expr)
        self._title = title
        self._text = text
        self._step = step  # how often it is looked, 60 s being Grafana's own

    def to_json(self) -> dict[str, object]:
        """Grafana's own fields for Prometheus, which the SDK's model lacks."""
        return {**super().to_json(), "titleFormat": self._title, "textFormat": self._text, "step": self._step}


def reallocations() -> Marks:
    """Caps that were changed, given or taken away, and vCPUs that came or went."""
    # Prometheus is asked once for each $__interval, so that each answer covers the time since the one before.
    looks = {
        "Cap changed": f"changes({_CAP}[$__interval]) > 0",
        "Cap given": f"({_CAP} unless {_CAP} offset $__interval) and {_ALIVE} offset $__interval",
        "Cap taken away": f"({_CAP} offset $__interval unless {_CAP}) and {_ALIVE}",
        "vCPUs changed": f"changes({_OVERCOMMIT}[$__interval]) > 0",
    }
    told = (f'label_replace({look}, "what", "{what}", "", "")' for what, look in looks.items())
    return Marks("Reallocations", " or ".join(told), title="{{what}}", text="{{vserver}}", colour=palette.PURPLE)


def lab_steps() -> Marks:
    """From when to when each step of the lab was measured, with what was tried."""
    return Marks(
        "Steps of the lab",
        on_host("lab_step_info"),
        title="{{instances}} applications x {{clients}} clients",
        text="{{placement}}, scenario {{scenario}}",
        colour=palette.GREY,
        step="15s",
    )
