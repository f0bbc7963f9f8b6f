"""What a page shows fits: on a laptop with Grafana's menu docked nothing is cut, on a wall the answer is in sight.

Widths are estimates on the safe side, of Grafana's font (Inter, 14 px) and of its own paddings.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dashboards.panels import title_width
from tests.dashboards.queries import FOLDER, panels

LAPTOP = 1366 - 300 - 2 * 16 - 8  # pixels beside the docked menu, between the page's paddings, less a scroll bar
WALL = 1080 - 2 * 16  # pixels from top to bottom in kiosk mode
GRID, GAP, UNIT = 24, 8, 38  # columns; pixels between them; pixels of a unit of height with its gap
PANEL_PADDING = 2 * 8 + 2
TITLE_REST = 96  # a title's padding, the sign of the description, and room for the menu
LETTER = 7.2  # pixels
CELL_PADDING, ROW, HEADER, TITLE = 13, 36, 36, 40
SORT_ARROW = 20
TILE_REASON = 16  # letters

Panel = dict[str, Any]
EVERY = [
    (path, panel)
    for path in sorted(FOLDER.glob("*.json"))
    for panel in panels(json.loads(path.read_text()))
    if panel["type"] != "text"
]
ALL = [pytest.param(panel, id=f"{path.stem}: {panel['title']}") for path, panel in EVERY]
ALL_TABLES = [(path, panel) for path, panel in EVERY if panel["type"] == "table"]
TABLES = [pytest.param(panel, id=f"{path.stem}: {panel['title']}") for path, panel in ALL_TABLES]
VARIABLES = {"$other_event": 12, "$other_host": 12, "${other_time:text}": 15, "$event": 12, "$host": 12, "$ctid": 36}


@pytest.mark.parametrize("panel", ALL)
def test_a_title_fits_its_panel(panel: Panel) -> None:
    title = panel["title"]
    for variable, letters in VARIABLES.items():
        title = title.replace(variable, "x" * letters)
    assert title_width(title) + TITLE_REST <= width(panel)


@pytest.mark.parametrize("panel", TABLES)
def test_the_columns_of_a_table_fit_its_panel(panel: Panel) -> None:
    """Grafana gives equal shares of what is left to columns without a width, but none less than its least."""
    fixed, least = columns(panel, "custom.width"), columns(panel, "custom.minWidth")
    least = {header: pixels for header, pixels in least.items() if header not in fixed}
    left = width(panel) - PANEL_PADDING - sum(fixed.values())
    assert left >= 0
    if least:
        assert left / len(least) >= max(least.values())


@pytest.mark.parametrize("panel", TABLES)
def test_a_header_fits_its_column(panel: Panel) -> None:
    sorted_by = {each["displayName"] for each in panel["options"].get("sortBy", [])}
    for header, pixels in columns(panel).items():
        arrow = SORT_ARROW if header in sorted_by else 0
        assert title_width(header) + CELL_PADDING + arrow <= pixels, header


@pytest.mark.parametrize("panel", TABLES)
def test_a_table_of_alerts_shows_ten_rows(panel: Panel) -> None:
    if "Alert" in columns(panel):
        assert (panel["gridPos"]["h"] * UNIT - GAP - TITLE - HEADER) // ROW >= 10


def test_the_longest_name_of_an_alert_fits_its_column() -> None:
    longest = max((path.stem for path in (FOLDER.parents[1] / "docs" / "runbooks").glob("*.md")), key=len)
    for _, panel in ALL_TABLES:
        if "Alert" in columns(panel):
            assert LETTER * len(longest) + CELL_PADDING <= columns(panel)["Alert"], panel["title"]


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_the_sentences_at_the_top_take_two_lines(page: Any) -> None:
    (text,) = [each for each in panels(json.loads(page.read_text())) if each["type"] == "text"]
    assert LETTER * len(text["options"]["content"]) <= 2 * (width(text) - PANEL_PADDING)


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_at_most_four_tiles_stand_in_a_row(page: Any) -> None:
    rows: dict[int, int] = {}
    for panel in panels(json.loads(page.read_text())):
        if panel["type"] == "stat" and panel["title"]:
            rows[panel["gridPos"]["y"]] = rows.get(panel["gridPos"]["y"], 0) + 1
    assert all(tiles <= 4 for tiles in rows.values())


@pytest.mark.parametrize("panel", ALL)
def test_a_tile_without_a_value_says_why_in_a_word_or_three(panel: Panel) -> None:
    if panel["type"] == "stat":
        reason = panel["fieldConfig"]["defaults"]["noValue"]
        assert 0 < len(reason) <= TILE_REASON
        (of_null,) = [each for each in panel["fieldConfig"]["defaults"]["mappings"] if each["type"] == "special"]
        assert of_null["options"]["match"] == "null+nan"
        assert of_null["options"]["result"]["text"] == reason


@pytest.mark.parametrize("panel", ALL)
def test_an_empty_graph_or_table_says_why_in_one_line(panel: Panel) -> None:
    if panel["type"] != "stat":
        reason = panel["fieldConfig"]["defaults"]["noValue"]
        assert 20 < len(reason) <= 100
        assert "\n" not in reason


@pytest.mark.parametrize("panel", ALL)
def test_a_gap_in_a_series_is_not_filled_with_the_text_for_no_value(panel: Panel) -> None:
    if panel["type"] in {"timeseries", "state-timeline"}:
        (of_all,) = [each for each in panel["fieldConfig"]["overrides"] if each["matcher"]["options"] == "/.*/"]
        assert of_all["properties"] == [{"id": "noValue"}], "no value: Grafana removes the panel's own"


@pytest.mark.parametrize("panel", ALL)
def test_states_are_named_in_the_legend_alone(panel: Panel) -> None:
    """Grafana cuts a word off where its state ends, in a day's states nearly all."""
    if panel["type"] == "state-timeline":
        assert panel["options"]["showValue"] == "never"
        assert panel["options"]["legend"]["showLegend"]


