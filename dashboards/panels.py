"""How a signal looks: one number, over time, or as columns of a table. Style is decided here, for every dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    TableColorTextCellOptions,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards import palette
from dashboards.signals import Signal
from dashboards.variables import DATASOURCE

Overridable = TypeVar("Overridable", timeseries.Panel, table.Panel)

_COLUMN_WIDTH = 112  # pixels: "12.34 CPUs", with room for the header


def note(markdown: str) -> text.Panel:
    """A few words in the page's own voice: no frame, no title."""
    return text.Panel().transparent(True).content(markdown)


def number(signal: Signal) -> stat.Panel:
    """The signal now, as one big number, coloured once it is high."""
    panel = (
        stat.Panel()
        .title(signal.name)
        # The number's place is too small for more than two words: why there is none is told on hovering.
        .description(f"{signal.description}\n\nNo data? {signal.absent}")
        .datasource(DATASOURCE)
        .with_target(query(signal).instant())
        .unit(signal.unit)
        .thresholds(_thresholds(signal))
        .no_value("no data")
        .color_mode(BigValueColorMode.VALUE)
        .graph_mode(BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )
    return panel if signal.decimals is None else panel.decimals(signal.decimals)


def either(signal: Signal, words: Sequence[str]) -> stat.Panel:
    """One of these words: the first where the signal is 0, the next on a coloured ground where it is 1, and so on."""
    shown = {
        str(value): dashboard.ValueMappingResult(text=word, color=palette.HIGH if value else "transparent")
        for value, word in enumerate(words)
    }
    return (
        number(signal)
        .title("")
        .mappings([dashboard.ValueMap(shown)])
        .thresholds(_steps([dashboard.Threshold(None, "transparent")]))
        .transparent(True)
        .color_mode(BigValueColorMode.BACKGROUND_SOLID)
        .text_mode(BigValueTextMode.VALUE)
        .text(common.VizTextDisplayOptions().value_size(20))
    )


def named_number(signal: Signal) -> stat.Panel:
    """The signal's series now, a number each with a few words below: what it is called says as much."""
    return (
        number(signal)
        .text_mode(BigValueTextMode.VALUE_AND_NAME)
        .text(common.VizTextDisplayOptions().title_size(12).value_size(24))
    )


def over_time(signal: Signal) -> timeseries.Panel:
    """The signal over time, with zero, and with a dashed line where it becomes high."""
    panel = (
        timeseries.Panel()
        .title(signal.name)
        .description(signal.description)
        .datasource(DATASOURCE)
        .with_target(query(signal).range())
        .unit(signal.unit)
        .thresholds(_thresholds(signal))
        .no_value(signal.absent)
        .line_width(2)
        .fill_opacity(10)
        .color_scheme(_fixed(palette.CALM))
        .legend(common.VizLegendOptions().show_legend(False))
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    panel = panel.axis_soft_min(0) if signal.signed else panel.min(0)
    if signal.high is not None:
        line = common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
        # Without a soft maximum a calm host's graph would leave the line out of sight.
        panel.thresholds_style(line).axis_soft_max(signal.high * 1.2)
    return panel


def lines(signal: Signal) -> timeseries.Panel:
    """The signal's series over time, a line each, in a colour and style that go with its name."""
    return styled_by_name(over_time(signal).fill_opacity(0).legend(legend_at_the_side()))


def ranked(signal: Signal) -> timeseries.Panel:
    """A few lines of many that could be, each named `RANK. NAME` and in the colour of its rank."""
    panel = over_time(signal).color_scheme(_fixed(palette.GREY)).fill_opacity(0).legend(legend_below())
    for rank, colour in enumerate(palette.BY_RANK, start=1):
        panel.override_by_regexp(rf"/^{rank}\. /", coloured(colour))
    return panel


def stacked(signal: Signal) -> timeseries.Panel:
    """The signal's series over time, one on top of the other: their sum is read off the top edge."""
    return styled_by_name(
        over_time(signal)
        .stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("used"))
        .line_width(1)
        .fill_opacity(50)
        .legend(legend_at_the_side())
    )


def styled_by_name(panel: timeseries.Panel) -> timeseries.Panel:
    """Give each series the colour and line style of its name; what a page overrides after this stands."""
    for pattern, colour in palette.colours_by_name().items():
        panel.override_by_regexp(pattern, coloured(colour))
    for pattern, dashes in palette.styles_by_name().items():
        panel.override_by_regexp(
            pattern,
            [
                _property("custom.lineStyle", {"fill": "dash", "dash": dashes.pixels}),
                # Grafana's legend shows a line's colour, and not how it is dashed. A field's display name is what the
                # series is called by Prometheus' data source; asked for that itself, Grafana would keep it.
                _property("displayName", f"{dashes.drawn} ${{__series.name}}"),
            ],
        )
    return panel


def coloured_by_job(panel: timeseries.Panel) -> timeseries.Panel:
    """Give each series the colour of the scrape job that its name ends with."""
    for job, colour in palette.JOBS.items():
        panel.override_by_regexp(f"/(^|[ :])({job})$/", coloured(colour))
    return panel


def heat_map(buckets: Signal) -> heatmap.Panel:
    """How the counts of a histogram's buckets (`le`, in seconds) move over time."""
    return (
        heatmap.Panel()
        .title(buckets.name)
        .description(buckets.description)
        .datasource(DATASOURCE)
        .with_target(query(buckets).range().format(PromQueryFormat.HEATMAP))
        .unit(buckets.unit)
        .no_value(buckets.absent)
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
        .exemplars_color(palette.GREY)
        .show_legend()
    )


def states(signal: Signal, words: Mapping[int, str], colours: Mapping[str, str]) -> statetimeline.Panel:
    """From when to when each series was in which state: `words` for its numbers, and the colour of each word."""
    return (
        statetimeline.Panel()
        .title(signal.name)
        .description(signal.description)
        .datasource(DATASOURCE)
        .with_target(query(signal).range())
        .unit(signal.unit)
        .no_value(signal.absent)
        .mappings(
            [
                dashboard.ValueMap(
                    {
                        str(number): dashboard.ValueMappingResult(text=word, color=colours[word], index=number)
                        for number, word in words.items()
                    }
                ),
                # Else the legend would tell the whole sentence for no value.
                dashboard.SpecialValueMap(
                    dashboard.DashboardSpecialValueMapOptions(
                        match=dashboard.SpecialValueMatch.NULL,
                        result=dashboard.ValueMappingResult(text="not known", color="transparent"),
                    )
                ),
            ]
        )
        .color_scheme(_fixed(palette.GREY))  # by thresholds it would show these and not the words
        .legend(legend_below())
    )


def against(signal: Signal, label: str, axis: str) -> trend.Panel:
    """The signal now against a label that is a number; `axis` says what of."""
    panel = _against(signal, label, axis, [_converted(label), _sorted(label)])
    return panel.legend(common.VizLegendOptions().show_legend(False))


def against_by(signal: Signal, label: str, axis: str, line: str) -> trend.Panel:
    """The same with a line for each value of the label `line`."""
    matrix = dashboard.DataTransformerConfig(
        id_val="groupingToMatrix", options={"rowField": label, "columnField": line, "valueField": "Value"}
    )
    x_field = rf"{label}\{line}"
    panel = _against(signal, x_field, axis, [_sorted(line), matrix, _converted(x_field), _sorted(x_field)])
    for pattern, shade in palette.colours_by_name().items():
        panel.override_by_regexp(pattern, coloured(shade))
    return panel.legend(legend_below())


def _against(
    signal: Signal, x_field: str, axis: str, transformations: Sequence[dashboard.DataTransformerConfig]
) -> trend.Panel:
    # Without data this kind of panel breaks; given a field X that isn't there it complains of that; a bar chart says
    # "No data in response". It tells what it was given to tell of no value if it gets a field, the first that is a
    # number, and no row of it: so it is sent one, and that is left out.
    never_empty = replace(signal, expr=f"{signal.expr} or on () vector(NaN)")
    return (
        trend.Panel()
        .title(signal.name)
        .description(signal.description)
        .datasource(DATASOURCE)
        .with_target(query(never_empty).instant().format(PromQueryFormat.TABLE))
        # The resolution at which a range is looked at: enough for steps of a minute within a day.
        .interval("15s")
        .max_data_points(5760)
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
                *transformations,
            ]
        )
        .unit(signal.unit)
        .min(0)
        .no_value(signal.absent)
        .color_scheme(_fixed(palette.CALM))
        .line_width(2)
        .fill_opacity(0)
        .show_points(VisibilityMode.ALWAYS)
        .point_size(9)
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        .override_by_name(
            x_field,
            [_property("custom.axisLabel", axis), _property("unit", units.NoUnit)],
        )
    )


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
) -> table.Panel:
    """A table with a row for each set of labels, the highest values of the first two signals on top.

    labels: their names, and their columns' headers; a column for each signal follows.
    whose: labels that say whose figure one of the signals is; each stands right before that.
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
        .datasource(DATASOURCE)
        .targets([query(s, i).instant().format(PromQueryFormat.TABLE) for i, s in enumerate(signals)])
        # Before the merge: rows that differ in a label nobody sees (a record's name) would not become one. Time, the
        # same in all, stays until then: it is what a signal without series has in common with the others, and without
        # anything in common there is no merge.
        .with_transformation(
            dashboard.DataTransformerConfig(
                id_val="filterFieldsByName", options={"include": {"names": ["Time", *shown]}}
            )
        )
        .with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            dashboard.DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": {"Time": True},
                    "indexByName": {name: i for i, name in enumerate(shown)},
                    "renameByName": {**labels, **{column: signal.name for column, signal in values.items()}},
                },
            )
        )
        .no_value(signals[0].absent)
        .sort_by([common.TableSortByFieldState().display_name(signal.name).desc(True) for signal in signals[:2]])
    )
    for number, label in enumerate(labels.values()):
        # The panel's own text for no value is a sentence. The first column takes the width that the others leave.
        width = _property("custom.width", _COLUMN_WIDTH) if number else _property("custom.minWidth", _COLUMN_WIDTH)
        panel.override_by_name(label, [_property("noValue", "-"), width])
    for signal in signals:
        properties = [
            _property("unit", signal.unit),
            _property("noValue", "-"),
            _property("custom.width", _COLUMN_WIDTH),
        ]
        if signal.decimals is not None:
            properties.append(_property("decimals", signal.decimals))
        panel.override_by_name(signal.name, properties)
    return panel


def severest_first(alerts: table.Panel) -> table.Panel:
    """Sort a table of alerts: critical ones, then warnings, the oldest first."""
    return alerts.sort_by(
        [
            common.TableSortByFieldState().display_name("Severity").desc(False),
            common.TableSortByFieldState().display_name("For").desc(True),
        ]
    )


def query(signal: Signal, index: int = 0) -> prometheus.Dataquery:
    """The signal's query, the `index`-th of its panel."""
    return prometheus.Dataquery().expr(signal.expr).legend_format(signal.legend).ref_id(ref_id(index))


