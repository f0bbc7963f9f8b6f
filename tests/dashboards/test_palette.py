"""Colours can be read and seen in both of Grafana's themes, and those of severity stand for nothing else."""

from __future__ import annotations

import colorsys
import itertools
import json
from typing import Any

from dashboards import palette
from dashboards.signals import neighbours
from tests.dashboards.queries import FOLDER, panels

PANEL_GROUNDS = {"dark": "#181B1F", "light": "#FFFFFF"}  # of Grafana 11 to 13
PANEL_TEXT = {"dark": "#CCCCDC", "light": "#24292E"}
TEXT, LINE = 4.5, 3.0  # WCAG 2.2, 1.4.3 and 1.4.11
JUDGED = {palette.FINE, palette.WARNING, palette.CRITICAL, palette.NO_DATA}
NAMED = {palette.PLAIN, palette.NONE}
PAGES = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]
ALL_PANELS = [panel for page in PAGES for panel in panels(page)]


def test_text_can_be_read_and_lines_can_be_seen_in_both_themes() -> None:
    """Of tiles and cells, which have their colour as the ground, of flags on the text's own colour, of graphs."""
    for ground in [*JUDGED, *palette.SERIES, *PANEL_TEXT.values()]:
        assert contrast(text_on(ground), ground) >= TEXT, ground
    for theme, panel in PANEL_GROUNDS.items():
        for line in [*palette.SERIES, palette.CRITICAL, PANEL_TEXT[theme]]:
            assert contrast(line, panel) >= LINE, f"{line} in the theme {theme}"


def test_each_severity_has_another_hue_than_every_series() -> None:
    for judged, series in itertools.product(JUDGED - {palette.NO_DATA}, palette.SERIES):
        apart = abs(hue(judged) - hue(series))
        assert min(apart, 360 - apart) >= 30, (judged, series)
    assert saturation(palette.NO_DATA) < 0.2
    assert all(saturation(series) > 0.5 for series in palette.SERIES)


def test_every_colour_is_of_the_palette_and_those_of_severity_stand_for_nothing_else() -> None:
    """The words of a state timeline are judgements as those of a cell are."""
    for panel in ALL_PANELS:
        found_in = [*found(panel, "color"), *found(panel, "fixedColor")]
        assert {each for each in found_in if isinstance(each, str)} <= {*palette.SERIES, *JUDGED, *NAMED}, panel[
            "title"
        ]
        fixed = {each["fixedColor"] for each in found_in if isinstance(each, dict) and "fixedColor" in each}
        if panel["type"] != "state-timeline":
            assert fixed <= {*palette.SERIES, *NAMED}, panel.get("title")
        if panel.get("title") == "":  # the flag of the data's origin
            words = panel["fieldConfig"]["defaults"]["mappings"] if "fieldConfig" in panel else []
            flagged = {word["color"] for each in words if each["type"] == "value" for word in each["options"].values()}
            assert flagged <= NAMED
    # No data and an unknown cause look different.
    assert palette.CAUSES["unknown"] not in {palette.NO_DATA, palette.CAUSES["met"]}
    assert len(set(palette.CAUSES.values())) == len(palette.CAUSES)


def test_series_that_vary_have_the_colour_that_grafana_gives_their_name() -> None:
    """By name and not by their order: a virtual server has its colour on all panels and pages.

    But for who ran meanwhile: ten areas on top of each other, of which no two may have the same colour.
    """
    several = [
        panel for panel in ALL_PANELS if panel["type"] == "timeseries" and panel["options"]["legend"]["showLegend"]
    ]
    assert several
    by_who = {neighbours.WHO.name, neighbours.APP_FOR.name}
    assert by_who <= {panel["title"] for panel in several}
    for panel in several:
        mode = "palette-classic" if panel["title"] in by_who else "palette-classic-by-name"
        assert panel["fieldConfig"]["defaults"]["color"] == {"mode": mode}, panel["title"]


def test_a_host_among_its_guests_has_a_colour_of_its_own() -> None:
    named = [
        panel for panel in ALL_PANELS if any('" (host)", "role"' in each["expr"] for each in panel.get("targets", []))
    ]
    assert named
    for panel in named:
        (override,) = [each for each in panel["fieldConfig"]["overrides"] if "(host" in each["matcher"]["options"]]
        assert found(override, "fixedColor") == [palette.HOST], panel["title"]


def found(tree: Any, key: str) -> list[Any]:
    """All that a key stands for, anywhere in a tree."""
    if isinstance(tree, list):
        return [each for branch in tree for each in found(branch, key)]
    if isinstance(tree, dict):
        return [
            each for name, branch in tree.items() for each in ([branch] if name == key else []) + found(branch, key)
        ]
    return []


def text_on(ground: str) -> str:
    """The colour of text that Grafana chooses (getTextColorForAlphaBackground in @grafana/ui)."""
    red, green, blue = (255 * part for part in parts(ground))
    return "#202226" if (299 * red + 587 * green + 114 * blue) / 1000 > 180 else "#F7F8FA"


def contrast(one: str, other: str) -> float:
    """WCAG's ratio, from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def hue(colour: str) -> float:
    return 360 * colorsys.rgb_to_hls(*parts(colour))[0]


def saturation(colour: str) -> float:
    return colorsys.rgb_to_hls(*parts(colour))[2]


def parts(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue
