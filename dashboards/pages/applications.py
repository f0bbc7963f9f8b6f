"""Applications and objectives: do the applications of a host still answer in time, and if not, why?"""

from __future__ import annotations

from grafana_foundation_sdk.builders import table, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards import marks, palette, panels, variables, waiting
from dashboards.layout import Row, page
from dashboards.signals import Signal, application, host, neighbours


def make() -> dashboard.Dashboard:
    """The dashboard of one host's applications: response, objectives, causes."""
    return page(
        uid="virtscope-applications",
        title="Applications and objectives",
        question="Do the applications still answer in time, and if not, why?",
        answer=(
            "Response of each application on this host against its objectives, the burn rate of its error budget, and "
            "the cause of each breach with the evidence for it."
        ),
        own_variables=[variables.prometheus()],
        annotations=[marks.alerts(), marks.changes()],
        refresh="30s",
        rows=[
            Row(
                "",
                [
                    *(
                        panels.number(signal).span(6).height(3)
                        for signal in (
                            application.MEAN_OF_TARGET,
                            application.MIN_BUDGET_LEFT,
                            application.MAX_BURN,
                            application.MAX_FAILED,
                        )
                    ),
                    _against(application.CEILING, "Mean response", application.MEAN).span(12).height(8),
                    _against(application.LATENCY, "99th percentile", application.P99).span(12).height(8),
                    _applications(),
                    panels.heat_map(application.BUCKETS).span(8).height(8),
                    panels.small(panels.lines(application.P50).title("Median response")),
                    panels.small(panels.lines(application.P95).title("95th percentile")),
                ],
            ),
            Row(
                "Objectives",
                [
                    _objectives(),
                    panels.small(panels.lines(application.BURN_5M).title("Burn rate over 5 minutes")).height(10),
                    panels.small(panels.lines(application.BURN_1H).title("Burn rate over 1 hour")).height(10),
                    panels.small(panels.lines(application.BUDGET_LEFT).title("Error budget left").max(1)).height(10),
                ],
            ),
            Row(
                "Causes",
                [
                    panels.states(application.BREACHES, application.CAUSES, palette.CAUSES).span(24).height(8),
                    waiting.named("Named neighbours"),
                    _last_breach(),
                    _evidence(),
                    _scores(),
                ],
            ),
            Row(
                "Evidence for each cause",
                [
                    panels.small(panels.lines(application.CAPPED)),
                    panels.small(_against(application.WAITS_MEDIAN, application.WAITS.name, application.WAITS)),
                    panels.small(panels.lines(application.NEIGHBOURS)),
                    panels.small(
                        _against(application.MOST_REQUESTS, "Request rate and past maximum", application.REQUESTS)
                    ),
                    panels.over_time(host.OVERHEAD_RATIO).title("Host overhead (hypervisor)").span(8).height(8),
                    panels.over_time(host.STEAL).axis_soft_max(0.1).span(8).height(8),
                    waiting.by_who(neighbours.APP_FOR).span(12).height(8),
                    waiting.by_reason(neighbours.APP_BY_REASON).span(12).height(8),
                ],
                collapsed=True,
            ),
        ],
    )


def _against(limit: Signal, title: str, signal: Signal) -> timeseries.Panel:
    """A line for each application, and dashed what it is compared with."""
    return (
        panels.lines(signal)
        .title(title)
        .with_target(panels.query(limit, 1).range())
        .override_by_query("B", panels.as_line(palette.PLAIN))
    )


def _applications() -> table.Panel:
    return (
        panels.columns(
            "Applications",
            "Each application of this host, the slowest first: response, request rate, errors and CPU cost.",
            {"app": "Application"},
            [
                application.MEAN,
                application.P50,
                application.P95,
                application.P99,
                application.REQUESTS,
                application.FAILED,
                application.CPU,
                application.CPU_PER_REQUEST,
            ],
        )
        .span(24)
        .height(7)
    )


def _objectives() -> table.Panel:
    return (
        panels.columns(
            "Objectives",
            "Each objective, the one with the highest burn rate first: burn rates over 5 minutes to 3 days, error "
            "budget left, target and threshold. A mean has no budget.",
            {"app": "Application", "objective": "Objective"},
            [
                application.BURN_5M,
                application.BURN_1H,
                *application.LONGER_BURNS,
                application.BUDGET_LEFT,
                application.OBJECTIVE,
                application.WITHIN,
            ],
        )
        .span(24)
        .height(9)
    )


def _last_breach() -> table.Panel:
    return (
        panels.columns(
            "Latest breaches",
            application.LAST_BREACH.description,
            {"alertname": "Alert", "app": "Application", "objective": "Objective", "cause": "Cause"},
            [application.LAST_BREACH, application.MISSED_FOR],
        )
        .override_by_name("Alert", panels.links(panels.RUNBOOK))
        .override_by_name("Cause", panels.on_grounds(palette.CAUSES))
        .override_by_name(application.LAST_BREACH.name, panels.as_wide(150))
        .span(24)
        .height(12)
    )


def _evidence() -> table.Panel:
    return (
        panels.columns(
            "Evidence during breaches",
            application.EVIDENCE.description,
            {"app": "Application", "cause": "Cause"},
            [application.EVIDENCE],
        )
        .override_by_name("Cause", panels.on_grounds(palette.CAUSES))
        .override_by_name(application.EVIDENCE.name, panels.as_bar(palette.GUESTS))
        .span(12)
        .height(8)
    )


def _scores() -> timeseries.Panel:
    panel = panels.lines(application.SCORES).span(12).height(8)
    for cause, colour in palette.CAUSES.items():
        if cause not in ("met", "unknown"):  # there is no evidence for these
            panel.override_by_regexp(f"/ {cause}$/", panels.coloured(colour))
    return panel
