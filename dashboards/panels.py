"""How a signal looks: one number, over time, or as columns of a table. Style is decided here, for every dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from types import MappingProxyType
from typing import TypeVar

from grafana_foundation_sdk.builders import (
    common,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    text,
    timeseries,
    trend,
)
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard, units
from grafana_foundation_sdk.models.common import (
    AxisPlacement,
    BarGaugeDisplayMode,
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TableBarGaugeCellOptions,
    TableCellBackgroundDisplayMode,
    TableColoredBackgroundCellOptions,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards import palette
from dashboards.signals import SEVERITY_POINTS, Signal, highest
from dashboards.variables import DATASOURCE

_PanelT = TypeVar("_PanelT", heatmap.Panel, statetimeline.Panel, table.Panel, timeseries.Panel, trend.Panel)
_GROUND = TableColoredBackgroundCellOptions(mode=TableCellBackgroundDisplayMode.BASIC)
_HEADER_PADDING, _SORT_ARROW = 14, 20  # pixels
_NUMBER_WIDTH = 86  # pixels: "12.34 CPUs"
_SORTED_BY = 2  # columns
_CELL_WIDTH, _OF_ROWS_WIDTH = 84, 240  # of a matrix: pixels of a cell, and of a row's name
_DARKEST = 0.5  # the value from which on a cell of a matrix is as dark as can be
_MANY_TICKS = 12  # for an axis to have others between them
_RATE_STEP = "15s"  # at least: $__rate_interval is four of them, the minute that the rules' rates are taken over
WORD_WIDTHS = {
    "Alert": 210,
    "Platform": 78,
    "Role": 56,
    "Severity": 98,
    "State": 72,
    "Cause": 100,
    "Objective": 90,
    "Reason": 100,
    "Group": 70,
    "PMU": 60,
    "Space": 84,
    "Domain": 70,
    "Address": 125,
    "ID": 50,
    "vCPU": 56,
    "Type": 60,
    "OS": 155,
    "CPU pool": 90,
    "UUID": 335,
    "Hard": 74,
    "Soft": 74,
    "Scheduler": 90,
    "Limit of": 80,
    "Manager": 80,
    "Accelerator": 98,
}
"""Pixels that a column takes of words which are known, by its header. Columns of names share what is left."""

NAME_WIDTH = 95  # at least

_LETTERS = {
    **dict.fromkeys(" .,:ijlI", 4.1),
    **dict.fromkeys("()/r", 5.1),
    **dict.fromkeys("t1", 6.1),
    **dict.fromkeys("f-", 7.1),
    **dict.fromkeys("ckvsxyzEFL5", 8.1),
    **dict.fromkeys("ACDHTUVXY4", 10.1),
    **dict.fromkeys("GNOQ", 11.1),
    **dict.fromkeys("mw", 12.1),
    **dict.fromkeys("MW%", 14.1),
}
"""Pixels that a letter of a title takes (Inter, 14 px, medium), as a browser measures it; all others take 9.1."""


def title_width(words: str) -> int:
    """Pixels that words take as the title of a panel or as the header of a column."""
    return ceil(sum(_LETTERS.get(letter, 9.1) for letter in words))


def note(markdown: str) -> text.Panel:
    """A few words on the page itself, without frame or title."""
    return text.Panel().transparent(True).content(markdown)


def number(signal: Signal) -> stat.Panel:
    """The signal now, as one big number on the ground of its severity, or on none if it has no thresholds."""
    panel = (
        stat.Panel()
        .title(signal.name)
        .description(f"{signal.description}\n\nNo value: {signal.absent}")
        .datasource(DATASOURCE)
        .with_target(query(signal).instant())
        .unit(signal.unit)
        .thresholds(_steps(_severity_steps(signal)))
        .mappings([_no_value(signal.gap)])
        .no_value(signal.gap)
        .color_mode(BigValueColorMode.BACKGROUND_SOLID)
        .graph_mode(BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )
    return panel if signal.decimals is None else panel.decimals(signal.decimals)


def tiles(*signals: Signal) -> list[stat.Panel]:
    """Numbers of equal width in one line."""
    return [number(signal).span(24 // len(signals)).height(3) for signal in signals]


def flag(signal: Signal, words: Sequence[str]) -> stat.Panel:
    """One of these words: the first where the signal is 0, the next, which stands out, where it is 1, and so on."""
    shown = {
        str(value): dashboard.ValueMappingResult(text=word, color=palette.PLAIN if value else palette.NONE)
        for value, word in enumerate(words)
    }
    return (
        number(signal)
        .title("")
        .mappings([dashboard.ValueMap(shown), _no_value(signal.gap)])
        .transparent(True)
        .text_mode(BigValueTextMode.VALUE)
        .text(common.VizTextDisplayOptions().value_size(20))
    )


def board(signal: Signal) -> stat.Panel:
    """A row for each series: what it is about, and its severity in a word, to be read from afar."""
    return (
        number(signal)
        .mappings([*_severity_words(), _no_value(signal.gap)])
        .text_mode(BigValueTextMode.VALUE_AND_NAME)
        .orientation(VizOrientation.HORIZONTAL)
        .text(common.VizTextDisplayOptions().title_size(22).value_size(28))
    )


def _of(signal: Signal, panel: _PanelT, target: prometheus.Dataquery) -> _PanelT:
    """The panel with what it takes of its signal; `target` is the signal's query, as this kind of panel needs it."""
    return (
        panel.title(signal.name)
        .description(signal.description)
        .datasource(DATASOURCE)
        .with_target(target)
        .unit(signal.unit)
        .no_value(signal.absent)
    )


