"""Colours are readable in both themes of Grafana and the console page, and severity colours are reserved."""

import json
import re
from typing import Any

from dashboards import palette
from dashboards.signals import neighbours
from tests.console.served import ROOT
from tests.dashboards.queries import FOLDER, panels

PANEL_GROUNDS = {"dark": "#181B1F", "light": "#FFFFFF"}  # of Grafana 11 to 13
PANEL_TEXT = {"dark": "#CCCCDC", "light": "#24292E"}
TEXT, LINE = 4.5, 3.0  # WCAG 2.2, 1.4.3 and 1.4.11
JUDGED = {palette.FINE, palette.WARNING, palette.CRITICAL, palette.NO_DATA}
NAMED = {palette.PLAIN, palette.NONE}
PAGES = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]
ALL_PANELS = [panel for page in PAGES for panel in panels(page)]


def test_text_can_be_read_and_lines_can_be_seen_in_both_themes() -> None:
    """Tiles and cells use their colour as background; flags use the text colour."""
    grounds = [*JUDGED, *palette.SERIES, *PANEL_TEXT.values()]
    assert [ground for ground in grounds if contrast(text_on(ground), ground) < TEXT] == []
    for theme, panel in PANEL_GROUNDS.items():
        lines = [*palette.SERIES, palette.CRITICAL, PANEL_TEXT[theme]]
        assert [line for line in lines if contrast(line, panel) < LINE] == [], theme


def test_every_colour_is_of_the_palette_and_those_of_severity_stand_for_nothing_else() -> None:
    """State timelines and cells use the same severity words."""
    for panel in ALL_PANELS:
        found_in = [*found(panel, "color"), *found(panel, "fixedColor")]
        known = {*palette.SERIES, *JUDGED, *NAMED}
        assert {each for each in found_in if isinstance(each, str)} <= known, panel["title"]
        fixed = {each["fixedColor"] for each in found_in if isinstance(each, dict) and "fixedColor" in each}
        assert panel["type"] == "state-timeline" or fixed <= {*palette.SERIES, *NAMED}, panel.get("title")
        if panel.get("title") == "":  # the flag for the origin of the data
            words = panel["fieldConfig"]["defaults"]["mappings"] if "fieldConfig" in panel else []
            flags = [each["options"].values() for each in words if each["type"] == "value"]
            assert {flag["color"] for options in flags for flag in options} <= NAMED
    assert palette.CAUSES["unknown"] not in {palette.NO_DATA, palette.CAUSES["met"]}
    assert len(set(palette.CAUSES.values())) == len(palette.CAUSES)


def test_series_that_vary_have_the_colour_that_grafana_gives_their_name() -> None:
    """A virtual server has the same colour on all panels and pages.

    Exception: stacked areas by what ran meanwhile. Among ten areas, no two may share a colour.
    """
    by_who = {neighbours.WHO.name, neighbours.APP_FOR.name}
    modes = {
        panel["title"]: panel["fieldConfig"]["defaults"]["color"]["mode"]
        for panel in ALL_PANELS
        if panel["type"] == "timeseries" and "legend" not in panel["options"]
    }
    assert {title for title, mode in modes.items() if mode == "palette-classic"} == by_who
    assert set(modes.values()) == {"palette-classic", "palette-classic-by-name"}


def test_a_host_among_its_guests_has_a_colour_of_its_own() -> None:
    named = [panel for panel in ALL_PANELS if '" (host)", "role"' in str([*found(panel, "expr")])]
    assert named
    for panel in named:
        (override,) = [each for each in panel["fieldConfig"]["overrides"] if "(host" in each["matcher"]["options"]]
        assert found(override, "fixedColor") == [palette.HOST], panel["title"]


def found(tree: Any, key: str) -> list[Any]:
    """All values of a key, anywhere in a tree."""
    if not isinstance(tree, dict | list):
        return []
    branches = tree.items() if isinstance(tree, dict) else [("", each) for each in tree]
    return [each for name, branch in branches for each in [*([branch] if name == key else []), *found(branch, key)]]


def text_on(ground: str) -> str:
    """The text colour that Grafana chooses (getTextColorForAlphaBackground in @grafana/ui)."""
    red, green, blue = bytes.fromhex(ground[1:])
    return "#202226" if (299 * red + 587 * green + 114 * blue) / 1000 > 180 else "#F7F8FA"


def contrast(one: str, other: str) -> float:
    """WCAG contrast ratio, from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = (part / 255 for part in bytes.fromhex(colour[1:]))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


PAIRS = [
    *((text, ground) for text in ("text", "muted", "link", "ok") for ground in ("page", "head")),
    ("on-critical", "critical"),
    ("on-warning", "warning"),
]


def test_text_of_the_console_page_can_be_read() -> None:
    css = re.search(r"<style>(.*?)</style>", (ROOT / "prometheus/consoles/index.html").read_text(), re.DOTALL)
    assert css
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part))
        for part in css[1].split("(prefers-color-scheme: dark)", 1)
    )
    for scheme in (light, {**light, **dark}):
        for text, ground in PAIRS:
            assert contrast(scheme[text], scheme[ground]) >= TEXT, (text, ground)
    severities = (light["critical"].upper(), light["warning"].upper())
    assert severities == (palette.CRITICAL, palette.WARNING), "the dashboards' own"
