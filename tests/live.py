"""The real Prometheus and Alertmanager, with the project's own configuration, for the time of one test.

    with Exposition(TEXT) as exporter, Prometheus(tmp_path, {"xentop": [exporter.group(host="xen1")]}) as prometheus:
        prometheus.wait_for('host:overhead:ratio{host="xen1"} > 0.5', seconds=30)

What runs is what ships: `prometheus/` and `alerts/` are copied into a temporary folder, and there only that is changed
which a test can't do without: whom to scrape, and how long to wait. Everything listens on loopback, on free ports.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import requests
import yaml

from tools import programs

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 60  # for a program to become ready on a busy machine
STOP_SECONDS = 15

Group: TypeAlias = dict[str, Any]
"""One entry of a targets file: `{"targets": ["127.0.0.1:1234"], "labels": {"host": "xen1", "platform": "xen"}}`."""


class Program:
    """A server process that is ready once `url + '/-/ready'` answers, and is gone when the `with` block ends."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.log = folder / f"{name}.log"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str) -> None:
        """Start it and wait until it is ready; raises RuntimeError with the end of its log if it doesn't get there."""
        command = [str(programs.path(self.name)), *flags]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(requests.RequestException):
                if requests.get(self.url + "/-/ready", timeout=5).ok:
                    return
            time.sleep(0.1)
        self.stop()
        raise RuntimeError(f"{self.name} did not become ready:\n{self.log_tail()}")

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
        self._process = None

    def log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


class Prometheus:
    """The project's Prometheus: its configuration, rules and alerts.

    targets: per job of prometheus.yml, the entries of its targets file; the files of the checkout are not read.
    alertmanager: the address (`host:port`) alerts go to.
    interval: between scrapes and between evaluations, in place of the configured 5 s.
    alert_for: in place of every alert's `for:`, so that a test needn't wait as long as an operator would want to.
    history: series in OpenMetrics text with timestamps, loaded before the start (see `promtool tsdb create-blocks-from`).
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
            f"--storage.tsdb.path={self.folder / 'data'}",
            "--storage.tsdb.retention.time=30d",
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
        command = [programs.path("promtool"), "tsdb", "create-blocks-from", "openmetrics", text, self.folder / "data"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)

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


class Alertmanager:
    """The project's Alertmanager, whose every receiver sends to one webhook.

    group_wait, group_interval: in place of every route's own, which are made for people.
    """

    def __init__(self, folder: Path, webhook_url: str, *, group_wait: str = "1s", group_interval: str = "1s") -> None:
        self.folder = folder / "alertmanager-under-test"
        self.folder.mkdir(parents=True)
        configuration = yaml.safe_load((ROOT / "alerts" / "alertmanager.yml").read_text())
        for receiver in configuration["receivers"]:
            receiver["webhook_configs"] = [{"url": webhook_url, "send_resolved": True}]
        routes = [configuration["route"]]
        for route in routes:  # grows while it is walked: the routes under a route
            routes += route.get("routes", [])
            for key, duration in (("group_wait", group_wait), ("group_interval", group_interval)):
                if key in route:
                    route[key] = duration
        (self.folder / "alertmanager.yml").write_text(yaml.safe_dump(configuration))
        self._program = Program("alertmanager", self.folder)
        self.url = self._program.url
        self.address = f"127.0.0.1:{self._program.port}"

    def __enter__(self) -> Self:
        self._program.start(
            "--config.file=alertmanager.yml",
            "--storage.path=data",
            f"--web.listen-address={self.address}",
            "--cluster.listen-address=",  # alone
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._program.stop()

    def alerts(self) -> list[dict[str, Any]]:
        """What it holds, muted or not: `[{"labels": {...}, "status": {"state": "active", "inhibitedBy": []}}]`."""
        alerts: list[dict[str, Any]] = requests.get(f"{self.url}/api/v2/alerts", timeout=10).json()
        return alerts


class Exposition:
    """An exporter whose answer to every GET is `text`: set it, and the next scrape sees the new one.

    `text = None` makes it answer 500, as an exporter that has gone wrong does.
    """

    def __init__(self, text: str | None = "") -> None:
        self.text = text

    def __enter__(self) -> Self:
        exposition = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                text = exposition.text
                self.reply(500 if text is None else 200, (text or "").encode(), "text/plain; version=0.0.4")

        self._server = BackgroundServer(Handler)
        self.address = self._server.address
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.close()

    def group(self, host: str, platform: str = "xen") -> Group:
        """Its entry in a targets file."""
        return {"targets": [self.address], "labels": {"host": host, "platform": platform}}


class Webhook:
    """Records what Alertmanager sends: `messages` are the JSON bodies, oldest first."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        messages = self.messages

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.reply(200, b"", "text/plain")

        self._server = BackgroundServer(Handler)
        self.url = f"http://{self._server.address}/"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.close()

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """The first message that is `wanted`; AssertionError, naming what came instead, if there is none in time."""
        deadline = time.monotonic() + seconds
        while True:
            for message in list(self.messages):
                if wanted(message):
                    return message
            if time.monotonic() > deadline:
                raise AssertionError(f"no such message within {seconds} s among {self.messages}")
            time.sleep(0.1)


class QuietHandler(http.server.BaseHTTPRequestHandler):
    """Answers without writing a line per request to stderr."""

    def reply(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class BackgroundServer:
    """An HTTP server on a free loopback port, in a thread."""

    def __init__(self, handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(STOP_SECONDS)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
