"""A second exporter in Dom0, with flags of its own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.xen.host import XenHost
from tests.xen.machine import SECOND_EXPORTER_PORT
from tests.xen.pages import Page

LOG = "/var/log/second-exporter"


@dataclass(frozen=True)
class SecondExporter:
    """The running exporter; `pid` is its process id in Dom0."""

    xen: XenHost
    pid: str

    @property
    def address(self) -> str:
        """Where it is reached from here."""
        return self.xen.machine.second_exporter

    def child(self) -> str:
        """Its child's process id; fails unless there is exactly one xentop."""
        statuses = self.xen.dom0(f"grep -l '^PPid:[[:space:]]*{self.pid}$' /proc/[0-9]*/status 2>/dev/null || true")
        children = [path.split("/")[2] for path in statuses.split()]
        [child] = [pid for pid in children if "xentop" in self.xen.dom0(f"cat /proc/{pid}/comm 2>/dev/null || true")]
        return child

    def page(self) -> Page:
        return Page.of(self.address)

    def wait_for(self, up: bool, seconds: float = 120) -> Page:
        """The first page on which the source is up, or isn't."""
        deadline = time.monotonic() + seconds
        while (page := self.page()).value("xentop_up") != up:
            assert time.monotonic() < deadline, self.xen.dom0(f"cat {LOG}")
        return page

    def page_from_now(self) -> Page:
        """A page whose values were read after this call."""
        begun = time.monotonic()
        while True:
            page = self.wait_for(up=True)
            if page.value("xentop_iteration_age_seconds") < time.monotonic() - begun:
                return page
            time.sleep(0.2)


@contextlib.contextmanager
def second_exporter_in(xen: XenHost, flags: str) -> Iterator[SecondExporter]:
    """Starts it and waits until it listens; stops it at the end of the block."""
    pid = xen.dom0(
        f"PYTHONPATH=/opt/virtscope setsid python3 -m virtscope.xen {flags}"
        f" --web.listen-address=0.0.0.0:{SECOND_EXPORTER_PORT} >{LOG} 2>&1 & echo $!"
    ).strip()
    try:
        xen.dom0(f"for i in $(seq 60); do grep -q listening {LOG} && exit 0; sleep 1; done; cat {LOG}; exit 1", 90)
        yield SecondExporter(xen, pid)
    finally:
        xen.dom0(f"kill {pid}")