@pytest.mark.parametrize("panel", ALL)
def test_an_axis_of_applications_names_no_fractions_of_them(panel: Panel) -> None:
    for override in panel["fieldConfig"]["overrides"]:
        properties = {each["id"]: each.get("value") for each in override["properties"]}
        if properties.get("custom.axisLabel") == "applications":
            nameless = [each["options"] for each in properties["mappings"]]
            assert all(each["result"]["text"] == "" for each in nameless)
            for tick in (0.2, 0.5, 1.25, 3.75, 7.5):
                assert any(each["from"] <= tick <= each["to"] for each in nameless), tick
            for tick in range(20):
                assert not any(each["from"] <= tick <= each["to"] for each in nameless), tick


@pytest.mark.parametrize("panel", TABLES)
def test_a_table_without_rows_has_no_headers_either(panel: Panel) -> None:
    """Else Grafana shows these, and not the reason."""
    ids = [each["id"] for each in panel["transformations"]]
    if ids[0] == "groupingToMatrix":
        assert len(panel["targets"]) == 1, "whose answer without rows has no labels either"
        return
    assert ids == ["filterFieldsByName", "merge", "groupBy", "organize"]
    fields = panel["transformations"][2]["options"]["fields"].values()
    assert "groupby" in {each["operation"] for each in fields}


@pytest.mark.parametrize("panel", ALL)
def test_legends_of_graphs_that_have_others_beside_them_are_below(panel: Panel) -> None:
    if panel["type"] == "timeseries" and panel["gridPos"]["w"] < GRID:
        legend = panel["options"]["legend"]
        assert not legend["showLegend"] or legend["placement"] == "bottom"


def test_fleet_shows_hosts_reasons_and_ten_alerts_on_a_wall() -> None:
    page = json.loads((FOLDER / "fleet.json").read_text())
    bottom = {panel.get("title"): panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels(page)}
    assert bottom["Hosts that need attention"] * UNIT <= WALL / 2
    assert bottom["Firing alerts"] * UNIT <= WALL


def width(panel: Panel) -> float:
    """Pixels on a laptop."""
    units: int = panel["gridPos"]["w"]
    return units * (LAPTOP - (GRID - 1) * GAP) / GRID + (units - 1) * GAP


def columns(panel: Panel, *kinds: str) -> dict[str, int]:
    """Pixels that each column takes, or takes at least, by its header; or one of these kinds alone."""
    widths: dict[str, int] = {}
    for override in panel["fieldConfig"]["overrides"]:
        for each in override["properties"]:
            if each["id"] in (kinds or {"custom.width", "custom.minWidth"}):
                widths[override["matcher"]["options"]] = each["value"]
    return widths
