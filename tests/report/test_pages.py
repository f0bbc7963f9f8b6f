"""The report's pages: whole, self-contained, readable without colour."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from lab.report.charts import SHADES, Curve, Panel, Point, XAxis, draw
from tests.report.backfilled import backfilled
from tests.report.synthetic_run import Load, Phase, SyntheticRun, hours_ago
from tests.support.prometheus import ROOT

VOID = {"meta", "br", "link", "img", "input", "hr"}
FULL = Load(requests=40, seconds=0.4, web=0.8, db=0.1, cause="load")
OLD = SyntheticRun("20261120T090000-smoke", hours_ago(9), [Phase(90, {"auction-1": FULL}, "only", clients=800)])
NEW = SyntheticRun(
    "20261121T090000-scale",
    hours_ago(5),
    [
        phase
        for placement in ("one group", "two groups")
        for instances in (1, 2)
        for clients in (500, 800)
        for phase in (
            Phase(
                90,
                {f"auction-{number + 1}": FULL for number in range(instances)},
                f"{instances}x{clients} {placement}",
                instances,
                clients,
                placement,
            ),
            Phase(20, {}),
        )
    ],
)


def report(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lab", "report", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with backfilled(tmp_path_factory.mktemp("pages"), OLD, NEW) as prometheus:
        yield prometheus.url


@pytest.fixture(scope="module")
def folder(url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("output") / "new"
    done = report("--prometheus", url, "--output", str(output))
    assert done.returncode == 0, done.stderr
    assert str(output / "report.html") in done.stdout
    return output


class Page(HTMLParser):
    """What a browser would need to know of a page; `unbalanced` are end tags that close nothing."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def values(self, *names: str) -> list[str]:
        return [value for _, name, value in self.attributes if name in names]


class TestHtml:
    @pytest.fixture
    def text(self, folder: Path) -> str:
        return (folder / "report.html").read_text()

    def test_asks_nothing_of_the_network(self, text: str) -> None:
        page = Page(text)
        assert page.values("src", "srcset", "data", "action", "poster") == []
        assert all(href.startswith("#") for href in page.values("href", "xlink:href"))
        assert not re.search(r"url\((?!#)|@import|<script|<link|<base", text)

    def test_is_well_formed(self, text: str) -> None:
        page = Page(text)
        assert (page.unbalanced, page.open) == ([], [])
        assert text.startswith("<!DOCTYPE html>")

    def test_references_lead_to_the_one_element_of_that_id(self, text: str) -> None:
        page = Page(text)
        ids = Counter(page.values("id"))
        assert [name for name, times in ids.items() if times > 1] == []
        references = {href[1:] for href in page.values("href", "xlink:href")} | set(
            re.findall(r"url\(#([^)]+)\)", text)
        )
        assert references <= set(ids)

    def test_every_chart_has_its_queries_below_it(self, text: str) -> None:
        for section in re.findall(r'<section id="section-.*?</section>', text, re.DOTALL)[:-1]:
            if "<svg" in section:
                assert section.index("</svg>") < section.index("<pre>")

    def test_says_what_the_run_was(self, text: str) -> None:
        for said in (
            NEW.name,
            "AMD EPYC",
            "Apache 2.4.62",
            "one client stands for 20",
            "6.2 ms of CPU",
            "HPL-2007-59R1",
        ):
            assert said in text

    def test_charts_are_described_for_those_who_cannot_see_them(self, text: str) -> None:
        page = Page(text)
        charts = [tag for tag, name, value in page.attributes if (tag, name, value) == ("svg", "role", "img")]
        assert len(charts) == len(
            [value for tag, name, value in page.attributes if tag == "svg" and name == "aria-label"]
        )
        assert "1 instance, one group" in text


class TestMarkdown:
    def test_renders_with_all_tables_and_charts(self, folder: Path) -> None:
        text = (folder / "report.md").read_text()
        html = MarkdownIt("commonmark").enable("table").render(text)
        charts = re.findall(r'<img src="([^"]+)"', html)
        assert len(charts) >= 6
        assert all((folder / chart).read_text().startswith("<svg") for chart in charts)
        page = (folder / "report.html").read_text()
        # The one table more is that of facts, which is a list on the page.
        assert html.count("<table>") == page.count("<table>") + 1
        assert not re.search(r"<p>[^<]*\|", html)

    def test_has_no_tag_of_its_own(self, folder: Path) -> None:
        without_code = re.sub(r"```.*?```", "", (folder / "report.md").read_text(), flags=re.DOTALL)
        assert not re.search(r"</?[a-z]+[^>]*>", without_code)


