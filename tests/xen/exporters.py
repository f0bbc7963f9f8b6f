"""What exporters in Dom0 answer, and a second one with flags of its own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

from tests.support import pages
from tests.support.pages import SECONDS
from tests.support.waiting import wait_for
from tests.xen.host import XenHost
from tests.xen.machine import SECOND_EXPORTER_PORT

LOG = "/var/log/second-exporter"


@dataclass(frozen=True)
class Page(pages.Page):
    """One scrape."""

    @classmethod
    def from_within(cls, xen: XenHost, port: int) -> Self:
        """Scrapes an exporter that listens on Dom0's loopback only; slower."""
        url = f"http://127.0.0.1:{port}/metrics"
        fetch = f"urllib.request.urlopen('{url}', timeout={SECONDS}).read()"
        return cls.parse(xen.dom0(f'python3 -c "import sys, urllib.request; sys.stdout.buffer.write({fetch})"'))

    def of_guest(self, domain: str) -> set[str]:
        """The ids of the domains of that name, "" where the source has none."""
        return {sample.labels["domid"] for sample in self.all("xen_domain_vcpus", domain=domain)}

    def states(self, domain: str) -> set[str]:
        """The states of the only domain of that name."""
        return {sample.labels["state"] for sample in self.all("xen_domain_state", domain=domain) if sample.value == 1}


@dataclass(frozen=True)
class SecondExporter:
    """The running exporter; `address` is where it is reached from here."""

    xen: XenHost
    address: str

    def page(self) -> Page:
        return Page.of(self.address)

    def page_with(self, wanted: Callable[[Page], object], seconds: float = 120, every: float = 0.5) -> Page:
        """The first page that is as wanted. Each scrape takes Dom0's CPU, which goes before its guests."""
        log = f"cat {LOG}"
        return wait_for(self.page, seconds, every=every, until=wanted, explain=lambda: self.xen.dom0(log))

    def wait_until_up(self) -> None:
        self.page_with(lambda page: page.value("xentop_up") == 1)

    def page_from_now(self) -> Page:
        """A page whose values were read after this call."""
        begun = time.monotonic()
        age = "xentop_iteration_age_seconds"
        return self.page_with(
            lambda page: page.value("xentop_up") == 1 and page.value(age) < time.monotonic() - begun, every=0.2
        )


@contextlib.contextmanager
def exporter_in(xen: XenHost, flags: str, log: str, *, before: str = "") -> Iterator[None]:
    """Starts an exporter in Dom0, waits until it listens, and stops it at the end of the block."""
    command = f"{before} python3 -m virtscope.xen {flags}"
    pid = xen.dom0(f"PYTHONPATH=/opt/virtscope setsid {command} >{log} 2>&1 & echo $!").strip()
    try:
        xen.dom0(f"for i in $(seq 60); do grep -q listening {log} && exit 0; sleep 1; done; cat {log}; exit 1", 90)
        yield
    finally:
        xen.dom0(f"kill {pid}; for i in $(seq 30); do [ -e /proc/{pid} ] || exit 0; sleep 1; done; exit 1")


@contextlib.contextmanager
def second_exporter_in(xen: XenHost, flags: str) -> Iterator[SecondExporter]:
    """One that is reached from here."""
    with exporter_in(xen, f"{flags} --web.listen-address=0.0.0.0:{SECOND_EXPORTER_PORT}", LOG):
        yield SecondExporter(xen, xen.machine.second_exporter)
