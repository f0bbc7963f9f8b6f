"""The Xen host under test: what runs on the emulated machine, and how to take hold of it."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import requests

from tests.live import Prometheus
from tests.xen.machine import Machine, MachineError

EXPORTER_SECONDS = 60
SCRAPE_SECONDS = 30  # until the next scrape is stored: 5 s, and one may fail on a busy machine


@dataclass(frozen=True)
class Guest:
    """A guest to be, with the arguments of dom0/scripts/create-guest; `duty` is in percent of each vCPU."""

    number: int
    name: str
    duty: int = 0
    vcpus: int = 1
    io: int = 0
    net: int = 0


GUESTS = (
    Guest(1, "web01", duty=40, io=8, net=1),
    Guest(2, "db01", duty=15, io=8, net=1),
    Guest(3, 'app "Grün" \\ 1', duty=5, vcpus=2, net=1),
)


class XenHost:
    """A machine with guests and the exporter.

    Attributes:
        exporter: the exporter's address, host:port, as seen from here.
        target: its entry in Prometheus's targets file.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.exporter = machine.exporter
        self.target: dict[str, Any] = {"targets": [self.exporter], "labels": {"host": "xen-lab", "platform": "xen"}}

    def dom0(self, command: str, timeout: float = 60) -> str:
        """Runs a shell command in Dom0, which must succeed; returns what it printed."""
        return self.machine.check(command, timeout)

    def install_exporter(self, tar: bytes) -> None:
        """Unpacks what package.exporter_as_tar made into /opt/virtscope of Dom0."""
        self.machine.put("/tmp/virtscope.tar", tar)
        self.dom0("mkdir -p /opt/virtscope && tar -xf /tmp/virtscope.tar -C /opt/virtscope && rm /tmp/virtscope.tar")

    def start_exporter(self) -> None:
        """Starts the exporter and waits until it answers; its log is /var/log/xentop-exporter in Dom0."""
        self.dom0(
            "PYTHONPATH=/opt/virtscope setsid python3 -m virtscope.xentop --web.listen-address=0.0.0.0:10290"
            " >/var/log/xentop-exporter 2>&1 &"
        )
        deadline = time.monotonic() + EXPORTER_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(requests.RequestException):
                requests.get(f"http://{self.exporter}/-/healthy", timeout=5).raise_for_status()
                return
            time.sleep(0.5)
        raise MachineError(f"the exporter does not answer; its log:\n{self.dom0('cat /var/log/xentop-exporter')}")

    def create(self, guest: Guest) -> str:
        """Creates a guest, paused; returns its domain id."""
        arguments = [guest.number, guest.name, guest.duty, guest.vcpus, guest.io, guest.net]
        self.dom0(f"create-guest {shlex.join(map(str, arguments))}", timeout=120)
        return self.dom0(f"xl domid {shlex.quote(guest.name)}").strip()

    def domids(self) -> list[str]:
        """The ids of all guests, oldest first."""
        return sorted(self.dom0("xenstore-list /local/domain").split(), key=int)[1:]

    @contextlib.contextmanager
    def paused(self, *domids: str) -> Iterator[None]:
        """Stops these guests, all if none is named, as long as the block lasts."""
        chosen = domids or self.domids()
        self.dom0("".join(f"xl pause {domid}; " for domid in chosen))
        try:
            yield
        finally:
            self.dom0("".join(f"xl unpause {domid}; " for domid in chosen))


def wait_for_scrape(prometheus: Prometheus) -> None:
    """Returns when Prometheus has stored a successful scrape that began after this call."""
    now = time.time()
    prometheus.wait_for(f'up{{job="xentop"}} == 1 and timestamp(up{{job="xentop"}}) > {now}', SCRAPE_SECONDS)
