"""A simulated Xen host: the tests' fake libxenstat serves both xentop-exporter and xentop."""

from pathlib import Path

from tests.unit.xen.fake_host import FakeDomain, FakeXen

SECOND = 10**9


class Domains(FakeXen):
    """Describes Dom0 and `count` guests, each with one vCPU, vif and vbd, and updates their counters."""

    def __init__(self, folder: Path, count: int) -> None:
        # Debian's xentop links to the symbols of Xen 4.17.
        versions = folder / "versions"
        versions.write_text("VERS_4.17.0 { global: *; };\n")
        super().__init__(folder, "-O2", f"-Wl,--version-script={versions}")
        self._count = count
        self._seconds = 1_000_000
        self.run_on()

    def run_on(self) -> None:
        """Simulate a second of activity in every guest."""
        self._seconds += 1
        dom0 = FakeDomain(0, b"Domain-0", cpu_ns=self._seconds * SECOND // 10, state="running")
        self.show(dom0, *[guest(number, self._seconds) for number in range(1, self._count + 1)])


def guest(number: int, seconds: int) -> FakeDomain:
    """A guest that has been running for this long."""
    cpu_ns = seconds * SECOND * (number % 90 + 1) // 100 + number
    octets, packets = seconds * 40_000 + number, seconds * 60
    requests, sectors = seconds * 12, seconds * 190
    return FakeDomain(
        id=number,
        name=b"guest-%04d" % number,
        cpu_ns=cpu_ns,
        vcpus=[(1, cpu_ns)],
        networks=[(0, octets, packets, 0, 0, octets // 3, packets // 2, 0, 0)],
        vbds=[(1, 51712, 0, requests, requests // 2, sectors, sectors // 2, 0)],
    )
