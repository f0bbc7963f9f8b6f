"""The demo for the time of one test module: prepared, and played by the exporters and by Prometheus themselves."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

from demo import prepare, story
from demo.targets import Ports
from tests.support.ports import free_port
from tests.support.program import Program, program_path

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 15


class Demo:
    """A demo's Prometheus at `url`, its warnings in `log`; `end` is the Unix time at which its history ends."""

    def __init__(self, url: str, log: Path, end: int) -> None:
        self.url = url
        self.log = log
        self.end = end

    def query(self, expr: str, at: float | None = None) -> list[dict[str, Any]]:
        """The instant vector as the API gives it, now or at this Unix time."""
        parameters = {"query": expr, **({} if at is None else {"time": str(at)})}
        answer = requests.get(f"{self.url}/api/v1/query", params=parameters, timeout=30).json()
        assert answer["status"] == "success", answer
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def value(self, expr: str, at: float | None = None) -> float:
        """The number of the one series that `expr` gives."""
        (series,) = self.query(expr, at)
        return float(series["value"][1])

    def values(self, expr: str, moments: range) -> dict[int, float]:
        """The numbers of the one series that `expr` gives at these Unix times, where there are any."""
        times = {"start": str(moments[0]), "end": str(moments[-1]), "step": str(moments.step)}
        answer = requests.get(f"{self.url}/api/v1/query_range", params={"query": expr, **times}, timeout=30).json()
        assert answer["status"] == "success", answer
        (series,) = answer["data"]["result"]
        return {int(at): float(value) for at, value in series["values"]}

    def minute(self, number: int) -> int:
        """The last time in the history at which so many minutes of an hour are over, in Unix time."""
        return self.end - (self.end - 60 * number) % story.CYCLE

    def moment(self, placement: str, instances: int, clients: int) -> int:
        """The last minute of the history whose records are of this step alone: two minutes into it, or later."""
        (step,) = (
            step
            for step in story.STEPS
            if (step.placement, step.instances, step.clients) == (placement, instances, clients)
        )
        last = self.end - (self.end - step.end) % story.CYCLE
        return last - 60 if step.end - step.begin > 120 else last


@contextlib.contextmanager
def playing(folder: Path, history: int, live: bool = False) -> Iterator[Demo]:
    """A demo with so many seconds of history, which goes on if it is `live`."""
    prometheus = Program("prometheus", folder)
    ports = Ports(prometheus.port, free_port(), free_port(), free_port(), free_port())
    programs = prepare.Programs(program_path("promtool"), program_path("prometheus"))
    end = prepare.prepare(folder, programs, ports, history)
    with contextlib.ExitStack() as at_end:
        if live:
            for module, arguments in (
                ("virtscope.xen", ["--source=replay:demo-xen.jsonl.gz", _listen(ports.xentop)]),
                ("virtscope.kvm", ["--source=replay:demo-kvm.jsonl.gz", _listen(ports.kvm)]),
                ("virtscope.openvz", ["--source=replay:demo-openvz.jsonl.gz", _listen(ports.vestat)]),
                ("demo", ["sensors", "--folder=.", f"--port={ports.sensors}"]),
            ):
                at_end.enter_context(_running(folder, module, arguments))
        at_end.callback(prometheus.stop)
        prometheus.start(
            "--config.file=prometheus/prometheus.yml",
            "--storage.tsdb.path=data",
            "--storage.tsdb.retention.time=30d",
            "--query.lookback-delta=75s",
            "--rules.alert.for-grace-period=0s",
            "--web.console.templates=prometheus/consoles",
            f"--web.listen-address=127.0.0.1:{prometheus.port}",
            "--log.level=warn",
        )
        yield Demo(prometheus.url, prometheus.log, end)


def _listen(port: int) -> str:
    return f"--web.listen-address=127.0.0.1:{port}"


@contextlib.contextmanager
def _running(folder: Path, module: str, arguments: list[str]) -> Iterator[None]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'exporters'}"}
    with (folder / f"{module}.log").open("w") as log:
        command = [sys.executable, "-m", module, *arguments]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
