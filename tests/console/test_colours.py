"""Text can be read on its ground, in the light and in the dark."""

from __future__ import annotations

import re

from dashboards import palette
from tests.console.served import ROOT
from tests.dashboards.test_palette import TEXT, contrast

PAIRS = [
    *((text, ground) for text in ("text", "muted", "link", "ok") for ground in ("page", "head")),
    ("on-critical", "critical"),
    ("on-warning", "warning"),
]


def test_text_can_be_read() -> None:
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
