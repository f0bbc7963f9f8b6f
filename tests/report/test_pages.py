"""The report's pages: complete, self-contained, readable without colour."""

import base64
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from prometheus_client import generate_latest

from lab.metrics import RunnerMetrics
from lab.report.charts import SHADES, Curve, Panel, draw
from lab.scenario import Step
from tests.report.recordings import backfilled, hours_ago, of_consolidation
from tests.support.prometheus import ROOT

OLD, NEW = "20261120T090000-smoke", "20261121T090000-scale"
LAB = {"host": "lab1", "cpu": "AMD EPYC", "cpus": "2", "kernel": "6.1.0", "apache": "2.4.62"}
QUANTITIES = {"tier_cpu web": 0.8, "client_answers": 40, "waiting web": 0.1, "overhead": 0.3, "misses web": 0.002}
OF_A_STEP = QUANTITIES | {
    "mean": 0.4, "clients_cpu": 0.1, "lateness_p95": 0.002, "network": 0.004, "caused neighbour cpu": 0.1,
    "mean promised": 0.1, "mean measured": 0.4, "mean excess": 4, "mean missed": 1, "mean judged": 1,
    "seconds": 90, "study_clients": 20, "request_cpu_seconds": 0.0062,
}  # fmt: skip


def samples(run: str, begin: int, steps: Sequence[Step]) -> Iterator[str]:
    """A run's metrics at its end, and lab_run_info from its begin on."""
    metrics = RunnerMetrics()
    metrics.describe_run(run, "consolidation", run.rpartition("-")[2], len(steps), LAB)
    for number, step in enumerate(steps, 1):
        metrics.add(run, step.name, of_consolidation(step, OF_A_STEP | {"end": begin + 100 * number}))
    lines = [line for line in generate_latest(metrics.registry).decode().splitlines() if not line.startswith("#")]
    metrics.stop()
    yield from (f"{line} {begin}\n" for line in lines if line.startswith("lab_run_info"))
    yield from (f"{line} {begin + 100 * len(steps)}\n" for line in lines)


def report(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lab", "report", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    steps = [
        Step(instances, clients, placement, 1)
        for placement in ("one node", "two nodes")
        for instances in (1, 2)
        for clients in (500, 800)
    ]
    lines = [*samples(OLD, hours_ago(9), steps[:1]), *samples(NEW, hours_ago(5), steps)]
    with backfilled(tmp_path_factory.mktemp("pages"), "".join(lines)) as prometheus:
        yield prometheus.url


@pytest.fixture(scope="module")
def folder(url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("output") / "new"
    done = report("--prometheus", url, "--output", str(output))
    assert done.returncode == 0, done.stderr
    assert str(output / "report.html") in done.stdout
    return output


def test_the_page_is_whole_and_asks_nothing_of_the_network(folder: Path) -> None:
    text = (folder / "report.html").read_text()
    assert not re.search(r"url\(|@import|<(script|link|base)|(srcset|data|action|poster)=", text)
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(set(ids)) == len(ids)
    assert {f"#{name}" for name in ids} >= set(re.findall(r' href="([^"]*)"', text))
    charts = re.findall(r' src="data:image/svg\+xml;base64,([^"]+)"', text)
    assert len(charts) == len(re.findall(r"<img alt=", text)) == text.count("<img") >= 6
    for chart in charts:
        svg = base64.b64decode(chart).decode()
        assert "<svg" in svg
        assert not re.search(r'href="(?!#)|url\((?!#)|@import|<script', svg)
    for said in (NEW, "AMD EPYC", "Apache 2.4.62", "one client stands for 20", "6.2 ms of CPU", "HPL-2007-59R1"):
        assert said in text


def test_markdown_renders_with_all_tables_and_charts(folder: Path) -> None:
    text = (folder / "report.md").read_text()
    html = MarkdownIt("commonmark").enable("table").render(text)
    charts = re.findall(r'<img src="([^"]+)"', html)
    assert len(charts) >= 6
    assert all((folder / chart).read_text().endswith("</svg>\n") for chart in charts)
    # The additional table has the facts, which are a list on the page.
    assert html.count("<table>") == (folder / "report.html").read_text().count("<table>") + 1
    assert not re.search(r"<p>[^<]*\|", html)
    assert not re.search(r"</?[a-z]+[^>]*>", re.sub(r"```.*?```", "", text, flags=re.DOTALL)), "no tag of its own"


def test_the_run_may_be_named_and_what_can_not_be_had_is_said(url: str, tmp_path: Path) -> None:
    assert report(OLD, "--prometheus", url, "--output", str(tmp_path)).returncode == 0
    assert OLD in (tmp_path / "report.md").read_text()
    for arguments, message in (
        (("mistyped", "--prometheus", url), f"there are, newest first: {NEW}, {OLD}"),
        (("--prometheus", "http://127.0.0.1:9"), "no Prometheus answers at http://127.0.0.1:9"),
    ):
        done = report(*arguments)
        assert done.returncode == 1
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_a_missing_point_is_a_gap_and_no_zero() -> None:
    ticks = [(500, "500"), (600, "600"), (700, "700")]
    legend = 1
    for middle, markers in (((), 2), ((0.0,), 3)):
        curve = Curve("curve", ((500, (10.0,)), (600, middle), (700, (30.0,))), 0, 0)
        svg = draw([Panel("Title", "ms", (curve,))], "clients", ticks)
        assert len(re.findall(rf"<use [^>]*fill: {SHADES[0].lower()}", svg)) == markers + legend
