"""The chain from the kernel to the name: exporters, and a Prometheus with the project's rules, scraping every 5 s.

Everything runs as at users', with two exceptions: rates of waiting are over `WINDOW` seconds instead of two minutes,
and there is an additional application with its own objectives, whose virtual servers are the victims.
"""

import contextlib
import math
import os
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from alerts.generator import objective_rules
from alerts.generator.application import read_application
from alerts.generator.rule_file import render
from deploy import go_programs
from deploy.documents import parse
from lab.processes import Process, beside
from tests.e2e.running_exporter import RunningExporter
from tests.proofs.truth.judgement import Culprit, Resource
from tests.support import Prometheus
from tests.support.endpoints import Group
from tests.support.pages import Page
from tests.support.ports import free_port

HOST = "truth"
PREFIX = "truth-"  # of the names of all applications and virtual servers
SCRAPE = 5  # seconds
WINDOW = 15  # seconds
LIMIT = 2.0 * SCRAPE + WINDOW
"""Seconds in which a culprit is to be named."""
_READY_SECONDS = 90
_WAITS: Mapping[Resource, str] = {
    "cpu": "sched_wait_seconds_total",
    "disk": "blk_delay_seconds_total",
    "memory": "memory_delay_seconds_total",
    "interrupts": "irq_delay_seconds_total",
}
_OBJECTIVES = f"""\
app: {PREFIX}.+
about: The victims of `make truth`.
tiers:
  web: (?:virtscope/)?{{app}}-web
objectives:
  availability: {{share: 0.999}}
low_traffic: 0.2
"""


class NoWaitsError(Exception):
    """This machine's waits can't be counted; the message is the exporter's."""


class Chain:
    """The running chain; raises `NoWaitsError` if the exporter can't count waits here."""

    def __init__(self, folder: Path, *, guests: bool) -> None:
        """`folder`: for logs and data. `guests`: whether to watch KVM guests too."""
        self._folder = folder
        self._guests = guests
        self._ending = contextlib.ExitStack()
        self._sched = ""  # the exporter's address
        self._prometheus: Prometheus

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as ending:
            self._sched = self._exporter(ending, "sched")
            if reason := why_absent(Page.of(self._sched)):
                raise NoWaitsError(reason)
            platform = "kvm" if self._guests else "base"
            targets = {"sched": [_group(self._sched, platform)], "cadvisor": [_group(self._cadvisor(ending), "cgroup")]}
            if self._guests:
                targets["kvm"] = [_group(self._exporter(ending, "kvm", "--libvirt.interval=0"), "kvm")]
            self._prometheus = Prometheus(self._folder, targets, interval=f"{SCRAPE}s")
            rules = self._prometheus.folder / "prometheus/rules/waits.yml"
            rules.write_text(scaled(rules.read_text()))
            application = read_application(parse(_OBJECTIVES, "truth.yml"))
            generated = render(objective_rules.groups("truth", application), "The victims.")
            (self._prometheus.folder / "alerts/generated/truth.yml").write_text(generated)
            ending.enter_context(self._prometheus)
            self._ending = ending.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def await_application(self, app: str) -> None:
        """Wait until the rules know the application's virtual server."""
        self._prometheus.wait_for(f'vserver:app:info{{host="{HOST}", app="{app}"}}', _READY_SECONDS)

    def named(self, app: str, since: float) -> list[tuple[float, Culprit]]:
        """Neighbours named to this application since then: Unix time, resource and virtual server."""
        seconds = math.ceil(time.time() - since)
        found = self._prometheus.query(f'app:neighbour:ratio{{host="{HOST}", app="{app}"}}[{seconds}s]')
        return [
            (at, Culprit(series["metric"]["resource"], series["metric"]["by"]))
            for series in found
            for at, _ratio in series["values"]
            if at >= since
        ]

    def charged(self, resource: Resource, cgroup: str) -> float:
        """Seconds of this cgroup's wait for a resource that the exporter has charged so far."""
        return sum(self.charges(resource, cgroup).values())

    def charges(self, resource: Resource, cgroup: str) -> dict[str, float]:
        """The same by neighbour, whose names are cgroups or in brackets."""
        found: defaultdict[str, float] = defaultdict(float)
        for sample in Page.of(self._sched).all(_WAITS[resource], cgroup=cgroup):
            found[sample.labels.get("running") or sample.labels["by"]] += sample.value
        return dict(found)

    def _exporter(self, ending: contextlib.ExitStack, name: str, *flags: str) -> str:
        folder = self._folder / name
        folder.mkdir()
        return ending.enter_context(RunningExporter(folder, *flags, package=f"virtscope.{name}")).address

    def _cadvisor(self, ending: contextlib.ExitStack) -> str:
        """As in lab.stage, with a libvirt host's guests among the containers."""
        port = free_port()
        command: list[str | Path] = [
            *(go_programs.path("cadvisor"), "--listen_ip=127.0.0.1", f"--port={port}"),
            "--raw_cgroup_prefix_whitelist=/virtscope/,/machine.slice/",
            *("--housekeeping_interval=1m", "--max_housekeeping_interval=1m", "--storage_duration=2m"),
        ]
        cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        ending.callback(Process("cAdvisor", beside(cpus, command), self._folder / "cadvisor.log").stop)
        return f"127.0.0.1:{port}"


def why_absent(page: Page) -> str:
    """Why the exporter can't count waits on this machine; empty if it can."""
    details = [sample.labels["detail"] for sample in page.all("sched_source_info")]
    return next((detail.removeprefix("absent: ") for detail in details if detail.startswith("absent: ")), "")


def scaled(rules: str) -> str:
    """The rules with these exceptions; raises `ValueError` if they don't match."""
    exceptions = {"[2m]": f"[{WINDOW}s]", "offset 2m": f"offset {WINDOW}s"}
    for shipped, here in exceptions.items():
        if shipped not in rules:
            raise ValueError(f"prometheus/rules/waits.yml has no {shipped!r}: update tests/proofs/truth/chain.py")
        rules = rules.replace(shipped, here)
    return rules


def _group(address: str, platform: str) -> Group:
    return {"targets": [address], "labels": {"host": HOST, "platform": platform}}