class TestCommand:
    def test_the_run_may_be_named(self, url: str, tmp_path: Path) -> None:
        assert report(OLD.name, "--prometheus", url, "--output", str(tmp_path)).returncode == 0
        assert OLD.name in (tmp_path / "report.md").read_text()

    def test_an_unknown_run_gets_the_names_there_are(self, url: str) -> None:
        done = report("mistyped", "--prometheus", url)
        assert done.returncode == 1
        assert f"there are, newest first: {NEW.name}, {OLD.name}" in done.stderr
        assert "Traceback" not in done.stderr

    def test_without_prometheus_it_names_the_address_it_asked(self) -> None:
        done = report("--prometheus", "http://127.0.0.1:9")
        assert done.returncode == 1
        assert "no Prometheus answers at http://127.0.0.1:9" in done.stderr


class TestCharts:
    X = XAxis("clients", ((500, "500"), (600, "600"), (700, "700")))

    def svg(self, *curves: Curve) -> str:
        return draw([Panel("Title", "ms", curves)], self.X, "name", "described")

    def test_shades_differ_in_grey(self) -> None:
        greys = [lightness(shade) for shade in SHADES]
        assert all(light - dark > 12 for light, dark in itertools.pairwise(greys))

    def test_a_missing_point_is_a_gap_and_no_zero(self) -> None:
        with_gap = Curve("curve", (Point(500, (10.0,)), Point(600, ()), Point(700, (30.0,))), 0, 0)
        as_zero = Curve("curve", (Point(500, (10.0,)), Point(600, (0.0,)), Point(700, (30.0,))), 0, 0)
        assert self.markers(self.svg(with_gap)) == 2
        assert self.markers(self.svg(as_zero)) == 3

    def test_every_marker_is_whole_though_the_values_hardly_differ(self) -> None:
        svg = self.svg(Curve("curve", (Point(500, (0.0,)), Point(600, (98.9,)), Point(700, (99.0,))), 0, 0))
        [bottom, top] = re.findall(r'patch_2">\s*<path d="M \S+ (\S+) .*? L \S+ \S+ +L \S+ (\S+) ', svg)[0]
        places = [float(y) for y in re.findall(rf'<use [^>]*y="([^"]+)" style="fill: {SHADES[0].lower()}', svg)]
        assert min(places) - float(top) > 6  # half a marker and its edge are 4
        assert max(places) == float(bottom)
        assert not re.search(r"<g clip-path=[^>]*>\s*<use", svg)

    def test_a_curve_that_ends_early_is_named_where_it_ends(self) -> None:
        short = Curve("short", (Point(500, (20.0,)),), 0, 0)
        svg = self.svg(short, Curve("long", (Point(500, (10.0,)), Point(700, (30.0,))), 1, 0))
        places = {label: float(x) for x, label in re.findall(r'<text [^>]* x="(\S+)"[^>]*>(short|long)</text>', svg)}
        (end,) = re.findall(rf'<use [^>]*x="([^"]+)" y="[^"]+" style="fill: {SHADES[0].lower()}', svg)
        assert 0 < places["short"] - float(end) < 10
        assert places["long"] > places["short"] + 100

    def test_the_same_values_give_the_same_file(self) -> None:
        curve = Curve("curve", (Point(500, (10.0, 12.0)),), 0, 0)
        assert self.svg(curve) == self.svg(curve)

    @staticmethod
    def markers(svg: str) -> int:
        """How many points are drawn in the first shade."""
        return len(re.findall(rf"<use [^>]*fill: {SHADES[0].lower()}", svg))


def lightness(colour: str) -> float:
    """L* of `#rrggbb`, 0 to 100 (CIE 1976), which is what is left of a colour in grey; a step of 2 is just seen."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return 116 * luminance ** (1 / 3) - 16 if luminance > 0.008856 else 903.3 * luminance