def ref_id(index: int) -> str:
    """Grafana's own way to number queries: A, B, C."""
    return chr(ord("A") + index)


def leads_to(uid: str, title: str, choose: Mapping[str, str]) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that makes a table's column lead to another dashboard.

    choose: its variables that the row decides, and the header of the column that each is read from. The time range and
    the data source stay.
    """
    chosen = [f'var-{variable}=${{__data.fields["{header}"]:percentencode}}' for variable, header in choose.items()]
    url = "&".join([f"/d/{uid}?${{__url_time_range}}", "${datasource:queryparam}", *chosen])
    return [_property("links", [dashboard.DashboardLink(title=title, url=url, type_val=None)])]


def coloured(colour: str) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that gives a series a colour of its own."""
    return [_property("color", {"mode": "fixed", "fixedColor": colour})]


def in_colours(colours: Mapping[str, str]) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that gives each word of a table's column its colour."""
    words = {word: dashboard.ValueMappingResult(text=word, color=colour) for word, colour in colours.items()}
    return [
        _property("custom.cellOptions", TableColorTextCellOptions()),
        _property("mappings", [dashboard.ValueMap(words)]),
    ]


def alarming(signal: Signal) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that colours a table's figures from where the signal is high."""
    return _text_colours([dashboard.Threshold(None, "text"), dashboard.Threshold(signal.high, palette.HIGH)])


