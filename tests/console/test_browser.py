"""The console page in Chromium: it fits a phone, and strangers' names run nothing."""

from __future__ import annotations

import html
import itertools
import json
import os
import re
import shutil
import subprocess
from typing import Any

import pytest

from tests.console.fleet import alert, application, fleet, guest, host
from tests.console.served import Served
from tests.console.test_names import NAMES
from tests.support.endpoints import QuietHandler, http_server

PAGES = ("fleet", "host", "application", "long-host", "long-application")
WIDTHS = (320, 390, 768, 1280, 1920)  # pixels; 390 is a phone's
FRAMES = list(itertools.product(PAGES, WIDTHS))
# Reads what a reader sees from frames of the pages, which are of the same origin here.
MEASURE = """<!doctype html><meta charset="utf-8"><pre id="found">not measured</pre>
<script>
const found = {}, frames = FRAMES;
for (const [page, width] of frames) {
  const frame = document.createElement("iframe");
  frame.width = width;
  frame.height = 844;
  frame.onload = () => {
    const shown = frame.contentDocument, root = shown.documentElement;
    const widest = [...shown.querySelectorAll("body *")].reduce(
      (a, b) => a.getBoundingClientRect().right < b.getBoundingClientRect().right ? b : a
    );
    found[`${page} ${width}`] = {
      title: shown.title, scripts: shown.scripts.length, wide: root.scrollWidth, room: root.clientWidth,
      widest: widest.outerHTML.slice(0, 120),
    };
    if (Object.keys(found).length == frames.length)
      document.getElementById("found").textContent = JSON.stringify(found);
  };
  frame.src = page;
  document.body.append(frame);
}
</script>"""


def browser() -> str:
    """Chromium, Debian's packages chromium-headless-shell or chromium; skips where there is none, except in CI."""
    found = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if found is None:
        missing = "no Chromium here: apt-get install chromium-headless-shell"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


@pytest.mark.system
def test_the_page_fits_and_runs_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The pages of a fleet with names that nobody would choose, in Chromium."""
    program = browser()
    samples = [*fleet()]
    for name in NAMES:
        samples += [*host(name, "xen", 0.1), *guest(name, name, cpu=0.5, wait=0.3, cap=0.5), *application(name, name)]
        samples += alert("Starved", "warning", host=name, platform="xen", vserver=name, app=name, objective="mean")
    longest = max(NAMES, key=len)
    queries: dict[str, dict[str, str]] = {
        "fleet": {},
        "host": {"host": "xen1"},
        "application": {"app": "shop"},
        "long-host": {"host": longest},
        "long-application": {"app": longest},
    }
    with Served(tmp_path_factory.mktemp("prometheus"), samples) as it:
        served = {f"/{name}": it.page(query).html for name, query in queries.items()}
    served["/"] = MEASURE.replace("FRAMES", json.dumps(FRAMES))

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802
            text = served.get(self.path)
            self.reply(404 if text is None else 200, (text or "").encode(), "text/html; charset=utf-8")

    server = http_server(Handler)
    profile = tmp_path_factory.mktemp("profile")
    flags = ["--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={profile}"]
    flags.append("--virtual-time-budget=20000")  # less than the page's own reload
    if os.geteuid() == 0:
        flags.append("--no-sandbox")  # which root may not have
    try:
        command = [program, *flags, "--dump-dom", f"http://{server.address}/"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    finally:
        server.close()
    shown = re.search(r'<pre id="found">(\{.*\})</pre>', done.stdout)
    assert shown, done.stdout[:2000] + done.stderr
    measured: dict[str, dict[str, Any]] = json.loads(html.unescape(shown[1]))
    assert len(measured) == len(FRAMES)
    for page, width in FRAMES:
        found = measured[f"{page} {width}"]
        assert found["title"].endswith("virtscope")
        assert found["scripts"] == 0, page
        assert width - 30 < found["room"] <= width, "less a scroll bar"
        assert found["wide"] <= found["room"], f"{page} {width}: {found['widest']} is wider than the window"
