"""Applications and objectives: do the applications of a host still answer in time, and if not, why?"""

from __future__ import annotations

from grafana_foundation_sdk.builders import table, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards import palette, panels
from dashboards.layout import Row, page
from dashboards.signals import Signal, application, host


def make() -> dashboard.Dashboard:
    """The dashboard of one host's applications: response, objectives, causes."""
    return page(
        uid="virtscope-applications",
        title="Applications and objectives",
        question="Do the applications still answer in time, and if not, why?",
        answer=(
            "Response times of each application on this host against what it has promised, how fast it uses up its "
            "error budget, and the cause of the last breach beside what speaks for it."
        ),
        rows=[
            Row(
                "Response",
                [
                    *(
                        number.span(4).height(3)
                        for number in (
                            panels.number(application.SLOWEST_MEAN),
                            panels.number(application.MEAN_USED_UP),
                            panels.number(application.LEAST_BUDGET_LEFT).thresholds(panels.low_below(0)),
                            panels.number(application.FASTEST_BURN),
                            panels.number(application.ALL_REQUESTS),
                            panels.number(application.MOST_FAILED),
                        )
                    ),
                    _against(application.CEILING, "Mean response", application.MEAN).span(12).height(8),
                    _against(application.LATENCY, "99th percentile", application.P99).span(12).height(8),
                    _applications(),
                    panels.heat_map(application.BUCKETS).span(8).height(8),
                    panels.small(panels.lines(application.P50).title("Median")),
                    panels.small(panels.lines(application.P95).title("95th percentile")),
                ],
            ),
            Row(
                "Objectives",
                [
                    _objectives(),
                    panels.small(panels.lines(application.BURN_5M).title("Burn, by the last 5 minutes")).height(9),
                    panels.small(panels.lines(application.BURN_1H).title("Burn, by the last hour")).height(9),
                    panels.small(panels.lines(application.BUDGET_LEFT).title("Error budget left").max(1)).height(9),
                ],
            ),
            Row(
                "Causes",
                [
                    _last_breach(),
                    _evidence(),
                    panels.states(application.BREACHES, application.CAUSES, palette.CAUSES).span(12).height(8),
                    _scores(),
                ],
            ),
            Row(
                "What the evidence is made of",
                [
                    panels.small(panels.lines(application.CAPPED)),
                    panels.small(_against(application.WAITS_USUALLY, application.WAITS.name, application.WAITS)),
                    panels.small(panels.lines(application.NEIGHBOURS)),
                    panels.small(
                        _against(application.MOST_REQUESTS, "Requests, against the most so far", application.REQUESTS)
                    ),
                    panels.over_time(host.OVERHEAD_RATIO).title("The host's own share").span(8).height(8),
                    panels.over_time(host.STEAL).axis_soft_max(0.1).span(8).height(8),
                ],
            ),
        ],
    )


def _against(limit: Signal, title: str, signal: Signal) -> timeseries.Panel:
    """A line for each application, and dashed what it is held to."""
    return (
        panels.lines(signal)
        .title(title)
        .with_target(panels.query(limit, 1).range())
        .override_by_query("B", panels.as_line(palette.LIMIT))
    )


def _applications() -> table.Panel:
    return (
        panels.columns(
            "Applications now",
            "Each application of this host, the slowest first: how long its answers took, what it was asked, what "
            "failed, and what that cost.",
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
        .height(6)
    )


def _objectives() -> table.Panel:
    return (
        panels.columns(
            "Burn rates and budgets",
            "Each objective, the one that burns fastest first: how many times too fast its error budget was used up in "
            "the last 5 minutes to 3 days, what is left of it, and what was promised. A mean has no budget.",
            {"app": "Application", "objective": "Objective"},
            [
                application.BURN_5M,
                application.BURN_1H,
                application.BURN_6H,
                application.BURN_1D,
                application.BURN_3D,
                application.BUDGET_LEFT,
                application.PROMISED,
                application.WITHIN,
            ],
        )
        .span(24)
        .height(7)
    )


def _last_breach() -> table.Panel:
    return (
        panels.columns(
            "The last breaches",
            application.LAST_BREACH.description,
            {"alertname": "Alert", "app": "Application", "objective": "Objective", "cause": "Cause"},
            [application.LAST_BREACH, application.BROKEN_FOR],
        )
        .override_by_name("Alert", panels.as_wide(200))
        .override_by_name("Objective", panels.as_wide(90))
        .override_by_name("Cause", [*panels.in_colours(palette.CAUSES), *panels.as_wide(100)])
        .override_by_name(application.BROKEN_FOR.name, panels.as_wide(80))
        .override_by_name(application.LAST_BREACH.name, panels.as_wide(140))
        .span(14)
        .height(8)
    )


def _evidence() -> table.Panel:
    return (
        panels.columns(
            "Evidence while they were broken",
            application.EVIDENCE.description,
            {"app": "Application", "cause": "Cause"},
            [application.EVIDENCE],
        )
        .override_by_name(application.EVIDENCE.name, panels.as_bar(palette.GUESTS))
        .span(10)
        .height(8)
    )


def _scores() -> timeseries.Panel:
    panel = panels.lines(application.SCORES).span(12).height(8)
    for cause, colour in palette.CAUSES.items():
        panel.override_by_regexp(f"/ {cause}$/", panels.coloured(colour))
    return panel
