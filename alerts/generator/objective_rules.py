"""The rules of one application: its virtual servers, the inputs of its objectives, Sloth's records, and the alerts."""

from collections.abc import Iterator
from dataclasses import dataclass

from alerts.generator import alert_rules, sloth, words
from alerts.generator.application import Application
from alerts.generator.names import Names, decimal, quoted
from alerts.generator.rule_file import Group, Rule
from alerts.generator.words import Judged

# The windows that pages need within seconds. The others change slowly, and would have to read many samples: they are
# recorded once a minute, from one sample per minute, each for a whole minute.
_FAST_WINDOWS = ("5m", "30m", "1h")
_FAST = "{{if or " + " ".join(f'(eq .window "{window}")' for window in _FAST_WINDOWS) + "}}"
_STEP = _FAST + "rate1m{{else}}rate1m_minutely{{end}}"
_FAST_BUDGET = ("slo:error_budget:ratio", "slo:current_burn_rate:ratio")
_SLOW_BUDGET = ("slo:period_burn_rate:ratio", "slo:period_error_budget_remaining:ratio")
# Constants for Sloth's own dashboards, which list and draw objectives.
_FOR_SLOTHS_DASHBOARDS = ("slo:objective:ratio", "slo:time_period:days", "sloth_slo_info")

_ANSWERED = 'status!~"1xx|5xx"'  # without WebSockets' 101, whose duration is that of the connection
_FAILED = 'status="5xx"'


@dataclass(frozen=True)
class _Budget:
    """An objective that allows some requests to be bad; `bad` and `total` are PromQL, in requests per second.

    threshold: the limit for bad requests, if it can be edited. It is a label of counted series, so that windows contain
    only requests judged by the current limit.
    """

    judged: Judged
    bad: str
    total: str
    threshold: str = ""


def groups(name: str, application: Application) -> list[Group]:
    """The groups of the application's rule file; raises `SlothError`. name: the file of objectives, such as "shop"."""
    fast = [_mapping(application, tier, servers) for tier, servers in application.tiers.items()]
    slow: list[Rule] = []
    for budget in _budgets(application):
        often, each_minute = _of_budget(name, application, budget)
        fast += often
        slow += each_minute
    objectives = application.objectives
    if objectives.latency:
        fast.append(_constant("app:slo_threshold:seconds", objectives.latency.seconds, application, "latency"))
    if objectives.mean:
        fast += _of_mean(application, objectives.mean.seconds)
        slow.append(_minutely(application, "requests", objective="mean"))
    if objectives.latency or objectives.availability:
        fast.append(alert_rules.cause_of_page(application))
    if application.app.single:  # a pattern may have no instance for a long time
        fast += _judged_at_all(name, application)
    return [
        {"name": f"objectives of {name}", "rules": fast},
        {"name": f"objectives of {name}, long windows", "interval": "1m", "rules": slow},
    ]


def _mapping(application: Application, tier: str, servers: str) -> Rule:
    """The application and tier of virtual servers. Of several applications, their names have `{app}`."""
    app, host = application.app, [application.host.matcher("host")] if application.host else []
    # The parts before and after {app} may be regular expressions.
    plain = Names(servers.replace("{app}", "")).single
    before, _, after = (Names(part).regex if plain else part for part in servers.partition("{app}"))
    if app.single:
        vserver = Names(servers.replace("{app}", app.text if plain else app.regex)).matcher("vserver")
        expr, labels = _running(*host, vserver), {"app": app.text, "tier": tier}
    else:
        regex = quoted(f"{before}(?P<app>{app.text}){after}")
        expr = f'label_replace(\n  {_running(*host, f"vserver=~{regex}")},\n  "app", "${{app}}", "vserver", {regex}\n)'
        labels = {"tier": tier}
    return {"record": "vserver:app:info", "expr": expr, "labels": labels}


def _running(*matchers: str) -> str:
    return f"group by (host, platform, vserver, role) (vserver:cpu_usage:rate{{{', '.join(matchers)}}})"


def _budgets(application: Application) -> Iterator[_Budget]:
    """Failed requests (5xx) count only against availability, whether fast or slow."""
    if latency := application.objectives.latency:
        seconds, share = latency.seconds, latency.share
        total = _per_second(application, "count", _ANSWERED)
        in_time = _per_second(application, "bucket", _ANSWERED, f'le="{decimal(seconds)}"')
        judged = Judged("latency", share, "answers late", "answers", f"took longer than {decimal(seconds)} s")
        yield _Budget(judged, f"clamp_min(\n  {total}\n  -\n  {in_time},\n  0\n)", total, threshold=decimal(seconds))
    if availability := application.objectives.availability:
        total = _per_second(application, "count")
        judged = Judged("availability", availability.share, "fails", "requests", "failed (5xx)")
        yield _Budget(judged, f"{_per_second(application, 'count', _FAILED)}\nor\n0 * {total}", total)


