"""How a signal looks: as a number, over time, or against a number. All dashboards share this style."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from grafana_foundation_sdk.builders import (
    common,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
    trend,
)
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard, units
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards import palette
from dashboards.signals import SEVERITY_POINTS, Signal, highest
from dashboards.variables import DATASOURCE

_PanelT = TypeVar("_PanelT", heatmap.Panel, statetimeline.Panel, table.Panel, timeseries.Panel, trend.Panel)
_MANY_TICKS = 12  # from here on an axis has room for ticks between whole numbers
_RATE_STEP = "15s"  # minimum: $__rate_interval is four of these, the one minute of the rules' rates

Properties = list[dashboard.DynamicConfigValue]
"""Properties that an override sets."""


def number(signal: Signal) -> stat.Panel:
    """The current value as one big number on its severity's background; plain without thresholds."""
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
        .color_mode(options.BigValueColorMode.BACKGROUND_SOLID)
        .graph_mode(options.BigValueGraphMode.NONE)
    )
    return panel if signal.digits is None else panel.decimals(signal.digits)


def tiles(*signals: Signal) -> list[stat.Panel]:
    """Numbers of equal width in one row."""
    return [number(signal).span(24 // len(signals)).height(3) for signal in signals]


def flag(signal: Signal, words: Sequence[str]) -> stat.Panel:
    """One of these words by value: the first at 0, the second, highlighted, at 1, and so on."""
    first, *highlighted = words
    shown = in_words(enumerate(words), {first: palette.NONE, **dict.fromkeys(highlighted, palette.PLAIN)})
    return (
        number(signal)
        .title("")
        .mappings([shown, no_value(signal.gap)])
        .transparent(True)
        .text_mode(options.BigValueTextMode.VALUE)
        .text(common.VizTextDisplayOptions().value_size(20))
    )


def board(signal: Signal) -> stat.Panel:
    """A row for each series: its subject, and its severity as a word, readable from afar."""
    return (
        number(signal)
        .mappings([*severity_words(), no_value(signal.gap)])
        .text_mode(options.BigValueTextMode.VALUE_AND_NAME)
        .orientation(options.VizOrientation.HORIZONTAL)
        .text(common.VizTextDisplayOptions().title_size(22).value_size(28))
    )


def of(signal: Signal, panel: _PanelT, target: prometheus.Dataquery) -> _PanelT:
    """The panel with the signal's title, unit and texts; `target` is the signal's query for this kind of panel."""
    return (
        panel.title(signal.name)
        .description(signal.description)
        .datasource(DATASOURCE)
        .with_target(target)
        .unit(signal.unit)
        .no_value(signal.absent)
    )


def over_time(signal: Signal, *others: Signal) -> timeseries.Panel:
    """The signal and similar ones over time, from zero, with a dashed line at the threshold."""
    panel = (
        of(signal, timeseries.Panel(), query(signal).range())
        .line_width(2)
        .fill_opacity(10)
        .color_scheme(_fixed(palette.SINGLE))
        .legend(common.VizLegendOptions().show_legend(False))
        .tooltip(common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI).sort(options.SortOrder.DESCENDING))
        # Otherwise tooltips show the panel's no-value text in gaps of a series.
        .override_by_regexp("/.*/", properties(noValue=None))
    )
    for place, other in enumerate(others, start=1):
        panel.with_target(query(other, place).range())
    panel = panel.axis_soft_min(0) if signal.signed else panel.min(0)
    if signal.high is not None:
        limit = [dashboard.Threshold(None, palette.NONE), dashboard.Threshold(signal.high, palette.PLAIN)]
        line = common.GraphThresholdsStyleConfig().mode(options.GraphThresholdsStyleMode.DASHED)
        # Without a soft maximum the line would be outside a calm host's graph.
        panel.thresholds(steps(limit)).thresholds_style(line).axis_soft_max(signal.high * 1.2)
    return panel


def lines(signal: Signal, *others: Signal) -> timeseries.Panel:
    """A line for each series, in the colour that Grafana assigns its name on every panel."""
    return over_time(signal, *others).color_scheme(_by_name()).fill_opacity(0).legend(_legend_below())


def half(signal: Signal) -> timeseries.Panel:
    """The highest series at half the page's width, with room for ten names in the legend."""
    return lines(highest(signal)).span(12).height(10)


def against(limit: Signal, signal: Signal) -> timeseries.Panel:
    """The signal's lines, and dashed lines for the limit."""
    return lines(signal, limit).override_by_query("B", as_line(palette.PLAIN))


def of_guests_and_host(signal: Signal) -> timeseries.Panel:
    """One host's virtual servers; the host itself has its own colour."""
    named = f'label_replace({signal.expr}, "is", " (host)", "role", "host")'
    panel = lines(replace(signal, query=named, legend="{{vserver}}{{is}}"))
    return panel.override_by_regexp(r"/ \(host\)$/", coloured(palette.HOST))


def stacked(signal: Signal, *others: Signal) -> timeseries.Panel:
    """Stacked series: the top edge is their sum."""
    return (
        lines(signal, *others)
        .stacking(common.StackingConfig().mode(options.StackingMode.NORMAL).group("used"))
        .line_width(1)
        .fill_opacity(50)
    )


def heat_map(buckets: Signal) -> heatmap.Panel:
    """Counts of a histogram's buckets (`le`, in seconds) over time."""
    return (
        of(buckets, heatmap.Panel(), query(buckets).range().format(PromQueryFormat.HEATMAP))
        .color(
            heatmap.HeatmapColorOptions()
            .mode(HeatmapColorMode.SCHEME)
            .scheme("Cividis")  # readable with any colour vision
            .steps(64)
        )
        .cell_values(heatmap.CellValues().unit(buckets.unit).decimals(1))
        .filter_values(heatmap.FilterValueRange().le(1e-9))  # omits empty buckets
        .y_axis(heatmap.YAxisConfig().unit(units.Seconds).axis_placement(options.AxisPlacement.LEFT))
        .mode(options.TooltipDisplayMode.SINGLE)
        .exemplars_color(palette.PLAIN)
        .show_legend()
    )


def states(signal: Signal, words: Mapping[int, str], colours: Mapping[str, str]) -> statetimeline.Panel:
    """The state of each series over time: `words` for its numbers, and each word's colour."""
    return (
        of(signal, statetimeline.Panel(), query(signal).range())
        .mappings([in_words(words.items(), colours), no_value("no data")])
        .fill_opacity(100)  # the palette's own colours
        .show_value(options.VisibilityMode.NEVER)  # Grafana would truncate words at the end of a state
        .color_scheme(_fixed(palette.NO_DATA))  # colouring by thresholds would show these instead of the words
        .legend(_legend_below())
        .override_by_regexp("/.*/", properties(noValue=None))
    )


def against_apps(signal: Signal) -> trend.Panel:
    """The current signal against the number of applications (label `apps`), with a line for each `placement`."""
    x_field = r"apps\placement"
    # Without data this kind of panel fails: with a missing field X it reports an error; a bar chart shows "No data in
    # response". It shows its no-value text only if it has a numeric first field without rows. So a row is added, and
    # filtered out.
    never_empty = replace(signal, query=f"{signal.expr} or on () vector(NaN)")
    is_number = {"fieldName": "Value", "config": {"id": "greaterOrEqual", "options": {"value": 0}}}  # NaN isn't
    return (
        of(signal, trend.Panel(), as_table(never_empty))
        .interval("1m")  # at 15 s, six such queries over a day may exceed Grafana's timeout
        .max_data_points(5760)  # one per 5 minutes of a month, so that an hourly job appears at all its times
        .transformations(
            [
                transformation("filterByValue", filters=[is_number], match="any", type="include"),
                transformation(
                    "organize", excludeByName={"Time": True}, indexByName={x_field: 0, "Value": 1}, renameByName={}
                ),
                transformation("sortBy", fields={}, sort=[{"field": "placement"}]),
                transformation("groupingToMatrix", rowField="apps", columnField="placement", valueField="Value"),
                # Labels are strings.
                transformation(
                    "convertFieldType", conversions=[{"targetField": x_field, "destinationType": "number"}], fields={}
                ),
                transformation("sortBy", fields={}, sort=[{"field": x_field}]),
            ]
        )
        .min(0)
        .color_scheme(_by_name())
        .legend(_legend_below())
        .line_width(2)
        .fill_opacity(0)
        .show_points(options.VisibilityMode.ALWAYS)
        .point_size(9)
        .tooltip(common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI))
        .override_by_name(
            x_field,
            properties(
                custom_axisLabel="applications",
                displayName="applications",
                unit=units.NoUnit,
                mappings=_no_fractions(),
            ),
        )
    )


