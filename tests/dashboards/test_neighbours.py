"""The matrix of who waits for whom, and what is said of the neighbours of an application."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dashboards.signals import neighbours
from tests.dashboards.promtool import assert_answers
from tests.dashboards.queries import FOLDER, panels
from tests.dashboards.test_fit import PANEL_PADDING, columns, width

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


def test_a_cell_leads_to_who_waits_and_to_who_ran() -> None:
    of_cells = {each["title"]: each["url"] for each in links("batch")}
    waits, ran = '${__data.fields["Waits"]', "${__field.name"
    assert list(of_cells) == [f"{waits}}} (waits)", f"{ran}}} (ran)"]
    for name, url in zip((waits, ran), of_cells.values(), strict=True):
        assert url.startswith("/d/virtscope-virtual-servers?")
        assert url.endswith(f"&var-hosts=${{host:percentencode}}&var-vserver={name}:percentencode}}")
    assert any(each["url"].startswith("/d/virtscope-neighbours?") for each in links("Waits"))


@pytest.mark.parametrize("column", [neighbours.TOTAL, neighbours.REST, "host", "backup.service", "user-1000.slice"])
def test_a_cell_of_what_is_no_virtual_server_leads_to_who_waits_alone(column: str) -> None:
    (only,) = links(column)
    assert only["title"] == '${__data.fields["Waits"]} (waits)'


@pytest.mark.parametrize("column", ["localhost", "system.slice/shop.service", "a.service.b"])
def test_a_name_like_that_of_a_unit_is_still_a_virtual_server(column: str) -> None:
    assert len(links(column)) == 2


def test_waiting_is_the_same_by_who_ran_and_by_reason(tmp_path: Path) -> None:
    """And own threads are one, whoever has them."""
    history = {
        caused("shop", "batch"): "0.5x5",
        caused("shop", "shop", "self"): "0.25x5",
        caused("batch", "batch", "self"): "0.125x5",
        caused("shop", "(cap)", "cap"): "2x5",
    }
    who = neighbours.WHO.expr.replace("$vserver", ".*")
    assert_answers(tmp_path, who, 3, {'{by="batch"}': 0.5, '{by="own threads"}': 0.375, '{by="(cap)"}': 2.0}, history)
    by_reason = neighbours.BY_REASON.expr.replace("$vserver", ".*")
    assert_answers(tmp_path, f"sum({who}) - sum({by_reason})", 3, {"{}": 0.0}, history)


def test_the_matrix_fits_a_laptop() -> None:
    """The names of the rows, the total, the rest, and those that are waited for most."""
    least = columns(matrix())
    taken = least["Waits"] + (neighbours.COLUMNS + 2) * least["number"]
    assert taken <= width(matrix()) - PANEL_PADDING


def test_an_empty_cell_is_blank_and_an_empty_matrix_says_why() -> None:
    assert matrix()["fieldConfig"]["defaults"]["noValue"] == neighbours.MATRIX.absent
    (of_cells,) = [each for each in matrix()["fieldConfig"]["overrides"] if each["matcher"]["options"] == "number"]
    assert {"id": "noValue"} in of_cells["properties"], "no value: Grafana removes the panel's own"


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


def matrix() -> dict[str, Any]:
    page = json.loads((FOLDER / "neighbours.json").read_text())
    return next(panel for panel in panels(page) if panel.get("title") == neighbours.MATRIX.name)


def links(column: str) -> list[dict[str, str]]:
    """Where a column leads: all that its overrides say, as Grafana 12.4 adds the links of each to those before it."""
    found: list[dict[str, str]] = []
    for override in matrix()["fieldConfig"]["overrides"]:
        matcher = override["matcher"]
        if matcher["id"] == "byRegexp":
            matches = re.search(matcher["options"].strip("/"), column) is not None
        else:
            matches = matcher["options"] == column or (matcher["id"] == "byType" and column != "Waits")
        for each in override["properties"]:
            found += each["value"] if matches and each["id"] == "links" else []
    return found
