"""How a signal looks: one number, over time, or against a number. Style is decided here, for every dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
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
_MANY_TICKS = 12  # for an axis to have others between them
_RATE_STEP = "15s"  # at least: $__rate_interval is four of them, the minute that the rules' rates are taken over

Properties = list[dashboard.DynamicConfigValue]
"""What an override changes."""


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
        .thresholds(steps(severity_steps(signal)))
        .mappings([no_value(signal.gap)])
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
        .mappings([dashboard.ValueMap(shown), no_value(signal.gap)])
        .transparent(True)
        .text_mode(BigValueTextMode.VALUE)
        .text(common.VizTextDisplayOptions().value_size(20))
    )


def board(signal: Signal) -> stat.Panel:
    """A row for each series: what it is about, and its severity in a word, to be read from afar."""
    return (
        number(signal)
        .mappings([*severity_words(), no_value(signal.gap)])
        .text_mode(BigValueTextMode.VALUE_AND_NAME)
        .orientation(VizOrientation.HORIZONTAL)
        .text(common.VizTextDisplayOptions().title_size(22).value_size(28))
    )


def of(signal: Signal, panel: _PanelT, target: prometheus.Dataquery) -> _PanelT:
    """The panel with what it takes of its signal; `target` is the signal's query, as this kind of panel needs it."""
    return (
        panel.title(signal.name)
        .description(signal.description)
        .datasource(DATASOURCE)
        .with_target(target)
        .unit(signal.unit)
        .no_value(signal.absent)
    )


def over_time(signal: Signal, *others: Signal) -> timeseries.Panel:
    """The signal over time, with zero, and with a dashed line where it becomes high; and other signals like it."""
    panel = (
        of(signal, timeseries.Panel(), query(signal).range())
        .line_width(2)
        .fill_opacity(10)
        .color_scheme(_fixed(palette.SINGLE))
        .legend(common.VizLegendOptions().show_legend(False))
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
        # Else tooltips fill gaps of a series with the panel's text for no value.
        .override_by_regexp("/.*/", properties(noValue=None))
    )
    for place, other in enumerate(others, start=1):
        panel.with_target(query(other, place).range())
    panel = panel.axis_soft_min(0) if signal.signed else panel.min(0)
    if signal.high is not None:
        limit = [dashboard.Threshold(None, palette.NONE), dashboard.Threshold(signal.high, palette.PLAIN)]
        line = common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
        # Without a soft maximum a calm host's graph would leave the line out of sight.
        panel.thresholds(steps(limit)).thresholds_style(line).axis_soft_max(signal.high * 1.2)
    return panel


def lines(signal: Signal, *others: Signal) -> timeseries.Panel:
    """The signals' series over time, a line each, in the colour that Grafana gives its name on every panel."""
    return over_time(signal, *others).color_scheme(_by_name()).fill_opacity(0).legend(_legend_below())


def half(signal: Signal) -> timeseries.Panel:
    """The highest series, half as wide as the page, with room for ten names in the legend."""
    return lines(highest(signal)).span(12).height(10)


def against(limit: Signal, signal: Signal) -> timeseries.Panel:
    """The signal's lines, and dashed what they are compared with."""
    return lines(signal, limit).override_by_query("B", as_line(palette.PLAIN))


def of_guests_and_host(signal: Signal) -> timeseries.Panel:
    """The same of one host's virtual servers: the host itself has its own colour."""
    named = f'label_replace({signal.expr}, "is", " (host)", "role", "host")'
    panel = lines(replace(signal, query=named, legend="{{vserver}}{{is}}"))
    return panel.override_by_regexp(r"/ \(host\)$/", coloured(palette.HOST))


def stacked(signal: Signal, *others: Signal) -> timeseries.Panel:
    """The signals' series over time, one on top of the other: their sum is read off the top edge."""
    return (
        lines(signal, *others)
        .stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("used"))
        .line_width(1)
        .fill_opacity(50)
    )