def _no_fractions() -> list[dashboard.RangeMap]:
    """Hide labels of ticks between whole numbers, which Grafana adds where there is room.

    Zero decimals would round them, and two ticks would show the same number.
    """
    nothing = dashboard.ValueMappingResult(text="")
    return [
        dashboard.RangeMap(dashboard.DashboardRangeMapOptions(from_val=tick + 0.01, to=tick + 0.99, result=nothing))
        for tick in range(_MANY_TICKS)
    ]


def small(panel: _PanelT) -> _PanelT:
    """A graph of a third of the page's width."""
    return panel.span(8).height(8)


# Parts of panels


def query(signal: Signal, index: int = 0) -> prometheus.Dataquery:
    """The signal's query, the `index`-th of its panel."""
    asked = prometheus.Dataquery().expr(signal.expr).legend_format(signal.legend).ref_id(ref_id(index))
    return asked.interval(_RATE_STEP) if "$__rate_interval" in signal.expr else asked


def as_table(signal: Signal, index: int = 0) -> prometheus.Dataquery:
    """The same as an instant query, with a row for each series."""
    asked = prometheus.Dataquery().expr(signal.expr).ref_id(ref_id(index)).instant().format(PromQueryFormat.TABLE)
    return asked.interval(_RATE_STEP) if "$__rate_interval" in signal.expr else asked