def over_time(signal: Signal) -> timeseries.Panel:
    """The signal over time, with zero, and with a dashed line where it becomes high."""
    panel = (
        _of(signal, timeseries.Panel(), query(signal).range())
        .line_width(2)
        .fill_opacity(10)
        .color_scheme(_fixed(palette.SINGLE))
        .legend(common.VizLegendOptions().show_legend(False))
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
        .override_by_regexp("/.*/", no_sentence())
    )
    panel = panel.axis_soft_min(0) if signal.signed else panel.min(0)
    if signal.high is not None:
        limit = [dashboard.Threshold(None, palette.NONE), dashboard.Threshold(signal.high, palette.PLAIN)]
        line = common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
        # Without a soft maximum a calm host's graph would leave the line out of sight.
        panel.thresholds(_steps(limit)).thresholds_style(line).axis_soft_max(signal.high * 1.2)
    return panel


def no_sentence() -> list[dashboard.DynamicConfigValue]:
    """The property of an override without which tooltips fill gaps of a series with the panel's text for no value."""
    return [_property("noValue", None)]


def lines(signal: Signal) -> timeseries.Panel:
    """The signal's series over time, a line each, in the colour that Grafana gives its name on every panel."""
    return over_time(signal).color_scheme(_by_name()).fill_opacity(0).legend(legend_below())


def of_guests_and_host(signal: Signal) -> timeseries.Panel:
    """The same of one host's virtual servers: the host itself has its own colour."""
    named = f'label_replace({signal.expr}, "is", " (host)", "role", "host")'
    return lines(replace(signal, query=named, legend="{{vserver}}{{is}}")).override_by_regexp(
        r"/ \(host\)$/", coloured(palette.HOST)
    )


def stacked(signal: Signal) -> timeseries.Panel:
    """The signal's series over time, one on top of the other: their sum is read off the top edge."""
    return (
        over_time(signal)
        .color_scheme(_by_name())
        .stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("used"))
        .line_width(1)
        .fill_opacity(50)
        .legend(legend_below())
    )


