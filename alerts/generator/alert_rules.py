"""The alerts about objectives: Sloth's conditions and the mean's, a gate for low traffic, and the most likely cause."""

from __future__ import annotations

import textwrap

from alerts.generator import words
from alerts.generator.application import Application
from alerts.generator.names import quoted
from alerts.generator.rule_file import Rule
from alerts.generator.sloth import Pair
from alerts.generator.words import Judged


def page(application: Application, judged: Judged, pairs: tuple[Pair, Pair]) -> Rule:
    """The faster pair also covers an application that has just started: what breaks right after a start must page."""
    faster, slower = pairs
    either = f"{faster.expr}\nor\n{_when_watched(slower)}"
    text = words.burning(application.about, judged, words.PAGE)
    return _alert("ObjectiveBurnsFast", application, judged.objective, either, text, severity="critical")


def ticket(application: Application, judged: Judged, pairs: tuple[Pair, Pair]) -> Rule:
    """Tickets, which can wait until their windows are full."""
    either = "\nor\n".join(_when_watched(pair) for pair in pairs)
    text = words.burning(application.about, judged, words.TICKET)
    return _alert("ObjectiveBurnsSlowly", application, judged.objective, either, text, severity="warning")


def over_ceiling(application: Application, ceiling: float) -> Rule:
    """The mean over five minutes, above its ceiling (seconds) for five minutes.

    A warning: the mean has no budget that shows the urgency, and one slow page in a hundred can raise it.
    """
    steps = f'{{{application.selector}, objective="mean"}}'
    above = f"""\
sum_over_time(objective:response_seconds:rate1m{steps}[5m])
/ (sum_over_time(objective:requests:rate1m{steps}[5m]) > 0)
> {ceiling}"""
    text = words.over_ceiling(application.about, ceiling)
    return {
        **_alert("MeanResponseOverCeiling", application, "mean", above, text, severity="warning"),
        "for": "5m",
    }


def _when_watched(pair: Pair) -> str:
    """Sloth's condition, once the application has been monitored for the whole of the pair's short window.

    Before that, both windows cover the same few minutes, and a bad start would stay in them for hours.
    """
    watched = f"present_over_time({pair.long_record}[{pair.long}] offset {pair.short})"
    return f"{pair.expr}\nand on (host, platform, app)\n{watched}"


def cause(application: Application, objective: str) -> Rule:
    """Why an objective is broken, or would be: one cause for each application, "unknown" if none is recorded.

    A separate record, not a label of the alerts, as an alert whose labels change is a new one: its `for` would restart,
    and it would be sent again. Alerts name the cause in an annotation, dashboards join it.

    The causes are those of late answers. An application that fails for lack of CPU is slow first; one that fails
    without being slow is broken in a way that no record explains.
    """
    late = ""
    if objective == "availability" and application.latency:
        burn = f'slo:current_burn_rate:ratio{{{application.selector}, objective="latency"}}'
        late = f"\n  and on (host, platform, app)\n  {burn} > 1"
    return {
        "record": "app:objective_cause:info",
        "expr": f"""\
group by (host, platform, app, cause) (
  topk by (host, platform, app) (1, app:breach_cause:info{{{application.selector}}}){late}
)
or on (host, platform, app)
label_replace(
  group by (host, platform, app) ({_steps(application, objective)}),
  "cause", "unknown", "", ""
)""",
        "labels": {"objective": objective},
    }


def cause_of_page(application: Application) -> Rule:
    """The causes of firing pages, as alerts that are never sent: Alertmanager inhibits tickets by them.

    They come after the page in its group, so that they fire in the same evaluation. A cause persists for ten minutes,
    so that the tickets it inhibits aren't sent while the cause changes.
    """
    return {
        "alert": "ObjectiveCause",
        "expr": f"""\
group by (host, platform, app, cause) (
  last_over_time(app:objective_cause:info{{{application.selector}, cause!="unknown"}}[10m])
  and on (host, platform, app, objective)
  ALERTS{{alertname="ObjectiveBurnsFast", alertstate="firing", {application.selector}}}
)""",
        "labels": {"severity": "none"},
        "annotations": {
            "summary": words.CAUSE_OF_PAGE.summary,
            "description": words.CAUSE_OF_PAGE.description,
            "runbook_url": _runbook("ObjectiveCause"),
        },
    }


def _alert(
    name: str, application: Application, objective: str, condition: str, text: words.Text, *, severity: str
) -> Rule:
    """The alert for a condition, where there is traffic.

    Few requests say little. They are averaged over five minutes even if there are fewer since a start, so that as many
    requests are needed then.
    """
    return {
        "alert": name,
        "expr": f"""\
max by (host, platform, app, objective) (
{textwrap.indent(condition, "  ")}
)
and
sum_over_time({_steps(application, objective)}[5m:15s]) / {5 * 60 // 15} >= {application.low_traffic}""",
        "labels": {"severity": severity, "objective": objective},
        "annotations": {
            "summary": text.summary,
            "description": text.description,
            "cause": words.CAUSE,
            "runbook_url": _runbook(name),
            "dashboard": words.DASHBOARD,
        },
    }


def _steps(application: Application, objective: str) -> str:
    return f"objective:requests:rate1m{{{application.selector}, objective={quoted(objective)}}}"


def _runbook(alert: str) -> str:
    return f"{{{{ $externalURL }}}}/user/runbooks/{alert}.md"