def heat_map(buckets: Signal) -> heatmap.Panel:
    """How the counts of a histogram's buckets (`le`, in seconds) move over time."""
    return (
        of(buckets, heatmap.Panel(), query(buckets).range().format(PromQueryFormat.HEATMAP))
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
    shown = {
        str(state): dashboard.ValueMappingResult(text=word, color=colours[word], index=state)
        for state, word in words.items()
    }
    return (
        of(signal, statetimeline.Panel(), query(signal).range())
        .mappings([dashboard.ValueMap(shown), no_value("no data")])
        .fill_opacity(100)  # the palette's own colours
        .show_value(VisibilityMode.NEVER)  # Grafana would cut a word off where its state ends
        .color_scheme(_fixed(palette.NO_DATA))  # by thresholds it would show these and not the words
        .legend(_legend_below())
        .override_by_regexp("/.*/", properties(noValue=None))
    )


def against_number(signal: Signal, label: str, axis: str, line: str, *, step: str) -> trend.Panel:
    """The signal now against a label that is a whole number, a line for each value of the label `line`.

    axis: what it is a number of.
    step: how often it is looked at, in days; in weeks less often.
    """
    x_field = rf"{label}\{line}"
    # Without data this kind of panel breaks; given a field X that isn't there it complains of that; a bar chart says
    # "No data in response". It shows its text for no value if it gets a field, the first that is a number, and no
    # row of it: so it is sent one, and that is left out.
    never_empty = replace(signal, query=f"{signal.expr} or on () vector(NaN)")
    is_number = {"fieldName": "Value", "config": {"id": "greaterOrEqual", "options": {"value": 0}}}  # NaN isn't
    return (
        of(signal, trend.Panel(), as_table(never_empty))
        .interval(step)
        .max_data_points(5760)  # one each 5 minutes of a month, for a job of each hour to be seen at all of its moments
        .transformations(
            [
                transformation("filterByValue", filters=[is_number], match="any", type="include"),
                transformation(
                    "organize",
                    excludeByName={"Time": True},
                    indexByName={x_field: 0, "Value": 1},
                    renameByName={},
                ),
                transformation("sortBy", fields={}, sort=[{"field": line}]),
                transformation("groupingToMatrix", rowField=label, columnField=line, valueField="Value"),
                # Labels are strings.
                transformation(
                    "convertFieldType",
                    conversions=[{"targetField": x_field, "destinationType": "number"}],
                    fields={},
                ),
                transformation("sortBy", fields={}, sort=[{"field": x_field}]),
            ]
        )
        .min(0)
        .color_scheme(_by_name())
        .legend(_legend_below())
        .line_width(2)
        .fill_opacity(0)
        .show_points(VisibilityMode.ALWAYS)
        .point_size(9)
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        .override_by_name(
            x_field,
            [
                property_of("custom.axisLabel", axis),
                *properties(displayName=axis, unit=units.NoUnit, mappings=_no_fractions()),
            ],
        )
    )


def _no_fractions() -> list[dashboard.RangeMap]:
    """Leaves ticks between whole numbers, which Grafana has where there is room, without words.

    No decimals would round them: two ticks would have the same number.
    """
    nothing = dashboard.ValueMappingResult(text="")
    return [
        dashboard.RangeMap(dashboard.DashboardRangeMapOptions(from_val=tick + 0.01, to=tick + 0.99, result=nothing))
        for tick in range(_MANY_TICKS)
    ]


def small(panel: timeseries.Panel) -> timeseries.Panel:
    """A graph a third of the page wide."""
    return panel.span(8).height(8)


# What panels are made of


def query(signal: Signal, index: int = 0) -> prometheus.Dataquery:
    """The signal's query, the `index`-th of its panel."""
    asked = prometheus.Dataquery().expr(signal.expr).legend_format(signal.legend).ref_id(ref_id(index))
    return asked.interval(_RATE_STEP) if "$__rate_interval" in signal.expr else asked


def as_table(signal: Signal, index: int = 0) -> prometheus.Dataquery:
    """The same now, a row for each series."""
    asked = prometheus.Dataquery().expr(signal.expr).ref_id(ref_id(index)).instant().format(PromQueryFormat.TABLE)
    return asked.interval(_RATE_STEP) if "$__rate_interval" in signal.expr else asked


def ref_id(index: int) -> str:
    """Grafana's own way to number queries: A, B, C."""
    return chr(ord("A") + index)


def transformation(kind: str, **options: object) -> dashboard.DataTransformerConfig:
    """A step from the answers to what a panel shows."""
    return dashboard.DataTransformerConfig(id_val=kind, options=options)


def property_of(name: str, value: object) -> dashboard.DynamicConfigValue:
    """A property of an override."""
    return dashboard.DynamicConfigValue(id_val=name, value=value)


def properties(**values: object) -> Properties:
    """Several, whose names are words."""
    return [property_of(name, value) for name, value in values.items()]


def coloured(colour: str) -> Properties:
    """The properties of an override that gives a series a colour of its own."""
    return properties(color={"mode": "fixed", "fixedColor": colour})


def as_line(colour: str) -> Properties:
    """The properties of an override that takes a series out of the stack and draws it as a dashed line."""
    custom = {
        "stacking": {"mode": "none", "group": "limit"},
        "fillOpacity": 0,
        "lineWidth": 2,
        "lineStyle": {"fill": "dash", "dash": [10, 10]},
    }
    return [*coloured(colour), *(property_of(f"custom.{name}", value) for name, value in custom.items())]


def severity_steps(signal: Signal) -> list[dashboard.Threshold]:
    """The grounds of a value from where it is high or low; none if it has no thresholds."""
    if signal.low is not None:
        lowest = palette.WARNING if signal.critically_low is None else palette.CRITICAL
        found = [(None, lowest), (signal.critically_low, palette.WARNING), (signal.low, palette.FINE)]
    else:
        found = [(None, palette.FINE if signal.is_judged else palette.NONE)]
        found += [(signal.high, palette.WARNING), (signal.critical, palette.CRITICAL)]
    first, *others = found
    return [dashboard.Threshold(*step) for step in (first, *(each for each in others if each[0] is not None))]


def severity_words() -> list[dashboard.RangeMap]:
    """Words for points of severity."""
    # Both ends belong to a range, and points are not that fine.
    ends = [points - 1e-6 for points in SEVERITY_POINTS.values()][1:]
    return [
        dashboard.RangeMap(
            dashboard.DashboardRangeMapOptions(
                from_val=points,
                to=end,
                result=dashboard.ValueMappingResult(text=word, color=palette.SEVERITY[word]),
            )
        )
        for (word, points), end in zip(SEVERITY_POINTS.items(), [*ends, None], strict=True)
    ]


def no_value(words: str) -> dashboard.SpecialValueMap:
    """Sets what stands for no value on the ground of no data, which is that of no severity."""
    return dashboard.SpecialValueMap(
        dashboard.DashboardSpecialValueMapOptions(
            match=dashboard.SpecialValueMatch.NULL_AND_NAN,
            result=dashboard.ValueMappingResult(text=words, color=palette.NO_DATA),
        )
    )


def steps(thresholds: list[dashboard.Threshold]) -> build.ThresholdsConfig:
    """Thresholds in the values' own unit."""
    return build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(thresholds)


def _legend_below() -> common.VizLegendOptions:
    """The legend of a graph that has others beside it: Grafana gives it a third of the height, and scrolls the rest."""
    return (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(True)
    )


def _by_name() -> build.FieldColor:
    return build.FieldColor().mode(dashboard.FieldColorModeId.PALETTE_CLASSIC_BY_NAME)


def in_order() -> build.FieldColor:
    """Colours by place among the panel's series: all differ, and the same name may have another on another panel."""
    return build.FieldColor().mode(dashboard.FieldColorModeId.PALETTE_CLASSIC)


def _fixed(colour: str) -> build.FieldColor:
    return build.FieldColor().mode(dashboard.FieldColorModeId.FIXED).fixed_color(colour)