def heat_map(buckets: Signal) -> heatmap.Panel:
    """How the counts of a histogram's buckets (`le`, in seconds) move over time."""
    return (
        _of(buckets, heatmap.Panel(), query(buckets).range().format(PromQueryFormat.HEATMAP))
        .color(
            heatmap.HeatmapColorOptions()
            .mode(HeatmapColorMode.SCHEME)
            .scheme("Cividis")  # made for every colour vision
            .steps(64)
        )
        .cell_values(heatmap.CellValues().unit(buckets.unit).decimals(1))
        .filter_values(heatmap.FilterValueRange().le(1e-9))  # leaves empty buckets out
        .y_axis(heatmap.YAxisConfig().unit(units.Seconds).axis_placement(AxisPlacement.LEFT))
        .mode(TooltipDisplayMode.SINGLE)
        .exemplars_color(palette.PLAIN)
        .show_legend()
    )


def states(signal: Signal, words: Mapping[int, str], colours: Mapping[str, str]) -> statetimeline.Panel:
    """From when to when each series was in which state: `words` for its numbers, and the colour of each word."""
    return (
        _of(signal, statetimeline.Panel(), query(signal).range())
        .mappings(
            [
                dashboard.ValueMap(
                    {
                        str(number): dashboard.ValueMappingResult(text=word, color=colours[word], index=number)
                        for number, word in words.items()
                    }
                ),
                _no_value("no data"),
            ]
        )
        .fill_opacity(100)  # the palette's own colours
        .show_value(VisibilityMode.NEVER)  # Grafana would cut a word off where its state ends
        .color_scheme(_fixed(palette.NO_DATA))  # by thresholds it would show these and not the words
        .legend(legend_below())
        .override_by_regexp("/.*/", no_sentence())
    )


def against_by(signal: Signal, label: str, axis: str, line: str, *, step: str, whole: bool = False) -> trend.Panel:
    """The signal now against a label that is a number, a line for each value of the label `line`.

    axis: what it is a number of.
    step: how often it is looked at, in days; in weeks less often.
    whole: it is a whole number, and an axis has nothing to say between two of them.
    """
    x_field = rf"{label}\{line}"
    matrix = dashboard.DataTransformerConfig(
        id_val="groupingToMatrix", options={"rowField": label, "columnField": line, "valueField": "Value"}
    )
    # Without data this kind of panel breaks; given a field X that isn't there it complains of that; a bar chart says
    # "No data in response". It shows its text for no value if it gets a field, the first that is a number, and no
    # row of it: so it is sent one, and that is left out.
    never_empty = replace(signal, query=f"{signal.expr} or on () vector(NaN)")
    return (
        _of(signal, trend.Panel(), query(never_empty).instant().format(PromQueryFormat.TABLE))
        .interval(step)
        .max_data_points(5760)  # one each 5 minutes of a month, for a job of each hour to be seen at all of its moments
        .transformations(
            [
                _only_numbers("Value"),
                dashboard.DataTransformerConfig(
                    id_val="organize",
                    options={
                        "excludeByName": {"Time": True},
                        "indexByName": {x_field: 0, "Value": 1},
                        "renameByName": {},
                    },
                ),
                _sorted(line),
                matrix,
                _converted(x_field),
                _sorted(x_field),
            ]
        )
        .min(0)
        .color_scheme(_by_name())
        .legend(legend_below())
        .line_width(2)
        .fill_opacity(0)
        .show_points(VisibilityMode.ALWAYS)
        .point_size(9)
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        .override_by_name(
            x_field,
            [
                _property("custom.axisLabel", axis),
                _property("displayName", axis),
                _property("unit", units.NoUnit),
                *([_property("mappings", _no_fractions())] if whole else []),
            ],
        )
    )


def _no_fractions() -> list[dashboard.RangeMap]:
    """Leaves ticks between whole numbers, which Grafana has where there is room, without words.

    No decimals would round them: two ticks would have the same number.
    """
    nothing = dashboard.ValueMappingResult(text="")
    return [
        dashboard.RangeMap(dashboard.DashboardRangeMapOptions(from_val=number + 0.01, to=number + 0.99, result=nothing))
        for number in range(_MANY_TICKS)
    ]


def _only_numbers(field: str) -> dashboard.DataTransformerConfig:
    """Leave out the rows in which it is NaN: no number is greater or less than that."""
    from_zero = {"id": "greaterOrEqual", "options": {"value": 0}}
    return dashboard.DataTransformerConfig(
        id_val="filterByValue",
        options={"filters": [{"fieldName": field, "config": from_zero}], "match": "any", "type": "include"},
    )


