"""Tables: a row for each set of labels, a column for each signal, and links from cells."""

from collections.abc import Mapping, Sequence
from math import ceil

from grafana_foundation_sdk.builders import common, table
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as models
from grafana_foundation_sdk.models import dashboard

from dashboards import palette, panels
from dashboards.panels import Properties, properties, transformation
from dashboards.signals import Signal
from dashboards.variables import DATASOURCE

GROUND = models.TableColoredBackgroundCellOptions(mode=models.TableCellBackgroundDisplayMode.BASIC)
_HEADER_PADDING, _SORT_ARROW = 14, 20  # pixels
_NUMBER_WIDTH = 86  # pixels for "12.34 CPUs"
_NAME_WIDTH = 95  # pixels, minimum
_SORTED_BY = 2  # columns
_WORD_WIDTHS = {
    "ID": 60,
    "For": 56,
    "vCPU": 56,
    "Role": 56,
    "Type": 60,
    "PMU": 60,
    "Group": 70,
    "Domain": 70,
    "State": 72,
    "Hard": 74,
    "Soft": 74,
    "Platform": 78,
    "Limit of": 80,
    "Manager": 80,
    "Space": 84,
    "Emulated": 86,
    "Objective": 90,
    "CPU pool": 90,
    "Scheduler": 90,
    "Severity": 98,
    "Accelerator": 98,
    "Cause": 100,
    "Reason": 100,
    "Address": 125,
    "OS": 155,
    "Alert": 210,
    "UUID": 335,
}
"""Column widths in pixels for known words, by header. Columns of names share the remaining width."""


def _header_width(words: str) -> int:
    """Pixels of a header (Inter, 14 px, medium), as if all its letters were as wide as most."""
    return ceil(9.1 * len(words)) + _HEADER_PADDING


def columns(
    title: str,
    description: str,
    labels: Mapping[str, str],
    signals: Sequence[Signal],
    *,
    width: int = 24,
    height: int = 8,
) -> table.Panel:
    """A table with a row for each set of labels, sorted by the first two signals, highest first.

    labels: label names and their column headers; a column for each signal follows.
    """
    letters = [panels.ref_id(number) for number in range(len(signals))]
    fields = [f"Value #{letter}" for letter in letters] if len(signals) > 1 else ["Value"]
    values = dict(zip(fields, signals, strict=True))
    shown = [*labels, *values]
    last = {column: f"{column} (lastNotNull)" for column in values}
    # If several signals have no series, the table would show headers without rows and without the reason. Label columns
    # exist only with rows: grouping by them leaves nothing, otherwise one group per row.
    grouped = {label: {"operation": "groupby", "aggregations": []} for label in labels}
    grouped |= {column: {"operation": "aggregate", "aggregations": ["lastNotNull"]} for column in values}
    panel = (
        table.Panel()
        .title(title)
        .description(description)
        .span(width)
        .height(height)
        .datasource(DATASOURCE)
        .targets([panels.as_table(signal, number) for number, signal in enumerate(signals)])
        .transformations(
            [
                # Before the merge: rows that differ in a hidden label (a record's name) wouldn't merge. Time, the same
                # in all, remains until then: it is the only field that a signal without series shares with the others,
                # and a merge needs one.
                transformation("filterFieldsByName", include={"names": ["Time", *shown]}),
                transformation("merge"),
                transformation("groupBy", fields=grouped),
                transformation(
                    "organize",
                    excludeByName={},
                    indexByName={last.get(name, name): place for place, name in enumerate(shown)},
                    renameByName={**labels, **{last[column]: signal.name for column, signal in values.items()}},
                ),
            ]
        )
        .no_value(signals[0].absent)
        .thresholds(panels.steps([dashboard.Threshold(None, palette.NONE)]))
        .sort_by(descending(*(signal.name for signal in signals[:_SORTED_BY])))
        # The panel's own no-value text is a sentence.
        .override_by_regexp("/.*/", properties(noValue="-"))
    )
    for label in labels.values():
        if known := _WORD_WIDTHS.get(label):
            panel.override_by_name(label, as_wide(known))
        else:
            panel.override_by_name(label, properties(custom_minWidth=max(_NAME_WIDTH, _header_width(label))))
    for number, signal in enumerate(signals):
        header = _header_width(signal.name) + (_SORT_ARROW if number < _SORTED_BY else 0)
        looks = [*properties(unit=signal.unit), *as_wide(max(_NUMBER_WIDTH, header)), *_judged(signal)]
        if signal.digits is not None:
            looks += properties(decimals=signal.digits)
        panel.override_by_name(signal.name, looks)
    return panel


