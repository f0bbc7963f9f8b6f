"""A dashboard as a whole: common settings, and its rows."""

import re
from collections.abc import Iterator, Sequence

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import text
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from dashboards import panels
from dashboards.signals import origin

TAG = "virtscope"


class Row:
    """Panels from left to right, on Grafana's grid of 24 units.

    title: empty for the first row. collapsed: sends no queries until opened.
    """

    def __init__(self, title: str, *panels: Builder[dashboard.Panel], collapsed: bool = False) -> None:
        self.title, self.panels, self.collapsed = title, panels, collapsed


def page(
    *,
    uid: str,
    title: str,
    question: str,
    answer: str,
    variables: Sequence[Builder[dashboard.VariableModel]],
    rows: Sequence[Row],
    annotations: Sequence[dashboard.AnnotationQuery] = (),
    time: str = "now-1h",
    refresh: str = "10s",
) -> dashboard.Dashboard:
    """Lay out rows under the dashboard's question and a sentence on how it answers.

    annotations: events that graphs mark.
    time: initial start of the time range.
    refresh: refresh interval; each refresh cancels unanswered queries.
    """
    builder = (
        build.Dashboard(title)
        .uid(uid)
        .description(f"{question} {answer}")
        .tags([TAG])
        .readonly()  # generated: edit the sources instead
        .time(time, "now")
        .refresh(refresh)
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .link(_fleet())
        .link(
            build.DashboardLink("Pages")
            .type(dashboard.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(True)
            .keep_time(True)
            .include_vars(True)
        )
        .with_panel(text.Panel().transparent(True).content(f"**{question}** {answer}").span(20).height(2))
    )
    for variable in variables:
        builder.with_variable(variable)
    several = any(variable.build().name == "hosts" for variable in variables)
    builder.with_panel(
        panels.flag(origin.OF_ANY_HOSTS if several else origin.OF_ONE_HOST, origin.WORDS).span(4).height(2)
    )
    for row in rows:
        heading = build.Row(row.title)
        for panel in row.panels if row.collapsed else ():
            heading.with_panel(panel)
        if row.title:
            builder.with_row(heading)
        for panel in () if row.collapsed else row.panels:
            builder.with_panel(panel)
    built = builder.build()
    built.annotations = dashboard.AnnotationContainer(list(annotations))
    # Schema of Grafana 12.4 and 13; the SDK's default is 36. The migrations in between don't affect these pages
    # (Grafana: apps/dashboard/pkg/migration/schemaversion).
    built.schema_version = 42
    _hide_what_changes_nothing(built)
    for number, placed in enumerate(_all_panels(built), start=1):
        placed.id_val = number
    return built


def _fleet() -> build.DashboardLink:
    """A link back to the fleet page. It resets all choices."""
    undone = "&".join(f"var-{name}=$__all" for name in ("platform", "hosts"))
    return (
        build.DashboardLink("Fleet")
        .type(dashboard.DashboardLinkType.LINK)
        .url(f"/d/virtscope-fleet?${{datasource:queryparam}}&{undone}")
        .icon("dashboard")
        .tooltip("All hosts, with no filter")
        .keep_time(True)
    )


def _all_panels(page: dashboard.Dashboard) -> Iterator[dashboard.Panel | dashboard.RowPanel]:
    """Headings and panels, including panels of collapsed rows."""
    for placed in page.panels or []:
        yield placed
        if isinstance(placed, dashboard.RowPanel):
            yield from placed.panels


def _hide_what_changes_nothing(page: dashboard.Dashboard) -> None:
    """Hide variables that no panel uses. They remain defined, as links pass them to other pages."""
    asked = JSONEncoder().encode([page.panels, page.annotations])
    chosen = page.templating.list_val if page.templating is not None else None
    for variable in reversed(chosen or []):  # each may be used by those after it
        if variable.type_val != dashboard.VariableType.DATASOURCE and not re.search(rf"\${variable.name}\b", asked):
            variable.hide = dashboard.VariableHide.HIDE_VARIABLE
        else:
            asked += str(variable.query)
