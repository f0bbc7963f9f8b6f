"""A demo prepared for one test module and played by the real exporters and Prometheus."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from demo import prepare, story
from tests.support.ports import free_port
from tests.support.program import Program, program_path
from tests.support.promql import PrometheusClient

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 15
FLAGS = ("--storage.tsdb.retention.time=30d", "--query.lookback-delta=75s", "--log.level=warn")


class Demo(PrometheusClient):
    """A demo's Prometheus at `url`, with warnings in `log`; its history ends at `end` (Unix time)."""

    def __init__(self, url: str, log: Path, end: int) -> None:
        super().__init__(url)
        self.log = log
        self.end = end

    def minute(self, number: int) -> int:
        """The last Unix time in the history at this minute of an hour."""
        return self.end - (self.end - 60 * number) % story.CYCLE

    def moment(self, placement: str, instances: int, clients: int) -> int:
        """The last minute of the history at least two minutes into this step, when records cover this step alone."""
        wanted = (placement, instances, clients)
        (step,) = (step for step in story.STEPS if (step.placement, step.instances, step.clients) == wanted)
        last = self.end - (self.end - step.end) % story.CYCLE
        return last - 60 if step.end - step.begin > 120 else last


@contextlib.contextmanager
def playing(folder: Path, history: int, live: bool = False, shard: str | None = None) -> Iterator[Demo]:
    """A demo with this many seconds of history. `live`: it continues; `shard`: it plays this shard of a fleet."""
    prometheus = Program("prometheus", folder)
    ports = {"prometheus": prometheus.port} | {name: free_port() for name in ("xentop", "kvm", "vestat", "sensors")}
    end = prepare.prepare(folder, program_path("promtool"), program_path("prometheus"), ports, history)
    if shard is not None:
        file = folder / "prometheus/prometheus.yml"
        configuration = yaml.safe_load(file.read_text())
        configuration["global"]["external_labels"] = {"shard": shard}
        file.write_text(yaml.safe_dump(configuration))
    with contextlib.ExitStack() as at_end:
        if live:
            for module, arguments in (
                ("virtscope.xen", ["--source=replay:demo-xen.jsonl.gz", _listen(ports["xentop"])]),
                ("virtscope.kvm", ["--source=replay:demo-kvm.jsonl.gz", _listen(ports["kvm"])]),
                ("virtscope.openvz", ["--source=replay:demo-openvz.jsonl.gz", _listen(ports["vestat"])]),
                ("demo", ["sensors", "--folder=.", f"--port={ports['sensors']}"]),
            ):
                at_end.enter_context(_running(folder, module, arguments))
        at_end.callback(prometheus.stop)
        prometheus.start(
            "--config.file=prometheus/prometheus.yml",
            "--storage.tsdb.path=data",
            "--rules.alert.for-grace-period=0s",
            "--web.console.templates=prometheus/consoles",
            _listen(prometheus.port),
            *FLAGS,
        )
        yield Demo(prometheus.url, prometheus.log, end)


@contextlib.contextmanager
def reading(folder: Path, shard: Demo) -> Iterator[PrometheusClient]:
    """A Prometheus with all series of a shard and the shard's label, like the one behind a fleet's pages."""
    store = Program("prometheus", folder)
    remote = {"url": f"{shard.url}/api/v1/read", "read_recent": True}
    (folder / "store.yml").write_text(yaml.safe_dump({"remote_read": [remote]}))
    store.start("--config.file=store.yml", "--storage.tsdb.path=store", _listen(store.port), *FLAGS)
    try:
        yield PrometheusClient(store.url)
    finally:
        store.stop()


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
