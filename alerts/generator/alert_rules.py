"""The alerts about objectives: Sloth's conditions and the mean's, a gate for low traffic, and the most likely cause."""

import textwrap

from alerts.generator import words
from alerts.generator.application import Application
from alerts.generator.rule_file import Rule
from alerts.generator.sloth import Pair
from alerts.generator.words import Burning, Judged


def burns(
    application: Application, judged: Judged, counted: str, pairs: tuple[Pair, Pair], burning: Burning
) -> list[Rule]:
    """Pages or tickets for an error budget. `counted` selects the series of the objective's current threshold.

    The faster pair of pages also covers applications that have just started: failures right after a start must page.
    Other pairs wait until their windows are full.
    """
    faster, slower = (_when_watched(counted, pair) for pair in pairs)
    if burning is words.PAGE:
        faster = pairs[0].expr
    met, either = _met(application, counted, pairs), f"{faster}\nor\n{slower}"
    record = _judged(application, burning.record, judged.objective, condition=either, met=met)
    text = words.burning(application.about, judged, burning)
    return [
        record,
        _alert(application, record, burning.alert, text, burning.severity, keep_firing_for=burning.keep_firing_for),
    ]


def over_ceiling(application: Application, ceiling: float) -> list[Rule]:
    """Warnings for a mean over five minutes that exceeds its ceiling (seconds) for five minutes.

    Only a warning: the mean has no budget to show the urgency, and one slow page in a hundred can raise it.
    """
    steps = application.series(objective="mean")

    def mean(window: str) -> str:
        return f"""\
sum_over_time(objective:response_seconds:rate1m{steps}[{window}])
/ (sum_over_time(objective:requests:rate1m{steps}[{window}]) > 0)
"""

    name = "MeanResponseOverCeiling"
    met = f"{mean('1h')}<= {ceiling}\nand\n{_enough(application, steps, '1h')}"
    # Only firing alerts, not ones pending in `for`.
    fired = f"last_over_time(ALERTS{application.series(alertname=name, alertstate='firing')}[1h])"
    record = _judged(
        application, "objective:over_ceiling:seconds", "mean", condition=f"{mean('5m')}> {ceiling}", met=met, held=fired
    )
    text = words.over_ceiling(application.about, ceiling)
    alert = _alert(application, record, name, text, "warning", keep_firing_for="5m")
    return [record, {**alert, "for": "5m"}]


def _when_watched(counted: str, pair: Pair) -> str:
    """Sloth's condition, once the application has been monitored for the whole of the pair's short window.

    Before that, both windows cover the same few minutes, and a bad start would stay in them for hours.
    """
    watched = f"present_over_time(slo:sli_error:ratio_rate{pair.long}{counted}[{pair.long}] offset {pair.short})"
    return f"{pair.expr}\nand on (host, platform, app)\n{watched}"


def _met(application: Application, counted: str, pairs: tuple[Pair, Pair]) -> str:
    """With little traffic, the objective is met again once the faster pair's long window is below all limits."""
    window, limit = pairs[0].long, pairs[1].limit
    return f"slo:sli_error:ratio_rate{window}{counted} <= {limit}\nand on (host, platform, app)\n" + _enough(
        application, counted, window
    )


def _enough(application: Application, counted: str, window: str) -> str:
    """Whether a window has the requests needed in five minutes; each minutely sample covers a minute."""
    return f"sum_over_time(objective:requests:rate1m_minutely{counted}[{window}]) >= {5 * application.low_traffic:.12g}"


def _judged(application: Application, record: str, objective: str, *, condition: str, met: str, held: str = "") -> Rule:
    """The condition's value with enough traffic, 0 if the objective is met.

    Without enough requests in the last five minutes and the last minute, the last result is kept: an alert neither
    resolves nor flaps for lack of traffic. It ends a day after the application's last sensor is gone;
    ObjectiveWithoutRequests fires by then. The last result may be an hour old, as Prometheus may have been down.
    """
    of = application.series(objective=objective)
    enough = f"objective:requests:rate5m{of} >= {application.low_traffic}"
    return {
        "record": record,
        "expr": f"""\
max by (host, platform, app, objective) (
{textwrap.indent(condition.strip(), "  ")}
)
and
{enough}
or
0 * ({enough} and on (host, platform, app) objective:requests:rate1m{of} >= {application.low_traffic})
or
0 * max by (host, platform, app, objective) (
{textwrap.indent(met, "  ")}
)
or
last_over_time({record}{of}[1h])
and on (host, platform, app)
{f"{held}{chr(10)}and on (host, platform, app){chr(10)}" if held else ""}\
present_over_time(objective:requests:rate1m_minutely{of}[1d])""",
        "labels": {"objective": objective},
    }


def cause(application: Application, objective: str) -> Rule:
    """The cause of a broken objective, one for each application, "unknown" if none is recorded.

    A separate record, not a label of the alerts, as an alert whose labels change is a new one: its `for` would restart,
    and it would be sent again. Alerts name the cause in an annotation, dashboards join it.

    Causes explain late answers. An application that fails for lack of CPU is slow first. A failure without slowness has
    a reason that no record explains.
    """
    late = ""
    if objective == "availability" and application.objectives.latency:
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
  group by (host, platform, app) (objective:requests:rate1m{application.series(objective=objective)}),
  "cause", "unknown", "", ""
)""",
        "labels": {"objective": objective},
    }


def cause_of_page(application: Application) -> Rule:
    """The causes of firing pages, as alerts that are never sent: Alertmanager inhibits tickets by them.

    They follow the page in its group, to fire in the same evaluation. A cause is kept for ten minutes, so that
    inhibited tickets aren't sent while the cause changes.
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
    application: Application, judged: Rule, name: str, text: words.Text, severity: str, *, keep_firing_for: str
) -> Rule:
    """The alert for a broken objective. It keeps firing for a while, to avoid flapping at its limit."""
    return {
        "alert": name,
        "expr": f"{judged['record']}{application.series(**judged['labels'])} > 0",
        "keep_firing_for": keep_firing_for,
        "labels": {"severity": severity, **judged["labels"]},
        "annotations": {
            "summary": text.summary,
            "description": text.description,
            "cause": words.CAUSE,
            "runbook_url": _runbook(name),
            "dashboard": words.DASHBOARD,
        },
    }


def _runbook(alert: str) -> str:
    return f"{{{{ $externalURL }}}}/user/runbooks/{alert}.md"
