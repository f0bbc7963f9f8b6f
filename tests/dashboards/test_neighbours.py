"""The matrix of who waits for whom, and what is said of the neighbours of an application."""

from __future__ import annotations

from pathlib import Path

from dashboards.signals import neighbours
from tests.dashboards.promtool import assert_answers

HOST = 'host="xen1",platform="xen"'


def caused(vserver: str, by: str, reason: str = "neighbour") -> str:
    labels = f'{HOST},vserver="{vserver}",role="guest",reason="{reason}",by="{by}"'
    return f"vserver:cpu_wait_caused:rate{{{labels}}}"


def test_the_matrix_has_who_ran_and_leaves_out_what_is_nobody(tmp_path: Path) -> None:
    """Each cell: who waits, the column, and the value. The second guest's share would be read as 0.00."""
    history = {
        caused("shop", "batch"): "0.5x5",
        caused("shop", "blog"): "0.00390625x5",
        caused("shop", "shop", "self"): "0.25x5",
        caused("shop", "system.slice/backup.service", "host"): "0.125x5",
        caused("shop", "(unknown)", "unknown"): "0.0625x5",
        caused("shop", "(cap)", "cap"): "2x5",
        caused("shop", "(wakeup)", "wakeup"): "2x5",
        caused("batch", "shop"): "0.1x5",
        caused("batch", "batch", "self"): "0.125x5",
        caused("batch", "shop").replace("xen1", "xen2"): "9x5",  # on another host
    }
    shop = {"batch": 0.5, "shop": 0.25, "backup.service": 0.125, "(others)": 0.0625, "(total)": 0.69140625}
    cells = {f'{{vserver="shop",column="{column}"}}': value for column, value in shop.items()}
    batch = {"shop": 0.1, "batch": 0.125, "(total)": 0.1}
    cells |= {f'{{vserver="batch",column="{column}"}}': value for column, value in batch.items()}
    assert_answers(tmp_path, neighbours.MATRIX.expr, 3, cells, history)
    # The same by who ran and by reason; own threads are one, whoever has them.
    ran = {"batch": 0.5, "blog": 0.00390625, "own threads": 0.375, "system.slice/backup.service": 0.125}
    ran |= {"(unknown)": 0.0625, "(cap)": 2, "(wakeup)": 2, "shop": 0.1}
    wanted = {f'{{by="{by}"}}': value for by, value in ran.items()}
    assert_answers(tmp_path, neighbours.WHO.expr, 3, wanted, history)
    assert_answers(tmp_path, f"sum({neighbours.WHO.expr}) - sum({neighbours.BY_REASON.expr})", 3, {"{}": 0}, history)


def test_of_a_hundred_containers_the_matrix_has_those_that_matter_and_the_rest_in_a_column(tmp_path: Path) -> None:
    """Each waits for eight others: container-0 is in everybody's way, the last ones wait longest."""
    history = {}
    for victim in range(100):
        history[caused(f"container-{victim}", "container-0" if victim else "container-1")] = "0.1x5"
        for step in range(1, 8):
            name = f"container-{(victim + 7 * step) % 100}"
            history[caused(f"container-{victim}", name)] = f"{0.001 * (victim + 10)}x5"
    matrix = f"({neighbours.MATRIX.expr})"
    total = f"{matrix} and {column('(total)')}"
    complete = f"count(abs(sum by (vserver) ({matrix} unless {column('(total)')}) - sum by (vserver) ({total})) < 1e-9)"
    for expr in (f"count(count by (vserver) {matrix})", f"count({matrix} and {column('container-0')})", complete):
        assert_answers(tmp_path, expr, 3, {"{}": neighbours.ROWS}, history)
    named = neighbours.COLUMNS + 2  # and the total, and the rest
    assert_answers(tmp_path, f"count(count by (column) {matrix}) <= bool {named}", 3, {"{}": 1}, history)


def column(name: str) -> str:
    return f'on (column) label_replace(vector(1), "column", "{name}", "", "")'


def test_an_application_would_get_back_what_it_waited_for_while_its_neighbour_ran(tmp_path: Path) -> None:
    app = f'{HOST},app="shop"'
    history = {
        f'app:cpu_wait_caused:rate{{{app},reason="neighbour",by="batch"}}': "0.33x5",
        f'app:cpu_wait_caused:rate{{{app},reason="neighbour",by="blog"}}': "0.07x5",
        f'app:cpu_wait_caused:rate{{{app},reason="self",by="shop-db"}}': "0.5x5",
        f'app:neighbour:ratio{{{app},by="batch"}}': "0.825x5",
        f'app:neighbour_since:seconds{{{app},by="batch"}}': "60x5",
        f'app:neighbour_since:seconds{{{app},by="blog"}}': "60x5",  # no longer named
    }
    advice = {f'app:cpu_wait_caused:rate{{{app},reason="neighbour",by="batch"}}': 0.33}
    assert_answers(tmp_path, neighbours.GIVES_BACK.expr, 3, advice, history)
    assert_answers(tmp_path, neighbours.SINCE.expr, 3, {f'{{{app},by="batch"}}': 60000.0}, history)


def test_prediction_and_measurement_stay_for_the_time_shown(tmp_path: Path) -> None:
    predicted, regained = (
        f'app:neighbour_{record}:rate{{{HOST},app="shop",by="batch"}}' for record in ("predicted", "regained")
    )
    history = {predicted: "_x5 0.33x10 stale", regained: "_x5 0.2x9 0.29 stale"}
    assert_answers(tmp_path, neighbours.PREDICTED.expr, 40, {predicted: 0.33}, history)
    assert_answers(tmp_path, neighbours.REGAINED.expr, 40, {regained: 0.29}, history)