def alerts(title: str, active: Signal, labels: Mapping[str, str]) -> table.Panel:
    """A table of alerts, ten rows visible: critical ones, then warnings, the oldest first."""
    known = {"alertname": "Alert", "severity": "Severity", **labels}
    to_neighbours = to_page("virtscope-neighbours", "Who waits for whom", _HOST)
    to_application = to_page("virtscope-applications", "Application", {**_HOST, "app": "Application"})
    return (
        columns(title, active.description, known, [active], height=12)
        .sort_by([common.TableSortByFieldState().display_name("Severity").desc(False), *descending(active.name)])
        .override_by_name("Severity", on_grounds(palette.SEVERITY))
        .override_by_name("Cause", [*on_grounds(palette.CAUSES), *links(to_neighbours)])
        .override_by_name("Alert", links(RUNBOOK, to_page("virtscope-applications", "Applications of its host", _HOST)))
        .override_by_name("Host", links(to_page("virtscope-host", "Host", _HOST)))
        .override_by_name("Application", links(to_application))
    )


def descending(*names: str) -> list[Builder[models.TableSortByFieldState]]:
    return [common.TableSortByFieldState().display_name(name).desc(True) for name in names]


# Links


def to_page(uid: str, title: str, choose: Mapping[str, str], keep: Sequence[str] = ()) -> dashboard.DashboardLink:
    """A link from a table cell to another dashboard with the same time range and data source.

    choose: variables set by the row, and the column header to read each value from.
    keep: variables passed unchanged.
    """
    chosen = [f'var-{variable}=${{__data.fields["{header}"]:percentencode}}' for variable, header in choose.items()]
    kept = [f"${{{variable}:queryparam}}" for variable in ("datasource", *keep)]
    url = "&".join([f"/d/{uid}?${{__url_time_range}}", *kept, *chosen])
    return dashboard.DashboardLink(title=title, url=url, type_val=None)


def to_virtual_server(title: str, name: str) -> dashboard.DashboardLink:
    """A link to the page Virtual servers for one of the shown host: `name` is Grafana's variable for it."""
    chosen = f"var-hosts=${{host:percentencode}}&var-vserver=${{{name}:percentencode}}"
    url = f"/d/virtscope-virtual-servers?${{__url_time_range}}&${{datasource:queryparam}}&{chosen}"
    return dashboard.DashboardLink(title=title, url=url, type_val=None)


def to_own_words(choose: Mapping[str, str], keep: Sequence[str] = ()) -> list[dashboard.DashboardLink]:
    """Links from a virtual server to the platforms' own pages; the one for its platform is right."""
    named = {"xen": "Domain (Xen)", "kvm": "Guest (KVM)", "openvz": "Container (OpenVZ)"}
    return [to_page(f"virtscope-{platform}", title, choose, keep) for platform, title in named.items()]


_HOST = {"host": "Host"}
RUNBOOK = dashboard.DashboardLink(
    title="Runbook",
    # Prometheus also serves docs/, at the address of its self-scrape.
    url='http://${prometheus}/user/runbooks/${__data.fields["Alert"]}.md',
    type_val=None,
    target_blank=True,
)


# Properties of overrides that change a column's look


def links(*to: dashboard.DashboardLink) -> Properties:
    """Add links; with several, a click opens a menu."""
    return properties(links=list(to))


def on_grounds(colours: Mapping[str, str]) -> Properties:
    """Show each word on a background of its colour."""
    return properties(
        custom_cellOptions=GROUND, mappings=[panels.in_words(((word, word) for word in colours), colours)]
    )


def _judged(signal: Signal) -> Properties:
    """Show values on their severity's background, if they have thresholds."""
    if not signal.is_judged:
        return []
    steps = dashboard.ThresholdsConfig(dashboard.ThresholdsMode.ABSOLUTE, panels.severity_steps(signal))
    return properties(custom_cellOptions=GROUND, thresholds=steps, mappings=[panels.no_value("no data")])


def as_wide(width: int, *, wrapped: bool = False) -> Properties:
    """Width in pixels; `wrapped` text continues on the next line instead of being truncated."""
    return properties(custom_width=width) + (properties(custom_wrapText=True) if wrapped else [])


def as_bar(colour: str, width: int = 110) -> Properties:
    """Show ratios as bars, full at 1; width in pixels."""
    bar = models.TableBarGaugeCellOptions(mode=models.BarGaugeDisplayMode.BASIC)
    return panels.coloured(colour) + properties(custom_cellOptions=bar, custom_width=width, min=0, max=1)
