"""Who waits for whom: CPU wait of one host's virtual servers by what ran meanwhile."""

from grafana_foundation_sdk.builders import table

from dashboards import marks, tables, variables, waiting
from dashboards.layout import Row, page
from dashboards.signals import neighbours


def _matrix() -> table.Panel:
    return (
        tables.matrix(
            neighbours.MATRIX,
            "vserver",
            neighbours.COLUMN,
            header="Waits",
            first=[neighbours.TOTAL],
            without_page=neighbours.WITHOUT_PAGE,
        )
        .span(24)
        .height(12)
    )


PAGE = page(
    uid="virtscope-neighbours",
    title="Who waits for whom",
    question="Who waits for whom on this host?",
    answer=(
        "A row for each virtual server that waits for a CPU, a column for each that ran meanwhile; below it that "
        "over time and by reason, and whom an application's waiting names."
    ),
    variables=variables.of_one_host('vserver:cpu_wait_caused:rate{reason="self"}'),
    annotations=[marks.changes(), marks.alerts()],
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
