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
    history = {
        caused("shop", "batch"): "0.5x5",
        caused("shop", "blog"): "0.00390625x5",  # would be read as 0.00
        caused("shop", "shop", "self"): "0.25x5",
        caused("shop", "system.slice/backup.service", "host"): "0.125x5",
        caused("shop", "(unknown)", "unknown"): "0.0625x5",
        caused("shop", "(cap)", "cap"): "2x5",
        caused("shop", "(wakeup)", "wakeup"): "2x5",
        caused("batch", "shop"): "0.1x5",
        caused("batch", "shop").replace("xen1", "xen2"): "9x5",  # on another host
    }
    cells = {
        '{vserver="shop",column="batch"}': 0.5,
        '{vserver="shop",column="shop"}': 0.25,
        '{vserver="shop",column="backup.service"}': 0.125,
        '{vserver="shop",column="(others)"}': 0.0625,
        '{vserver="shop",column="(total)"}': 0.69140625,
        '{vserver="batch",column="shop"}': 0.1,
        '{vserver="batch",column="(total)"}': 0.1,
    }
    assert_answers(tmp_path, neighbours.MATRIX.expr, 3, cells, history)


def test_of_a_hundred_containers_the_matrix_has_those_that_matter_and_the_rest_in_a_column(tmp_path: Path) -> None:
    """Each waits for eight others: container-0 is in everybody's way, the last ones wait longest."""
    history = {}
    for victim in range(100):
        history[caused(f"container-{victim}", "container-0" if victim else "container-1")] = "0.1x5"
        for step in range(1, 8):
            name = f"container-{(victim + 7 * step) % 100}"
            history[caused(f"container-{victim}", name)] = f"{0.001 * (victim + 10)}x5"
    expr = neighbours.MATRIX.expr
    assert_answers(tmp_path, f"count(count by (vserver) ({expr}))", 3, {"{}": neighbours.ROWS}, history)
    in_the_way = f'count(({expr}) and on (column) label_replace(vector(1), "column", "container-0", "", ""))'
    assert_answers(tmp_path, in_the_way, 3, {"{}": neighbours.ROWS}, history)
    named = neighbours.COLUMNS + 2  # and the total, and the rest
    assert_answers(tmp_path, f"count(count by (column) ({expr})) <= bool {named}", 3, {"{}": 1}, history)
    parts = f'sum by (vserver) (({expr}) unless on (column) label_replace(vector(1), "column", "(total)", "", ""))'
    total = f'sum by (vserver) (({expr}) and on (column) label_replace(vector(1), "column", "(total)", "", ""))'
    complete = f"count(abs({parts} - {total}) < 1e-9)"
    assert_answers(tmp_path, complete, 3, {"{}": neighbours.ROWS}, history)


def test_waiting_is_the_same_by_who_ran_and_by_reason(tmp_path: Path) -> None:
    """And own threads are one, whoever has them."""
    history = {
        caused("shop", "batch"): "0.5x5",
        caused("shop", "shop", "self"): "0.25x5",
        caused("batch", "batch", "self"): "0.125x5",
        caused("shop", "(cap)", "cap"): "2x5",
    }
    who = neighbours.WHO.expr
    assert_answers(tmp_path, who, 3, {'{by="batch"}': 0.5, '{by="own threads"}': 0.375, '{by="(cap)"}': 2.0}, history)
    by_reason = neighbours.BY_REASON.expr
    assert_answers(tmp_path, f"sum({who}) - sum({by_reason})", 3, {"{}": 0.0}, history)


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
    of_batch = '{host="xen1",platform="xen",app="shop",by="batch"}'
    advice = {f'app:cpu_wait_caused:rate{{{app},reason="neighbour",by="batch"}}': 0.33}
    assert_answers(tmp_path, neighbours.GIVES_BACK.expr, 3, advice, history)
    assert_answers(tmp_path, neighbours.SINCE.expr, 3, {of_batch: 60000.0}, history)


def test_prediction_and_measurement_stay_for_the_time_shown(tmp_path: Path) -> None:
    labels = f'{{{HOST},app="shop",by="batch"}}'
    history = {
        f"app:neighbour_predicted:rate{labels}": "_x5 0.33x10 stale",
        f"app:neighbour_regained:rate{labels}": "_x5 0.2x9 0.29 stale",
    }
    assert_answers(tmp_path, neighbours.PREDICTED.expr, 40, {f"app:neighbour_predicted:rate{labels}": 0.33}, history)
    assert_answers(tmp_path, neighbours.REGAINED.expr, 40, {f"app:neighbour_regained:rate{labels}": 0.29}, history)
