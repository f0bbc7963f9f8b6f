"""Answers of exporters in Dom0, and a second exporter with custom flags."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.support import pages
from tests.support.waiting import wait_for
from tests.xen.host import SECOND_EXPORTER_PORT, XenHost

LOG = "/var/log/second-exporter"


@dataclass(frozen=True)
class Page(pages.Page):
    def of_guest(self, domain: str) -> set[str]:
        """The ids of the domains with this name, "" if the source has none."""
        return {sample.labels["domid"] for sample in self.all("xen_domain_vcpus", domain=domain)}


@dataclass(frozen=True)
class SecondExporter:
    """The running exporter; `address` is its address on this machine."""

    xen: XenHost
    address: str

    def page(self) -> Page:
        return Page.of(self.address)

    def page_with(self, wanted: Callable[[Page], object], seconds: float = 120, every: float = 0.5) -> Page:
        """The first page that matches. Each scrape takes CPU time from the guests, because Dom0 has precedence."""
        log = f"cat {LOG}"
        return wait_for(self.page, seconds, every=every, until=wanted, explain=lambda: self.xen.dom0(log))

    def wait_until_up(self) -> None:
        self.page_with(lambda page: page.value("xentop_up") == 1)

    def page_from_now(self) -> Page:
        """A page with values read after this call."""
        begun = time.monotonic()
        age = "xentop_iteration_age_seconds"
        return self.page_with(
            lambda page: page.value("xentop_up") == 1 and page.value(age) < time.monotonic() - begun, every=0.2
        )


@contextlib.contextmanager
def second_exporter_in(xen: XenHost, flags: str) -> Iterator[SecondExporter]:
    """An exporter in Dom0 that is reachable from here; it runs until the end of the block."""
    command = f"python3 -m virtscope.xen {flags} --web.listen-address=0.0.0.0:{SECOND_EXPORTER_PORT}"
    pid = xen.dom0(f"PYTHONPATH=/opt/virtscope setsid {command} >{LOG} 2>&1 & echo $!").strip()
    try:
        xen.dom0(f"for i in $(seq 60); do grep -q listening {LOG} && exit 0; sleep 1; done; cat {LOG}; exit 1", 90)
        yield SecondExporter(xen, xen.second_exporter)
    finally:
        xen.dom0(f"kill {pid}; for i in $(seq 30); do [ -e /proc/{pid} ] || exit 0; sleep 1; done; exit 1")