def _converted(field: str) -> dashboard.DataTransformerConfig:
    """Labels are strings: to a number."""
    conversions = {"conversions": [{"targetField": field, "destinationType": "number"}], "fields": {}}
    return dashboard.DataTransformerConfig(id_val="convertFieldType", options=conversions)


def _sorted(field: str) -> dashboard.DataTransformerConfig:
    return dashboard.DataTransformerConfig(id_val="sortBy", options={"fields": {}, "sort": [{"field": field}]})


def columns(
    title: str,
    description: str,
    labels: Mapping[str, str],
    signals: Sequence[Signal],
    *,
    whose: Mapping[str, Signal] = MappingProxyType({}),
    width: int = 24,
    height: int = 8,
) -> table.Panel:
    """A table with a row for each set of labels, the highest values of the first two signals on top.

    labels: their names, and their columns' headers; a column for each signal follows.
    whose: labels that say what one of the signals is of; each stands right before that.
    """
    values = (
        {f"Value #{ref_id(i)}": signal for i, signal in enumerate(signals)}
        if len(signals) > 1
        else {"Value": signals[0]}
    )
    shown = [label for label in labels if label not in whose]
    for column, signal in values.items():
        shown += [*(label for label, of in whose.items() if of is signal), column]
    panel = (
        table.Panel()
        .title(title)
        .description(description)
        .span(width)
        .height(height)
        .datasource(DATASOURCE)
        .targets([query(s, i).instant().format(PromQueryFormat.TABLE) for i, s in enumerate(signals)])
        # Before the merge: rows that differ in a label that is not shown (a record's name) would not become one. Time,
        # the same in all, stays until then: it is what a signal without series has in common with the others, and
        # without anything in common there is no merge.
        .with_transformation(
            dashboard.DataTransformerConfig(
                id_val="filterFieldsByName", options={"include": {"names": ["Time", *shown]}}
            )
        )
        .with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
        # Of several signals without series, headers without rows would be left and no reason given. Labels are columns
        # only where there are rows: grouped by them, nothing is left, else each row is a group of its own.
        .with_transformation(
            dashboard.DataTransformerConfig(
                id_val="groupBy",
                options={
                    "fields": {
                        **{label: {"operation": "groupby", "aggregations": []} for label in labels},
                        **{column: {"operation": "aggregate", "aggregations": ["lastNotNull"]} for column in values},
                    }
                },
            )
        )
        .with_transformation(
            dashboard.DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": {},
                    "indexByName": {
                        f"{name} (lastNotNull)" if name in values else name: i for i, name in enumerate(shown)
                    },
                    "renameByName": {
                        **labels,
                        **{f"{column} (lastNotNull)": signal.name for column, signal in values.items()},
                    },
                },
            )
        )
        .no_value(signals[0].absent)
        .thresholds(_steps([dashboard.Threshold(None, palette.NONE)]))
        .sort_by(
            [common.TableSortByFieldState().display_name(signal.name).desc(True) for signal in signals[:_SORTED_BY]]
        )
    )
    for label in labels.values():
        # The panel's own text for no value is a sentence.
        words = WORD_WIDTHS.get(label)
        of_words = (
            _property("custom.width", words)
            if words
            else _property("custom.minWidth", max(NAME_WIDTH, title_width(label) + _HEADER_PADDING))
        )
        panel.override_by_name(label, [_property("noValue", "-"), of_words])
    for number, signal in enumerate(signals):
        header = title_width(signal.name) + _HEADER_PADDING + (_SORT_ARROW if number < _SORTED_BY else 0)
        properties = [
            _property("unit", signal.unit),
            _property("noValue", "-"),
            _property("custom.width", max(_NUMBER_WIDTH, header)),
            *judged(signal),
        ]
        if signal.decimals is not None:
            properties.append(_property("decimals", signal.decimals))
        panel.override_by_name(signal.name, properties)
    return panel


