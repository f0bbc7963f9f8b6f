"""The rules of one application: its virtual servers, what is judged, Sloth's records of that, and the alerts."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from alerts import sloth, words
from alerts.application import Application
from alerts.names import Names, quoted
from alerts.rule_file import Group, Rule

# What a page needs within seconds. The other windows change slowly, and would have many samples to read: they are made
# once a minute, from one sample a minute, each of a whole minute.
_FAST_WINDOWS = ("5m", "30m", "1h")
_FAST = "{{if or " + " ".join(f'(eq .window "{window}")' for window in _FAST_WINDOWS) + "}}"
_STEP = _FAST + "rate1m{{else}}rate1m_minutely{{end}}"
_FAST_BUDGET = ("slo:error_budget:ratio", "slo:current_burn_rate:ratio")
_SLOW_BUDGET = ("slo:period_burn_rate:ratio", "slo:period_error_budget_remaining:ratio")


@dataclass(frozen=True)
class _Budget:
    """An objective of the form: this share (0..1) of the requests must not be bad; `bad` and `total` are per second."""

    objective: str
    share: float
    bad: str
    total: str
    judged: words.Judged


def groups(application: Application) -> list[Group]:
    """The groups of the application's rule file; raises `FileError` if Sloth can't make its part."""
    fast = [*_virtual_servers(application), *_wanted(application)]
    slow: list[Rule] = []
    for budget in _budgets(application):
        selector = f"{{{application.selector}, objective={quoted(budget.objective)}}}"
        made = sloth.generate(
            application.name,
            budget.objective,
            budget.share,
            f"sum_over_time(objective:bad_requests:{_STEP}{selector}[{{{{.window}}}}])",
            f"sum_over_time(objective:requests:{_STEP}{selector}[{{{{.window}}}}]) > 0",
        )
        fast += [
            _record("objective:requests:rate1m", budget.total, objective=budget.objective),
            _record("objective:bad_requests:rate1m", budget.bad, objective=budget.objective),
            _constant("app:slo_objective:ratio", budget.share, application, budget.objective),
            *(made.sli[window] for window in _FAST_WINDOWS),
            *(made.budget[name] for name in _FAST_BUDGET),
            _page(application, budget, made.page),
        ]
        slow += [
            _record(
                "objective:requests:rate1m_minutely", f"objective:requests:rate1m{selector}", objective=budget.objective
            ),
            _record(
                "objective:bad_requests:rate1m_minutely",
                f"objective:bad_requests:rate1m{selector}",
                objective=budget.objective,
            ),
            *(rule for window, rule in made.sli.items() if window not in _FAST_WINDOWS),
            *(made.budget[name] for name in _SLOW_BUDGET),
            _ticket(application, budget, made.ticket),
        ]
    if application.latency:
        fast.append(_constant("app:slo_threshold:seconds", application.latency.seconds, application, "latency"))
    if application.mean:
        fast += _mean(application, application.mean)
    name = f"objectives of {application.name}"
    return [Group(name, fast), *([Group(f"{name}, long windows", slow, interval="1m")] if slow else [])]


def _virtual_servers(application: Application) -> list[Rule]:
    """Which virtual servers are the application's, by tier."""
    host = [application.host.matcher("host")] if application.host else []
    rules = []
    for tier, servers in application.tiers.items():
        before, app, after = servers.partition("{app}")
        if not app or application.app.single:
            selector = ", ".join([*host, Names(servers.replace("{app}", application.app.text)).matcher("vserver")])
            expr = f"group by (host, platform, vserver, role) (vserver:cpu_usage:rate{{{selector}}})"
            rules.append(_record("vserver:app:info", expr, app=application.app.text, tier=tier))
        else:
            around = [Names(part).regex for part in (before, after)]
            regex = f"{around[0]}(?P<app>{application.app.text}){around[1]}"
            selector = ", ".join([*host, f"vserver=~{quoted(regex)}"])
            expr = f"""\
label_replace(
  group by (host, platform, vserver, role) (vserver:cpu_usage:rate{{{selector}}}),
  "app", "${{app}}", "vserver", {quoted(regex)}
)"""
            rules.append(_record("vserver:app:info", expr, tier=tier))
    return rules


def _wanted(application: Application) -> list[Rule]:
    """An application that is named must have requests at some time; of a pattern's, there may be none for long."""
    if not application.app.single:
        return []
    return [_record("objective:wanted:info", "vector(1)", app=application.app.text)]


def _budgets(application: Application) -> list[_Budget]:
    """Failed requests (5xx) count against availability alone: a fast error is no answer, a slow one no late answer."""
    found = []
    if application.latency:
        threshold = f"{application.latency.seconds:g}"
        answers = f'{application.selector}, tier="web", status!="5xx"'
        total = f"sum by (host, platform, app) (requests:duration_seconds_count:rate1m{{{answers}}})"
        in_time = (
            f'sum by (host, platform, app) (requests:duration_seconds_bucket:rate1m{{{answers}, le="{threshold}"}})'
        )
        bad = f"clamp_min(\n  {total}\n  -\n  {in_time},\n  0\n)"
        judged = words.Judged(
            "answers late", "answers", f"took longer than {threshold} s", _percent(application.latency.share)
        )
        found.append(_Budget("latency", application.latency.share, bad, total, judged))
    if application.availability:
        requests = f'{application.selector}, tier="web"'
        total = f"sum by (host, platform, app) (requests:duration_seconds_count:rate1m{{{requests}}})"
        failed = f'sum by (host, platform, app) (requests:duration_seconds_count:rate1m{{{requests}, status="5xx"}})'
        judged = words.Judged("fails", "requests", "failed (5xx)", _percent(application.availability))
        found.append(_Budget("availability", application.availability, f"{failed}\nor\n0 * {total}", total, judged))
    return found