def _text_colours(steps: list[dashboard.Threshold]) -> list[dashboard.DynamicConfigValue]:
    return [
        _property("custom.cellOptions", TableColorTextCellOptions()),
        _property("thresholds", dashboard.ThresholdsConfig(dashboard.ThresholdsMode.ABSOLUTE, steps)),
    ]


def alarming_below(value: float) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that colours a table's figures that are below the value."""
    steps = [
        dashboard.Threshold(None, "text"),
        dashboard.Threshold(-1e9, palette.HIGH),
        dashboard.Threshold(value, "text"),
    ]
    return _text_colours(steps)


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


def called(words: str) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that gives a series another name."""
    return [_property("displayName", words)]


def in_words(words: Mapping[str, str]) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that tells a column's codes in words."""
    told = {code: dashboard.ValueMappingResult(text=text) for code, text in words.items()}
    return [_property("mappings", [dashboard.ValueMap(told)])]


def as_bar(colour: str) -> list[dashboard.DynamicConfigValue]:
    """The properties of an override that shows a table's column of ratios as bars, full at 1."""
    return [
        *coloured(colour),
        _property("custom.cellOptions", TableBarGaugeCellOptions(mode=BarGaugeDisplayMode.BASIC)),
        _property("custom.width", 190),
        _property("min", 0),
        _property("max", 1),
    ]


