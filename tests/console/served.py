"""The console page, served by Prometheus itself over samples that a test makes up."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import pytest
import requests
import yaml

from demo import openmetrics
from tests.console.fleet import Sample, text
from tests.console.page import Page
from tests.support.endpoints import Exposition
from tests.support.program import Program, program_path
from tests.support.promql import PrometheusClient

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "prometheus" / "consoles"
Release = Literal["prometheus", "prometheus3"]
# Debian's, and that of compose.yaml, which the first run builds.
RELEASES = ["prometheus", pytest.param("prometheus3", marks=[pytest.mark.system, pytest.mark.timeout(1800)])]
_LAST = Sample("the_last", {}, 1)


class Served:
    """A Prometheus that scrapes these samples each second, under a path prefix as behind a reverse proxy.

    With `ago` it has stored them so many seconds ago, and nothing since.
    """

    def __init__(
        self, folder: Path, samples: Iterable[Sample], release: Release = "prometheus", *, ago: int = 0
    ) -> None:
        self._samples = [*samples, _LAST]
        self._ago = ago
        self._exporter = Exposition(text(self._samples))
        self._program = Program(release, folder)
        self._prometheus = PrometheusClient(self._program.url)
        self._queries = folder / "queries.log"
        self.url = f"{self._program.url}/behind/a proxy".replace(" ", "-")

    def __enter__(self) -> Self:
        self._exporter.__enter__()
        job = {
            "job_name": "made up",
            "honor_labels": True,
            "static_configs": [{"targets": [self._exporter.address]}],
            "metric_relabel_configs": [
                {"source_labels": ["__name__"], "regex": ".*:.*|ALERTS.*", "target_label": label, "replacement": ""}
                for label in ("job", "instance")  # which what rules write doesn't have
            ],
        }
        every = {"scrape_interval": "3s", "scrape_timeout": "3s", "query_log_file": str(self._queries)}
        configuration = self._program.folder / "prometheus.yml"
        configuration.write_text(yaml.safe_dump({"global": every, "scrape_configs": [] if self._ago else [job]}))
        data = self._program.folder / "data"
        if self._ago:
            at = int(time.time()) - self._ago
            series = [(sample.series, [(at, sample.value)]) for sample in self._samples]
            openmetrics.blocks(program_path("promtool"), openmetrics.write(self._program.folder, series), data)
        try:
            self._program.start(
                f"--config.file={configuration}",
                f"--storage.tsdb.path={data}",
                f"--web.listen-address=127.0.0.1:{self._program.port}",
                f"--web.external-url={self.url}",
                "--web.route-prefix=/",
                f"--web.console.templates={FOLDER}",
            )
            self._prometheus.wait_for(_LAST.name, 60, explain=self._program.log_tail)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._program.stop()
        self._exporter.__exit__(kind, error, at)

    def get(self, parameters: Mapping[str, str] | str = "") -> requests.Response:
        """The answer for these parameters, or this query string as it is."""
        return requests.get(f"{self._program.url}/consoles/index.html", params=parameters, timeout=60)

    def page(self, parameters: Mapping[str, str] | str = "") -> Page:
        """The same, parsed; AssertionError if Prometheus refuses it."""
        answer = self.get(parameters)
        assert answer.status_code == 200, answer.text
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        return Page(answer.content.decode(errors="replace"))  # as browsers do

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The instant vector as the API gives it."""
        return self._prometheus.query(expr)

    def queries(self) -> set[str]:
        """Every query that has been asked so far."""
        return {json.loads(line)["params"]["query"] for line in self._queries.read_text().splitlines()}