def ref_id(index: int) -> str:
    """Grafana's query numbering: A, B, C."""
    return chr(ord("A") + index)


def transformation(kind: str, **settings: object) -> dashboard.DataTransformerConfig:
    """A transformation of query results."""
    return dashboard.DataTransformerConfig(id_val=kind, options=settings)


def properties(**values: object) -> Properties:
    """Properties of an override, by name; custom_NAME is one of this kind of panel."""
    return [
        dashboard.DynamicConfigValue(id_val=name.replace("custom_", "custom."), value=value)
        for name, value in values.items()
    ]


def coloured(colour: str) -> Properties:
    """Properties of an override that sets a series' colour."""
    return properties(color={"mode": "fixed", "fixedColor": colour})


def as_line(colour: str) -> Properties:
    """Properties of an override that draws a series as a dashed line outside the stack."""
    return coloured(colour) + properties(
        custom_stacking={"mode": "none", "group": "limit"},
        custom_fillOpacity=0,
        custom_lineWidth=2,
        custom_lineStyle={"fill": "dash", "dash": [10, 10]},
    )


def severity_steps(signal: Signal) -> list[dashboard.Threshold]:
    """Backgrounds of a value by its thresholds; none without thresholds."""
    if signal.low is not None:
        lowest = palette.WARNING if signal.critically_low is None else palette.CRITICAL
        found = [(None, lowest), (signal.critically_low, palette.WARNING), (signal.low, palette.FINE)]
    else:
        found = [(None, palette.FINE if signal.is_judged else palette.NONE)]
        found += [(signal.high, palette.WARNING), (signal.critical, palette.CRITICAL)]
    first, *others = found
    return [dashboard.Threshold(*step) for step in (first, *(each for each in others if each[0] is not None))]


def severity_words() -> list[dashboard.RangeMap]:
    """Severity words for severity points."""
    # A range includes both ends, and points are no finer than this.
    ends = [points - 1e-6 for points in SEVERITY_POINTS.values()][1:]
    return [
        dashboard.RangeMap(
            dashboard.DashboardRangeMapOptions(
                from_val=points, to=end, result=dashboard.ValueMappingResult(text=word, color=palette.SEVERITY[word])
            )
        )
        for (word, points), end in zip(SEVERITY_POINTS.items(), [*ends, None], strict=True)
    ]


def in_words(words: Iterable[tuple[object, str]], colours: Mapping[str, str]) -> dashboard.ValueMap:
    """Show words instead of values, each in its colour, if it has one."""
    return dashboard.ValueMap(
        {str(value): dashboard.ValueMappingResult(text=word, color=colours.get(word)) for value, word in words}
    )


def no_value(words: str) -> dashboard.SpecialValueMap:
    """Sets the no-value text on the no-data background, which no severity has."""
    return dashboard.SpecialValueMap(
        dashboard.DashboardSpecialValueMapOptions(
            match=dashboard.SpecialValueMatch.NULL_AND_NAN,
            result=dashboard.ValueMappingResult(text=words, color=palette.NO_DATA),
        )
    )


def steps(thresholds: list[dashboard.Threshold]) -> build.ThresholdsConfig:
    """Thresholds in the values' unit."""
    return build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(thresholds)


def _legend_below() -> common.VizLegendOptions:
    """The legend of a graph with others next to it: Grafana limits it to a third of the height, and scrolls."""
    return common.VizLegendOptions().show_legend(True)


def _by_name() -> build.FieldColor:
    return build.FieldColor().mode(dashboard.FieldColorModeId.PALETTE_CLASSIC_BY_NAME)


def in_order() -> build.FieldColor:
    """Colours by position among the panel's series: all differ, but a name may have another colour on another panel."""
    return build.FieldColor().mode(dashboard.FieldColorModeId.PALETTE_CLASSIC)


def _fixed(colour: str) -> build.FieldColor:
    return build.FieldColor().mode(dashboard.FieldColorModeId.FIXED).fixed_color(colour)