def legend_at_the_side(width: int = 180) -> common.VizLegendOptions:
    """A legend where it scrolls, in pixels; below the graph, forty guests would leave no room for it."""
    return (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.RIGHT)
        .show_legend(True)
        .width(width)
    )


def small(panel: timeseries.Panel) -> timeseries.Panel:
    """A graph a third of the page wide, of which a legend at the side would take half."""
    return panel.legend(legend_below()).span(8).height(8)


def legend_below() -> common.VizLegendOptions:
    """A legend under a narrow graph, of as many names as two or three lines hold."""
    return (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(True)
    )


def low_below(value: float) -> build.ThresholdsConfig:
    """Thresholds of a number that is worth a look where it is low, and not where there is none."""
    return _steps(
        [
            dashboard.Threshold(None, palette.CALM),
            dashboard.Threshold(-1e9, palette.HIGH),
            dashboard.Threshold(value, palette.CALM),
        ]
    )


def _thresholds(signal: Signal) -> build.ThresholdsConfig:
    steps = [dashboard.Threshold(value=None, color=palette.CALM)]
    if signal.high is not None:
        steps.append(dashboard.Threshold(value=signal.high, color=palette.HIGH))
    return _steps(steps)


def _steps(steps: list[dashboard.Threshold]) -> build.ThresholdsConfig:
    return build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _fixed(colour: str) -> build.FieldColor:
    return build.FieldColor().mode(dashboard.FieldColorModeId.FIXED).fixed_color(colour)


def _property(name: str, value: object) -> dashboard.DynamicConfigValue:
    return dashboard.DynamicConfigValue(id_val=name, value=value)
