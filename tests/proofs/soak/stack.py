"""The stack as started by `make up`, in a copy of this checkout, plus exporters for the simulated hosts.

Differences: everything is scraped each second, and Prometheus writes blocks of five minutes instead of two hours and
keeps them for fifteen minutes instead of thirty days. So a run has many compactions, which free the series of ended
guests, and the number of blocks soon is as constant as after a month.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.e2e.running_exporter import RunningExporter
from tests.proofs.soak.guests import Host
from tests.stack.conftest import Checkout
from tests.support.waiting import wait_for

BLOCK = "5m"
RETENTION = "15m"


class Stack:
    """The running stack: its processes by name, and queries to its Prometheus."""

    def __init__(self, checkout: Checkout, exporters: dict[str, int]) -> None:
        self._checkout = checkout
        self._exporters = exporters
        self.logs = [checkout.folder / ".stack/log", checkout.folder.parent / "exporters"]

    def processes(self) -> dict[str, int]:
        """Pids by name: supervisord, its parts, and the exporters of the simulated hosts."""
        named = {_name(command): pid for pid, command in self._checkout.processes().items()}
        return {**named, **self._exporters}

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Prometheus's answer to an instant query."""
        return self._checkout.query(expression)

    def status(self) -> str:
        """The output of `make status`."""
        return self._checkout.make("status").stdout


def _name(command: str) -> str:
    """A short name of a process in the checkout, from its command line."""
    words = command.split()
    modules = [word for word in words if word.startswith(("virtscope.", "deploy."))]
    return next(iter(modules), "supervisord" if "supervisord" in command else Path(words[0]).name)


@contextlib.contextmanager
def running(folder: Path, hosts: Mapping[str, Host], real: list[str]) -> Iterator[Stack]:
    """Start everything; perf-exporter counts each cgroup in `real`. Raises if something doesn't start."""
    checkout = Checkout(folder / "checkout")
    _each_second(checkout)
    logs = folder / "exporters"
    logs.mkdir()
    with contextlib.ExitStack() as at_end:
        pids = {}
        targets: dict[str, list[dict[str, Any]]] = {}
        for host, (job, package, platform) in _WATCHED.items():
            exporter = at_end.enter_context(_exporter(package, hosts[host].flags, hosts[host].environment, logs / host))
            pids[f"{job}-exporter of {host}"] = exporter.process.pid
            targets.setdefault(job, []).append(_target(exporter, host, platform))
        if real:
            flags = [f"--cgroup.include={path}" for path in real]
            exporter = at_end.enter_context(_exporter("perf", flags, {}, logs / "real"))
            pids["perf-exporter of the real guests"] = exporter.process.pid
            targets["perf"] = [_target(exporter, "real", "cgroup")]
        for job, entries in targets.items():
            (checkout.folder / f"prometheus/targets/{job}.yml").write_text(json.dumps(entries))  # JSON is YAML
        at_end.callback(checkout.kill_all)
        at_end.callback(checkout.make, "down")
        up = checkout.make("up")
        if up.returncode:
            raise RuntimeError(up.stdout)
        wanted = [entry["labels"]["host"] for entries in targets.values() for entry in entries]
        wait_for(lambda: len(checkout.query(f"up{{host=~'{'|'.join(wanted)}'}} == 1")) == len(wanted))
        yield Stack(checkout, pids)


_WATCHED = {
    "domains": ("xentop", "xen", "xen"),
    "text": ("xentop", "xen", "xen"),
    "containers": ("vestat", "openvz", "openvz"),
}  # by host: job, exporter package, platform


def _each_second(checkout: Checkout) -> None:
    for path, was, becomes in (
        ("prometheus/prometheus.yml", "\n  scrape_interval: 5s\n", "\n  scrape_interval: 1s\n"),
        ("prometheus/prometheus.yml", "\n  scrape_timeout: 4s ", "\n  scrape_timeout: 1s "),
        (
            "deploy/supervisord.conf",
            "    --storage.tsdb.retention.time=30d\n",
            f"    --storage.tsdb.retention.time={RETENTION}\n{_blocks('min')}{_blocks('max')}",
        ),
    ):
        file = checkout.folder / path
        text = file.read_text()
        if text.count(was) != 1:
            raise RuntimeError(f"{path} has not one line {was.strip()!r}")
        file.write_text(text.replace(was, becomes))


def _blocks(which: str) -> str:
    return f"    --storage.tsdb.{which}-block-duration={BLOCK}\n"


def _target(exporter: RunningExporter, host: str, platform: str) -> dict[str, Any]:
    return {"targets": [exporter.address], "labels": {"host": host, "platform": platform}}


def _exporter(package: str, flags: list[str], environment: dict[str, str], folder: Path) -> RunningExporter:
    folder.mkdir()
    return RunningExporter(folder, *flags, environment={**os.environ, **environment}, package=f"virtscope.{package}")