def _of_budget(name: str, application: Application, budget: _Budget) -> tuple[list[Rule], list[Rule]]:
    """The rules for the default interval, and the rules for one evaluation per minute."""
    objective = budget.judged.objective
    labels = {"objective": objective, **({"threshold": budget.threshold} if budget.threshold else {})}
    counted = application.series(**labels)
    made = sloth.generate(
        name,
        labels,
        budget.judged.share,
        bad=f"sum_over_time(objective:bad_requests:{_STEP}{counted}[{{{{.window}}}}])",
        total=f"sum_over_time(objective:requests:{_STEP}{counted}[{{{{.window}}}}]) > 0",
    )
    return [
        _record("objective:requests:rate1m", budget.total, **labels),
        _record("objective:bad_requests:rate1m", budget.bad, **labels),
        _over_five_minutes(application, **labels),
        _constant("app:slo_objective:ratio", budget.judged.share, application, objective),
        *(made.sli[window] for window in _FAST_WINDOWS),
        *(made.budget[name] for name in _FAST_BUDGET),
        alert_rules.cause(application, objective),
        *alert_rules.burns(application, budget.judged, counted, made.page, words.PAGE),
    ], [
        *(_minutely(application, what, **labels) for what in ("requests", "bad_requests")),
        *(rule for window, rule in made.sli.items() if window not in _FAST_WINDOWS),
        *(made.budget[name] for name in (*_SLOW_BUDGET, *_FOR_SLOTHS_DASHBOARDS)),
        *alert_rules.burns(application, budget.judged, counted, made.ticket, words.TICKET),
    ]


def _of_mean(application: Application, ceiling: float) -> list[Rule]:
    return [
        _record("objective:requests:rate1m", _per_second(application, "count", _ANSWERED), objective="mean"),
        _record("objective:response_seconds:rate1m", _per_second(application, "sum", _ANSWERED), objective="mean"),
        _over_five_minutes(application, objective="mean"),
        _constant("app:slo_threshold:seconds", ceiling, application, "mean"),
        alert_rules.cause(application, "mean"),
        *alert_rules.over_ceiling(application, ceiling),
    ]


def _judged_at_all(name: str, application: Application) -> list[Rule]:
    """Records for the alert ObjectiveWithoutRequests: the file, and its requests."""
    file = f"{name}.yml"
    host = {"host": application.host.text} if application.host else {}
    judged = f"group by (host, platform, app) (objective:requests:rate1m{application.series()})"
    return [
        _record("objective:wanted:info", "vector(1)", app=application.app.text, file=file, **host),
        _record("objective:judged:info", judged, file=file),
    ]


def _over_five_minutes(application: Application, **labels: str) -> Rule:
    """The average over five minutes, even right after a start, which then needs as many requests."""
    steps = f"objective:requests:rate1m{application.series(**labels)}[5m:15s]"
    expr = f"sum by (host, platform, app) (sum_over_time({steps})) / {5 * 60 // 15}"
    return _record("objective:requests:rate5m", expr, objective=labels["objective"])


def _minutely(application: Application, what: str, **labels: str) -> Rule:
    """One sample per minute, each for a whole minute."""
    return _record(
        f"objective:{what}:rate1m_minutely", f"objective:{what}:rate1m{application.series(**labels)}", **labels
    )


def _per_second(application: Application, series: str, *matchers: str) -> str:
    """The rate of a histogram's `series` (bucket, sum or count), for the matching requests to the web tier."""
    selector = ", ".join([application.selector, 'tier="web"', *matchers])
    return f"sum by (host, platform, app) (requests:duration_seconds_{series}:rate1m{{{selector}}})"


def _constant(record: str, value: float, application: Application, objective: str) -> Rule:
    """A number from the file, for each of its applications."""
    steps = f"objective:requests:rate5m{application.series(objective=objective)}"
    return _record(record, f"0 * {steps} + {value}", objective=objective)


def _record(record: str, expr: str, **labels: str) -> Rule:
    return {"record": record, "expr": expr, "labels": labels}
