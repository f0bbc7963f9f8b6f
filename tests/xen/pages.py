"""What an exporter in Dom0 answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tests.support import pages
from tests.support.pages import SECONDS
from tests.xen.host import XenHost


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
