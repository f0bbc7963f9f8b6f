"""The console page, served by a Prometheus with samples made up by a test."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
import requests
import yaml

from demo import openmetrics
from tests.console.fleet import sample
from tests.console.page import Page
from tests.support.endpoints import Exposition
from tests.support.program import Program, program_path
from tests.support.promql import PrometheusClient

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "prometheus" / "consoles"
Release = Literal["prometheus", "prometheus3"]
# Debian's release, and that of compose.yaml, which the first run builds.
RELEASES = ["prometheus", pytest.param("prometheus3", marks=[pytest.mark.system, pytest.mark.timeout(1800)])]
_LAST = sample("the_last", {}, 1)


class Served:
    """A Prometheus with these samples, under a path prefix as behind a reverse proxy."""

    def __init__(self, program: Program) -> None:
        self._page = f"{program.url}/consoles/index.html"
        self._queries = program.folder / "queries.log"
        self.query = PrometheusClient(program.url).query

    def page(self, parameters: Mapping[str, str] | str = "") -> Page:
        """The page for these parameters or this raw query string; AssertionError if Prometheus refuses it."""
        answer = requests.get(self._page, params=parameters, timeout=60)
        assert answer.status_code == 200, answer.text
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        return Page(answer.content.decode(errors="replace"))  # as browsers do

    def queries(self) -> set[str]:
        """Every query sent so far."""
        return {json.loads(line)["params"]["query"] for line in self._queries.read_text().splitlines()}


@contextmanager
def served_by(
    folder: Path, samples: Iterable[str], release: Release = "prometheus", *, ago: int = 0
) -> Iterator[Served]:
    """A Prometheus that scrapes these samples or, with `ago`, stored them that many seconds ago and none since."""
    lines, program = [*samples, _LAST], Program(release, folder)
    unlabelled = [
        {"source_labels": ["__name__"], "regex": ".*:.*|ALERTS.*", "target_label": label, "replacement": ""}
        for label in ("job", "instance")  # records don't have these labels
    ]
    with Exposition("".join(f"{line}\n" for line in lines)) as exporter:
        targets = [{"targets": [exporter.address]}]
        job = {"job_name": "made up", "honor_labels": True, "static_configs": targets}
        every = {"scrape_interval": "3s", "scrape_timeout": "3s", "query_log_file": str(folder / "queries.log")}
        jobs = [] if ago else [{**job, "metric_relabel_configs": unlabelled}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump({"global": every, "scrape_configs": jobs}))
        if ago:
            at = int(time.time()) - ago
            series = [(name, [(at, float(value))]) for name, _, value in (line.rpartition(" ") for line in lines)]
            openmetrics.blocks(program_path("promtool"), openmetrics.write(folder, series), folder / "data")
        try:
            program.start(
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                f"--web.listen-address=127.0.0.1:{program.port}",
                f"--web.external-url={program.url}/behind/a-proxy",
                "--web.route-prefix=/",
                f"--web.console.templates={FOLDER}",
            )
            PrometheusClient(program.url).wait_for("the_last", 60, explain=program.log_tail)
            yield Served(program)
        finally:
            program.stop()
