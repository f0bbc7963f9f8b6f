"""Prometheus for the time of one test."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import requests
import yaml

from tests.live.endpoints import Group
from tests.live.program import Program
from tools import programs

ROOT = Path(__file__).resolve().parents[2]


class Prometheus:
    """The project's Prometheus: its configuration, rules and alerts.

    targets: per job of prometheus.yml, the entries of its targets file; the files of the checkout are not read.
    alertmanager: the address (`host:port`) alerts go to.
    interval: between scrapes and between evaluations, in place of the configured 5 s.
    alert_for: in place of every alert's `for:`, so that a test needn't wait as long as an operator would want to.
    history: series in OpenMetrics text with timestamps, loaded before the start.
    """

    def __init__(
        self,
        folder: Path,
        targets: Mapping[str, Sequence[Group]],
        *,
        alertmanager: str | None = None,
        interval: str = "1s",
        alert_for: str | None = None,
        history: str | None = None,
    ) -> None:
        self.folder = folder / "prometheus-under-test"
        self._configuration = self.folder / "prometheus" / "prometheus.yml"
        for part in ("prometheus", "alerts"):
            shutil.copytree(ROOT / part, self.folder / part)
        for file in (self.folder / "prometheus" / "targets").rglob("*.yml"):
            file.write_text("[]\n")
        self._set_intervals(interval)
        if alert_for is not None:
            self._set_alert_for(alert_for)
        for job, groups in targets.items():
            self.set_targets(job, groups)
        if alertmanager is not None:
            self._write_targets("alertmanager", [{"targets": [alertmanager]}])
        if history is not None:
            self._load(history)
        self._program = Program("prometheus", self.folder)
        self.url = self._program.url

    def __enter__(self) -> Self:
        self._program.start(
            f"--config.file={self._configuration}",
            f"--web.listen-address=127.0.0.1:{self._program.port}",
            f"--web.external-url={self.url}",
            f"--web.user-assets={ROOT / 'docs'}",
            "--log.level=warn",
            f"--storage.tsdb.path={self.folder / 'data'}",
            "--storage.tsdb.retention.time=30d",
            # Not a minute: what fires before Alertmanager is discovered, seconds after the start, is sent to nobody.
            "--rules.alert.resend-delay=1s",
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._program.stop()

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The instant vector as the API gives it: `[{"metric": {label: value}, "value": [time, "number"]}]`."""
        return self._result("query", {"query": expr})

    def query_range(self, expr: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """The range vector: `[{"metric": {...}, "values": [[time, "number"], ...]}]`; times in seconds since 1970."""
        return self._result("query_range", {"query": expr, "start": start, "end": end, "step": step})

    def value(self, expr: str) -> float:
        """The number of the one series that `expr` gives."""
        (series,) = self.query(expr)
        return float(series["value"][1])

    def wait_for(self, expr: str, seconds: float) -> list[dict[str, Any]]:
        """The first result of `expr` that is not empty; AssertionError, with what may explain it, if none comes."""
        deadline = time.monotonic() + seconds
        while not (result := self.query(expr)):
            if time.monotonic() > deadline:
                raise AssertionError(f"no result within {seconds} s: {expr}\n{self._explain()}")
            time.sleep(0.2)
        return result

    def wait_until_absent(self, expr: str, seconds: float) -> None:
        """Returns once `expr` has no result."""
        deadline = time.monotonic() + seconds
        while result := self.query(expr):
            if time.monotonic() > deadline:
                raise AssertionError(f"still there after {seconds} s: {expr}\n{result}")
            time.sleep(0.2)

    def alerts(self) -> list[dict[str, Any]]:
        """The pending and firing alerts: `[{"labels": {...}, "annotations": {...}, "state": "firing", ...}]`."""
        alerts: list[dict[str, Any]] = self._get("alerts", {})["alerts"]
        return alerts

    def set_targets(self, job: str, groups: Sequence[Group]) -> None:
        """Scrape these for `job` from now on (while it runs, Prometheus notices within a few seconds)."""
        jobs = [config["job_name"] for config in yaml.safe_load(self._configuration.read_text())["scrape_configs"]]
        if job not in jobs:
            raise ValueError(f"prometheus.yml has no job {job!r}, only {', '.join(jobs)}")
        self._write_targets(job, groups)

    def _write_targets(self, job: str, groups: Sequence[Group]) -> None:
        local = self.folder / "prometheus" / "targets" / "local"
        local.mkdir(exist_ok=True)
        new = local / f"{job}.new"
        new.write_text(yaml.safe_dump(list(groups)))
        new.replace(local / f"{job}.yml")  # in one step: Prometheus may read at any moment

    def _set_intervals(self, interval: str) -> None:
        configuration = yaml.safe_load(self._configuration.read_text())
        for key in ("scrape_interval", "scrape_timeout", "evaluation_interval"):
            configuration["global"][key] = interval
        self._configuration.write_text(yaml.safe_dump(configuration))

    def _set_alert_for(self, duration: str) -> None:
        for file in (self.folder / "alerts" / "rules").glob("*.yml"):
            rules = yaml.safe_load(file.read_text())
            for group in rules["groups"]:
                for rule in group["rules"]:
                    for key in rule.keys() & {"for", "keep_firing_for"}:
                        rule[key] = duration
            file.write_text(yaml.safe_dump(rules))

    def _load(self, history: str) -> None:
        text = self.folder / "history.om"
        text.write_text(history)
        command = [str(programs.path("promtool")), "tsdb", "create-blocks-from", "openmetrics"]
        subprocess.run([*command, text, self.folder / "data"], check=True, capture_output=True, timeout=120)

    def _get(self, what: str, parameters: Mapping[str, str | float]) -> dict[str, Any]:
        answer = requests.get(f"{self.url}/api/v1/{what}", params=dict(parameters), timeout=30).json()
        if answer["status"] != "success":
            raise ValueError(f"{parameters}: {answer['error']}")
        data: dict[str, Any] = answer["data"]
        return data

    def _result(self, what: str, parameters: Mapping[str, str | float]) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = self._get(what, parameters)["result"]
        return result

    def _explain(self) -> str:
        targets = self._get("targets", {"state": "active"})["activeTargets"]
        health = [f"{target['scrapeUrl']} is {target['health']} {target['lastError']}" for target in targets]
        return "\n".join([*health, "The end of its log:", self._program.log_tail()])