def matrix(
    signal: Signal, row: str, column: str, *, header: str, first: Sequence[str], without_page: str
) -> table.Panel:
    """A table of one signal with a row for each value of the label `row` and a column for each of `column`.

    Both are names of virtual servers of the host that is shown, and lead to these, in the order of the series.
    header: of the column that names the rows, which is sorted by the first of the others.
    first: columns that come before the others. The first of all is a sum, so its cells have no ground to compare.
    without_page: a regular expression of the columns that are no virtual servers: their cells lead to the row's alone.
    """
    corner = rf"{row}\{column}"
    of_row, of_column = f'${{__data.fields["{header}"]}}', "${__field.name}"
    to_row = to_virtual_server(f"{of_row} (waits)", of_row)
    return (
        _of(signal, table.Panel(), query(signal).instant().format(PromQueryFormat.TABLE))
        .transformations(
            [
                dashboard.DataTransformerConfig(
                    id_val="groupingToMatrix", options={"rowField": row, "columnField": column, "valueField": "Value"}
                ),
                dashboard.DataTransformerConfig(
                    id_val="organize",
                    options={
                        "excludeByName": {},
                        "indexByName": {name: place for place, name in enumerate([corner, *first])},
                        "renameByName": {corner: header},
                    },
                ),
            ]
        )
        .decimals(signal.decimals or 0)
        .min(0)
        .max(_DARKEST)
        .color_scheme(build.FieldColor().mode(dashboard.FieldColorModeId.CONTINUOUS_BLUES))
        .override_by_field_type(
            "number",
            [
                *no_sentence(),
                _property("custom.cellOptions", _GROUND),
                _property("custom.minWidth", _CELL_WIDTH),
                _property("custom.wrapHeaderText", True),  # of Grafana 12 and newer
            ],
        )
        # A column that two overrides give links has those of both.
        .override_by_regexp(
            f"/^(?!({header}|{without_page})$)/", links(to_row, to_virtual_server(f"{of_column} (ran)", of_column))
        )
        .override_by_regexp(f"/^({without_page})$/", links(to_row))
        .override_by_name(first[0], [_property("custom.cellOptions", {"type": "auto"})])
        .override_by_name(
            header,
            [
                _property("custom.width", _OF_ROWS_WIDTH),
                *wrapped(),
                *links(
                    to_page("virtscope-neighbours", "Who ran meanwhile", {"vserver": header}, keep=["host"]),
                    to_virtual_server("Virtual server", of_row),
                    *to_own_words({"vserver": header}, keep=["host"]),
                ),
            ],
        )
        .sort_by([common.TableSortByFieldState().display_name(first[0]).desc(True)])
    )


def alerts(title: str, active: Signal, labels: Mapping[str, str]) -> table.Panel:
    """A table of alerts, ten rows of it in sight: critical ones, then warnings, the oldest first."""
    return (
        columns(title, active.description, {"alertname": "Alert", "severity": "Severity", **labels}, [active])
        .sort_by(
            [
                common.TableSortByFieldState().display_name("Severity").desc(False),
                common.TableSortByFieldState().display_name(active.name).desc(True),
            ]
        )
        .override_by_name("Severity", on_grounds(palette.SEVERITY))
        .override_by_name(
            "Cause", [*on_grounds(palette.CAUSES), *links(to_page("virtscope-neighbours", "Who waits for whom", _HOST))]
        )
        .override_by_name("Alert", links(RUNBOOK, to_page("virtscope-applications", "Applications of its host", _HOST)))
        .override_by_name("Host", links(to_page("virtscope-host", "Host", _HOST)))
        .override_by_name(
            "Application", links(to_page("virtscope-applications", "Application", {**_HOST, "app": "Application"}))
        )
        .height(12)
    )


def query(signal: Signal, index: int = 0) -> prometheus.Dataquery:
    """The signal's query, the `index`-th of its panel."""
    asked = prometheus.Dataquery().expr(signal.expr).legend_format(signal.legend).ref_id(ref_id(index))
    return asked.interval(_RATE_STEP) if "$__rate_interval" in signal.expr else asked


