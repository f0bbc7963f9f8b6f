"""Who waits for whom: one host's virtual servers by what had the CPU, disk or memory meanwhile."""

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models.dashboard import FieldColorModeId

from dashboards import marks, panels, tables, variables, waiting
from dashboards.layout import Row, page
from dashboards.signals import neighbours

_CELL_WIDTH, _OF_ROWS_WIDTH = 84, 240  # pixels: a cell, and a row's name
_DARKEST = 0.5  # cells have the darkest colour from this value on


def _matrix() -> table.Panel:
    """A row for each virtual server that waits, a column for each that ran; both link to their pages.

    The column of totals has no coloured background. Columns that aren't virtual servers link to the row's page only.
    """
    corner = rf"vserver\{neighbours.COLUMN}"
    of_row, of_column = '__data.fields["Waits"]', "__field.name"
    to_row = tables.to_virtual_server(f"${{{of_row}}} (waits)", of_row)
    return (
        panels.of(neighbours.MATRIX, table.Panel(), panels.as_table(neighbours.MATRIX))
        .with_target(panels.as_table(neighbours.TOTALS, 1))
        .transformations(
            [
                # Each query has its own column of values: a row has a number in one of them.
                panels.transformation("merge"),
                panels.transformation(
                    "calculateField", mode="reduceRow", reduce={"reducer": "sum"}, alias="Value", timeSeries=False
                ),
                panels.transformation(
                    "groupingToMatrix", rowField="vserver", columnField=neighbours.COLUMN, valueField="Value"
                ),
                panels.transformation(
                    "organize",
                    # Without series these are left, and would hide the reason.
                    excludeByName=dict.fromkeys(("Time", "Value #A", "Value #B", "Value"), True),
                    indexByName={corner: 0, neighbours.TOTAL: 1},
                    renameByName={corner: "Waits"},
                ),
            ]
        )
        .decimals(2)
        .min(0)
        .max(_DARKEST)
        .color_scheme(build.FieldColor().mode(FieldColorModeId.CONTINUOUS_BLUES))
        .override_by_field_type(
            "number",
            panels.properties(
                noValue=None,
                custom_cellOptions=tables.GROUND,
                custom_minWidth=_CELL_WIDTH,
                custom_wrapHeaderText=True,  # Grafana 12 and newer
            ),
        )
        # If two overrides give a column links, it has both.
        .override_by_regexp(
            f"/^(?!(Waits|{neighbours.WITHOUT_PAGE})$)/",
            tables.links(to_row, tables.to_virtual_server(f"${{{of_column}}} (ran)", of_column)),
        )
        .override_by_regexp(f"/^({neighbours.WITHOUT_PAGE})$/", tables.links(to_row))
        .override_by_name(neighbours.TOTAL, panels.properties(custom_cellOptions={"type": "auto"}))
        .override_by_name(
            "Waits",
            [
                *tables.as_wide(_OF_ROWS_WIDTH, wrapped=True),
                *tables.links(
                    tables.to_page("virtscope-neighbours", "Who ran meanwhile", {"vserver": "Waits"}, keep=["host"]),
                    tables.to_virtual_server("Virtual server", of_row),
                    *tables.to_own_words({"vserver": "Waits"}, keep=["host"]),
                ),
            ],
        )
        .sort_by(tables.descending(neighbours.TOTAL))
        .span(24)
        .height(12)
    )


PAGE = page(
    uid="virtscope-neighbours",
    title="Who waits for whom",
    question="Who waits for whom on this host?",
    answer=(
        "A row for each virtual server that is delayed, a column for each that delays it; below it that "
        "over time and by reason, and whom an application's waiting names."
    ),
    variables=[*variables.of_one_host('vserver:delay:rate{reason="self"}'), variables.resource()],
    annotations=[marks.changes(), marks.alerts()],
    refresh="30s",
    rows=[
        Row("", _matrix()),
        Row(
            "Over time",
            waiting.by_who(neighbours.WHO, neighbours.OWN).span(14).height(10),
            waiting.by_reason(neighbours.BY_REASON).span(10).height(10),
        ),
        Row("Applications", waiting.named("Named neighbours of the host's applications", of_all=True).span(24)),
    ],
)
