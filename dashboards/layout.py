"""A dashboard as a whole: what all of ours have in common, and the rows it is laid out in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from dashboards import panels, variables
from dashboards.signals import origin

TAG = "virtscope"


@dataclass(frozen=True)
class Row:
    """Panels under one heading, from left to right; Grafana's grid is 24 wide."""

    title: str
    panels: Sequence[Builder[dashboard.Panel]]


def page(
    uid: str,
    title: str,
    question: str,
    answer: str,
    rows: Sequence[Row],
    *,
    any_hosts: bool = False,
    own_variables: Sequence[Builder[dashboard.VariableModel]] = (),
    annotations: Sequence[dashboard.AnnotationQuery] = (),
) -> dashboard.Dashboard:
    """Lay rows out under the question that the dashboard is for and a sentence on how it answers.

    any_hosts: it shows any set of hosts (`$hosts`) beside each other, instead of one (`$host`).
    own_variables: follow those that every dashboard has.
    annotations: events that its graphs mark.
    """
    builder = (
        build.Dashboard(title)
        .uid(uid)
        .description(f"{question} {answer}")
        .tags([TAG])
        .readonly()  # generated: a change belongs into the sources
        .time("now-1h", "now")
        .refresh("10s")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .link(
            build.DashboardLink("Pages")
            .type(dashboard.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(True)
            .keep_time(True)
            .include_vars(True)
        )
        .with_panel(panels.note(f"**{question}** {answer}").span(20).height(2))
        .with_panel(
            panels.either(origin.OF_ANY_HOSTS if any_hosts else origin.OF_ONE_HOST, origin.WORDS).span(4).height(2)
        )
    )
    for variable in [*(variables.of_any_hosts() if any_hosts else variables.of_one_host()), *own_variables]:
        builder.with_variable(variable)
    for row in rows:
        builder.with_row(build.Row(row.title))
        for panel in row.panels:
            builder.with_panel(panel)
    built = builder.build()
    built.annotations = dashboard.AnnotationContainer(list(annotations))
    _hide_what_changes_nothing(built)
    for number, placed in enumerate(built.panels or [], start=1):
        placed.id_val = number
        # The SDK's default direction would make Grafana's newer front end ("scenes") give each panel the full width,
        # whether it repeats or not.
        if isinstance(placed, dashboard.Panel) and placed.repeat is None:
            placed.repeat_direction = None
    return built


def _hide_what_changes_nothing(page: dashboard.Dashboard) -> None:
    """Hide the variables that no panel asks by. They stay, as links hand them on to pages that do."""
    asked = JSONEncoder().encode([page.panels, page.annotations])
    chosen = page.templating.list_val if page.templating is not None else None
    for variable in reversed(chosen or []):  # each is asked for by those after it
        if variable.type_val != dashboard.VariableType.DATASOURCE and not re.search(rf"\${variable.name}\b", asked):
            variable.hide = dashboard.VariableHide.HIDE_VARIABLE
        else:
            asked += str(variable.query)