def ref_id(index: int) -> str:
    """Grafana's own way to number queries: A, B, C."""
    return chr(ord("A") + index)


def to_page(uid: str, title: str, choose: Mapping[str, str], keep: Sequence[str] = ()) -> dashboard.DashboardLink:
    """A link from a table's cell to another dashboard; the time range and the data source stay.

    choose: its variables that the row decides, and the header of the column that each is read from.
    keep: those that are as they are here.
    """
    chosen = [f'var-{variable}=${{__data.fields["{header}"]:percentencode}}' for variable, header in choose.items()]
    kept = [f"${{{variable}:queryparam}}" for variable in ("datasource", *keep)]
    url = "&".join([f"/d/{uid}?${{__url_time_range}}", *kept, *chosen])
    return dashboard.DashboardLink(title=title, url=url, type_val=None)


def to_virtual_server(title: str, name: str) -> dashboard.DashboardLink:
    """A link to the page Virtual servers, for one of the host that is shown: `name` is Grafana's template for it."""
    chosen = f"var-hosts=${{host:percentencode}}&var-vserver={name.removesuffix('}')}:percentencode}}"
    url = f"/d/virtscope-virtual-servers?${{__url_time_range}}&${{datasource:queryparam}}&{chosen}"
    return dashboard.DashboardLink(title=title, url=url, type_val=None)


def to_own_words(choose: Mapping[str, str], keep: Sequence[str] = ()) -> list[dashboard.DashboardLink]:
    """Links from a virtual server to the pages that have its platform's own words: of these, one is right."""
    return [
        to_page("virtscope-xen", "Domain (Xen)", choose, keep),
        to_page("virtscope-kvm", "Guest (KVM)", choose, keep),
        to_page("virtscope-openvz", "Container (OpenVZ)", choose, keep),
    ]


_HOST = {"host": "Host"}
RUNBOOK = dashboard.DashboardLink(
    title="Runbook",
    # Prometheus serves docs/ beside its own pages, at the address that it scrapes itself by.
    url='http://${prometheus}/user/runbooks/${__data.fields["Alert"]}.md',
    type_val=None,
    target_blank=True,
)


def links(*to: dashboard.DashboardLink) -> list[dashboard.DynamicConfigValue]:
    """The property of an override that makes a table's column lead elsewhere; of several, a click offers a choice."""
    return [_property("links", list(to))]


def coloured(colour: str) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that gives a series a colour of its own."""
    return [_property("color", {"mode": "fixed", "fixedColor": colour})]


def on_grounds(colours: Mapping[str, str]) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that sets each word of a table's column on a ground of its colour."""
    words = {word: dashboard.ValueMappingResult(text=word, color=colour) for word, colour in colours.items()}
    return [_property("custom.cellOptions", _GROUND), _property("mappings", [dashboard.ValueMap(words)])]


def as_severity() -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that puts a column's severity points (`SEVERITY_POINTS`) in words."""
    return [_property("custom.cellOptions", _GROUND), _property("mappings", _severity_words())]


def judged(signal: Signal) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that sets a table's values on the ground of their severity, if there is one."""
    if not signal.is_judged:
        return []
    steps = dashboard.ThresholdsConfig(dashboard.ThresholdsMode.ABSOLUTE, _severity_steps(signal))
    return [
        _property("custom.cellOptions", _GROUND),
        _property("thresholds", steps),
        _property("mappings", [_no_value("no data")]),
    ]


def as_line(colour: str) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that takes a series out of the stack and draws it as a dashed line."""
    return [
        *coloured(colour),
        _property("custom.stacking", {"mode": "none", "group": "limit"}),
        _property("custom.fillOpacity", 0),
        _property("custom.lineWidth", 2),
        _property("custom.lineStyle", {"fill": "dash", "dash": [10, 10]}),
    ]


def as_wide(width: int = 160) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that gives a table's column room for a few words, in pixels."""
    return [_property("custom.width", width)]


