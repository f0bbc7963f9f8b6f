"""Applications and objectives: do the applications of a host still answer in time, and if not, why?"""

from grafana_foundation_sdk.builders import table, timeseries

from dashboards import marks, palette, panels, tables, variables, waiting
from dashboards.layout import Row, page
from dashboards.signals import application, host, neighbours


def _scores() -> timeseries.Panel:
    panel = panels.lines(application.SCORES).span(12).height(8)
    for cause, colour in palette.CAUSES.items():
        if cause not in ("met", "unknown"):  # neither has evidence
            panel.override_by_regexp(f"/ {cause}$/", panels.coloured(colour))
    return panel


def _delays() -> table.Panel:
    to_neighbour = tables.to_virtual_server("Virtual server", '__data.fields["While this ran"]')
    to_matrix = tables.to_page("virtscope-neighbours", "Who waits for whom", {"vserver": "Waits"}, keep=["host"])
    to_own = tables.to_virtual_server("Virtual server", '__data.fields["Waits"]')
    return (
        tables.columns(
            "What delayed it in the time shown",
            "What delayed its virtual servers over the time shown, in CPUs (cpu, interrupts) or seconds per second, by "
            "reason and by what had them meanwhile. Names lead to the virtual servers and the matrix.",
            {"vserver": "Waits", "resource": "For", "reason": "Reason", "by": "While this ran"},
            [neighbours.WAITED, neighbours.WAITED_SHARE],
            width=14,
        )
        .override_by_name("Waits", tables.links(to_matrix, to_own))
        .override_by_name("Reason", tables.on_grounds(palette.REASONS))
        .override_by_name("While this ran", tables.links(to_neighbour))
    )


PAGE = page(
    uid="virtscope-applications",
    title="Applications and objectives",
    question="My application is slow: since when, and what delays it?",
    answer=(
        "Choose it and the time range. Its response against its objectives, what it waited for in that range, and the "
        "cause of each breach with the evidence for it."
    ),
    variables=[*variables.of_one_application(), variables.prometheus()],
    annotations=[marks.alerts(), marks.changes()],
    refresh="30s",
    rows=[
        Row(
            "",
            *panels.tiles(
                application.MEAN_OF_TARGET, application.MIN_BUDGET_LEFT, application.MAX_BURN, application.MAX_FAILED
            ),
            panels.against(application.CEILING, application.MEAN).title("Mean response").span(12).height(8),
            panels.against(application.LATENCY, application.P99).title("99th percentile").span(12).height(8),
            tables.columns(
                "Objectives in the time shown",
                "Share of answers within the threshold, over the whole time shown. Today's threshold judges the past, "
                "too: as far back as requests were counted.",
                {"app": "Application", "objective": "Objective"},
                [application.MET, application.LAST_OBJECTIVE, application.LAST_WITHIN],
                width=10,
            ),
            _delays(),
            tables.columns(
                "A request in the time shown",
                "CPU time and waits of its virtual servers, divided by the requests that it answered. Parallel waits "
                "may exceed the mean response. Network, locks and backends aren't measured.",
                {"resource": "For", "reason": "Reason", "by": "While this ran"},
                [neighbours.OF_A_REQUEST],
            ).override_by_name("Reason", tables.on_grounds(palette.REASONS)),
            tables.columns(
                "Applications",
                "Each application of this host, the slowest first: response, request rate, errors, CPU cost, and how "
                "many times its load it can take until the host's CPU, an objective or a cap ends it.",
                {"app": "Application"},
                [
                    *(application.MEAN, application.P50, application.P95, application.P99),
                    *(application.REQUESTS, application.FAILED, application.CPU, application.CPU_PER_REQUEST),
                    application.MAX_LOAD,
                ],
                height=7,
            ),
            panels.heat_map(application.BUCKETS).span(8).height(8),
            panels.small(panels.lines(application.P50).title("Median response")),
            panels.small(panels.lines(application.P95).title("95th percentile")),
        ),
        Row(
            "Objectives",
            tables.columns(
                "Objectives",
                "Each objective, the one with the highest burn rate first: burn rates over 5 minutes to 3 "
                "days, error budget left, target and threshold. A mean has no budget.",
                {"app": "Application", "objective": "Objective"},
                [
                    *(application.BURN_5M, application.BURN_1H, *application.LONGER_BURNS),
                    *(application.BUDGET_LEFT, application.OBJECTIVE, application.WITHIN),
                ],
                height=9,
            ),
            panels.small(panels.lines(application.BURN_5M).title("Burn rate over 5 minutes")).height(10),
            panels.small(panels.lines(application.BURN_1H).title("Burn rate over 1 hour")).height(10),
            panels.small(panels.lines(application.BUDGET_LEFT).title("Error budget left").max(1)).height(10),
        ),
        Row(
            "Causes",
            panels.states(application.BREACHES, application.CAUSES, palette.CAUSES).span(24).height(8),
            waiting.named("Named neighbours"),
            tables.columns(
                "Latest breaches",
                "Alerts about objectives in the time shown, pending ones included, the latest on top: a row "
                "for each cause that was the most likely one in that time.",
                {"alertname": "Alert", "app": "Application", "objective": "Objective", "cause": "Cause"},
                [application.LAST_BREACH, application.MISSED_FOR],
                height=12,
            )
            .override_by_name("Alert", tables.links(tables.RUNBOOK))
            .override_by_name("Cause", tables.on_grounds(palette.CAUSES))
            .override_by_name(application.LAST_BREACH.name, tables.as_wide(150)),
            tables.columns(
                "Evidence during breaches",
                "Highest score of each cause while an objective was missed: from 1 on there is evidence for "
                "it. If for several, the order is self, neighbour, load, hypervisor (docs/alerting.md).",
                {"app": "Application", "cause": "Cause"},
                [application.EVIDENCE],
                width=12,
            )
            .override_by_name("Cause", tables.on_grounds(palette.CAUSES))
            .override_by_name(application.EVIDENCE.name, tables.as_bar(palette.GUESTS)),
            _scores(),
        ),
        Row(
            "Evidence for each cause",
            panels.small(panels.lines(application.CAPPED)),
            panels.small(panels.against(application.WAITS_MEDIAN, application.WAITS)),
            panels.small(panels.lines(application.NEIGHBOURS)),
            panels.small(
                panels.against(application.MAX_REQUESTS, application.REQUESTS).title("Request rate and past maximum")
            ),
            panels.over_time(host.OVERHEAD_RATIO).title("Host overhead (hypervisor)").span(8).height(8),
            panels.over_time(host.STEAL).axis_soft_max(0.1).span(8).height(8),
            waiting.by_who(neighbours.APP_FOR).span(8).height(8),
            waiting.by_reason(neighbours.APP_BY_REASON).span(8).height(8),
            panels.lines(neighbours.PER_REQUEST).max_data_points(300).span(8).height(8),
            collapsed=True,
        ),
    ],
)
