"""Text can be read on its ground, in the light and in the dark."""

from __future__ import annotations

import re

from dashboards import palette
from tests.console.served import FOLDER
from tests.dashboards.test_palette import TEXT, contrast

PAIRS = [
    *((text, ground) for text in ("text", "muted", "link", "ok") for ground in ("page", "head")),
    ("on-critical", "critical"),
    ("on-warning", "warning"),
]
CSS = re.search(r"<style>(.*?)</style>", (FOLDER / "index.html").read_text(), re.DOTALL)


def colours() -> dict[str, dict[str, str]]:
    """The colour of each name in each scheme."""
    assert CSS
    light, _, dark = CSS[1].partition("(prefers-color-scheme: dark)")
    everywhere = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light))
    return {"light": everywhere, "dark": {**everywhere, **dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", dark))}}


def test_text_can_be_read() -> None:
    for scheme, of in colours().items():
        for text, ground in PAIRS:
            assert contrast(of[text], of[ground]) >= TEXT, (scheme, text, ground)


def test_every_colour_is_one_of_these_and_of_severity_the_dashboards_own() -> None:
    assert CSS
    assert set(colours()["light"]) == {*(name for pair in PAIRS for name in pair), "line"}
    rules = CSS[1].rpartition("--head: ")[2].partition("}")[2]
    assert not re.search(r"#[0-9a-fA-F]{3,6}\b|rgb", rules)
    assert colours()["light"]["critical"].upper() == palette.CRITICAL
    assert colours()["light"]["warning"].upper() == palette.WARNING