def wrapped() -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that shows a column's whole text, on several lines if need be."""
    return [_property("custom.wrapText", True)]


def in_words(words: Mapping[str, str]) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that puts a column's codes in words."""
    mapped = {code: dashboard.ValueMappingResult(text=text) for code, text in words.items()}
    return [_property("mappings", [dashboard.ValueMap(mapped)])]


def as_bar(colour: str, width: int = 110) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that shows a table's column of ratios as bars, full at 1; in pixels."""
    return [
        *coloured(colour),
        _property("custom.cellOptions", TableBarGaugeCellOptions(mode=BarGaugeDisplayMode.BASIC)),
        _property("custom.width", width),
        _property("min", 0),
        _property("max", 1),
    ]


def legend_at_the_side(width: int = 180) -> common.VizLegendOptions:
    """The legend of a graph as wide as the page, in pixels; below it, forty guests would leave no room."""
    return (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.RIGHT)
        .show_legend(True)
        .width(width)
    )


def legend_below() -> common.VizLegendOptions:
    """The legend of a graph that has others beside it: Grafana gives it a third of the height, and scrolls the rest."""
    return (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(True)
    )


def half(signal: Signal) -> timeseries.Panel:
    """The highest series, half as wide as the page, with room for ten names in the legend."""
    return lines(highest(signal)).span(12).height(10)


def small(panel: timeseries.Panel) -> timeseries.Panel:
    """A graph a third of the page wide."""
    return panel.span(8).height(8)


def _severity_steps(signal: Signal) -> list[dashboard.Threshold]:
    """The grounds of a value from where it is high or low; none if it has no thresholds."""
    if signal.low is not None:
        steps = [dashboard.Threshold(None, palette.WARNING), dashboard.Threshold(signal.low, palette.FINE)]
        if signal.critically_low is not None:
            steps[0] = dashboard.Threshold(None, palette.CRITICAL)
            steps.insert(1, dashboard.Threshold(signal.critically_low, palette.WARNING))
        return steps
    steps = [dashboard.Threshold(None, palette.FINE if signal.is_judged else palette.NONE)]
    if signal.high is not None:
        steps.append(dashboard.Threshold(signal.high, palette.WARNING))
    if signal.critical is not None:
        steps.append(dashboard.Threshold(signal.critical, palette.CRITICAL))
    return steps


def _severity_words() -> list[dashboard.RangeMap]:
    """Words for points of severity."""
    # Both ends belong to a range, and points are not that fine.
    ends = [points - 1e-6 for points in SEVERITY_POINTS.values()][1:]
    return [
        dashboard.RangeMap(
            dashboard.DashboardRangeMapOptions(
                from_val=points, to=end, result=dashboard.ValueMappingResult(text=word, color=palette.SEVERITY[word])
            )
        )
        for (word, points), end in zip(SEVERITY_POINTS.items(), [*ends, None], strict=True)
    ]


def _no_value(text: str) -> dashboard.SpecialValueMap:
    """Sets what stands for no value on the ground of no data, which is that of no severity."""
    return dashboard.SpecialValueMap(
        dashboard.DashboardSpecialValueMapOptions(
            match=dashboard.SpecialValueMatch.NULL_AND_NAN,
            result=dashboard.ValueMappingResult(text=text, color=palette.NO_DATA),
        )
    )


def _steps(steps: list[dashboard.Threshold]) -> build.ThresholdsConfig:
    return build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _by_name() -> build.FieldColor:
    return build.FieldColor().mode(dashboard.FieldColorModeId.PALETTE_CLASSIC_BY_NAME)


def in_order() -> build.FieldColor:
    """Colours by place among the panel's series: all differ, and the same name may have another on another panel."""
    return build.FieldColor().mode(dashboard.FieldColorModeId.PALETTE_CLASSIC)


def _fixed(colour: str) -> build.FieldColor:
    return build.FieldColor().mode(dashboard.FieldColorModeId.FIXED).fixed_color(colour)


def _property(name: str, value: object) -> dashboard.DynamicConfigValue:
    return dashboard.DynamicConfigValue(id_val=name, value=value)