def _page(application: Application, budget: _Budget, pairs: tuple[sloth.Pair, sloth.Pair]) -> Rule:
    """The faster pair judges a young system too, by what there is: what breaks right after a start must page."""
    faster, slower = pairs
    return _alert(
        "ObjectiveBurnsFast",
        "critical",
        budget.objective,
        _with_cause(application, _judged(application, budget.objective, f"{faster.expr}\nor\n{_when_watched(slower)}")),
        words.burning("ObjectiveBurnsFast", budget.judged, words.PAGE, 1 - budget.share),
    )


def _ticket(application: Application, budget: _Budget, pairs: tuple[sloth.Pair, sloth.Pair]) -> Rule:
    either = "\nor\n".join(_when_watched(pair) for pair in pairs)
    return _alert(
        "ObjectiveBurnsSlowly",
        "warning",
        budget.objective,
        _with_cause(application, _judged(application, budget.objective, either)),
        words.burning("ObjectiveBurnsSlowly", budget.judged, words.TICKET, 1 - budget.share),
    )


def _mean(application: Application, ceiling: float) -> list[Rule]:
    """The mean has no budget: it is judged over five minutes that are above the ceiling for five minutes."""
    answers = f'{application.selector}, tier="web", status!="5xx"'
    steps = f'{{{application.selector}, objective="mean"}}'
    above = f"""\
sum_over_time(objective:response_seconds:rate1m{steps}[5m])
/ (sum_over_time(objective:requests:rate1m{steps}[5m]) > 0)
> {ceiling:g}"""
    return [
        _record(
            "objective:requests:rate1m",
            f"sum by (host, platform, app) (requests:duration_seconds_count:rate1m{{{answers}}})",
            objective="mean",
        ),
        _record(
            "objective:response_seconds:rate1m",
            f"sum by (host, platform, app) (requests:duration_seconds_sum:rate1m{{{answers}}})",
            objective="mean",
        ),
        _constant("app:slo_threshold:seconds", ceiling, application, "mean"),
        _alert(
            "MeanResponseOverCeiling",
            "warning",
            "mean",
            _with_cause(application, _judged(application, "mean", above)),
            words.over_ceiling("MeanResponseOverCeiling", ceiling),
            wait="5m",
        ),
    ]


def _when_watched(pair: sloth.Pair) -> str:
    """Sloth's condition, once the application has been watched for all of the pair's short window.

    Before, both windows hold the same few minutes, and a bad start would stay in them for hours.
    """
    watched = f"present_over_time({pair.long_record}[{pair.long}] offset {pair.short})"
    return f"{pair.expr}\nand on (host, platform, app)\n{watched}"


def _judged(application: Application, objective: str, expr: str) -> str:
    """A condition without Sloth's labels, and only where there is traffic: few requests say little.

    Over the full five minutes, also where there are less of them: so it takes as many requests after a start.
    """
    steps = f"objective:requests:rate1m{{{application.selector}, objective={quoted(objective)}}}"
    return f"""\
max by (host, platform, app, objective) (
{textwrap.indent(expr, "  ")}
)
and
sum_over_time({steps}[5m:15s]) / {5 * 60 // 15} >= {application.low_traffic:g}"""


def _with_cause(application: Application, expr: str) -> str:
    """A condition with the cause as a label: one for each application whatever is recorded, "unknown" if nothing is."""
    return f"""\
(
{textwrap.indent(expr, "  ")}
)
* on (host, platform, app) group_left (cause)
(
  group by (host, platform, app, cause) (
    topk by (host, platform, app) (1, app:breach_cause:info{{{application.selector}}})
  )
  or on (host, platform, app)
  label_replace(
    group by (host, platform, app) (objective:requests:rate1m{{{application.selector}}}),
    "cause", "unknown", "", ""
  )
)"""


def _constant(record: str, value: float, application: Application, objective: str) -> Rule:
    """A number that the file gives, for each application that is judged by it."""
    steps = f"objective:requests:rate1m{{{application.selector}, objective={quoted(objective)}}}"
    return _record(record, f"0 * {steps} + {value:g}", objective=objective)


def _record(record: str, expr: str, **labels: str) -> Rule:
    return {"record": record, "expr": expr, **({"labels": labels} if labels else {})}


def _alert(name: str, severity: str, objective: str, expr: str, annotations: Rule, *, wait: str = "") -> Rule:
    return {
        "alert": name,
        "expr": expr,
        **({"for": wait} if wait else {}),
        "labels": {"severity": severity, "objective": objective},
        "annotations": annotations,
    }


def _percent(share: float) -> str:
    """The rest of a share (0..1), as a person reads it: 0.999 leaves "0.1%"."""
    return f"{(1 - share) * 100:.4g}%"
