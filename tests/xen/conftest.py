"""One emulated Xen host for all tests of this folder, and the project's own Prometheus that scrapes it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest

from tests.live import Prometheus
from tests.xen.host import GUESTS, XenHost
from tests.xen.image import image
from tests.xen.machine import Machine, why_not_here
from tests.xen.package import exporter_as_tar

FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Takes a line to be shown at the end of the run: what was measured, beside the verdict on it."""
    return pytestconfig.stash.setdefault(FIGURES, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash.get(FIGURES, []):
        terminalreporter.section("figures from the emulated Xen host")
        terminalreporter.write("".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="session")
def xen(
    tmp_path_factory: pytest.TempPathFactory, figures: Callable[[str], None], request: pytest.FixtureRequest
) -> Iterator[XenHost]:
    """A running Xen host, the guests of GUESTS at work, the exporter in Dom0."""
    if reason := why_not_here():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    workdir = tmp_path_factory.mktemp("xen")
    exporter, booted = exporter_as_tar(workdir), image()
    begun = time.monotonic()
    with Machine(booted, workdir) as machine:
        host = XenHost(machine)
        # The guests come last: at work, they would take the CPU from all this.
        host.install_exporter(exporter)
        host.start_exporter()
        domids = [host.create(guest) for guest in GUESTS]
        host.dom0("".join(f"xl unpause {domid}; " for domid in domids))
        figures(f"{time.monotonic() - begun:.0f} s from power on to {len(GUESTS)} running guests and the exporter")
        failed = request.session.testsfailed
        yield host
        if request.session.testsfailed > failed:
            figures(f"The exporter's log:\n{host.dom0('cat /var/log/xentop-exporter')}")
            figures(f"The console:\n{machine.console()}")


@pytest.fixture(scope="session")
def prometheus(xen: XenHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """The project's Prometheus, scraping the host as often as it ships to, for long enough to know rates."""
    with Prometheus(tmp_path_factory.mktemp("prometheus"), {"xentop": [xen.target]}, interval="5s") as server:
        server.wait_for("host:overhead:ratio", seconds=60)
        yield server
