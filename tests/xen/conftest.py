"""One emulated Xen host for all tests of this folder, and the project's own Prometheus that scrapes it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.live import Prometheus
from tests.xen import host
from tests.xen.host import Guest
from tests.xen.image import image
from tests.xen.machine import Machine, missing_packages

GUESTS = (
    Guest(1, "web01", duty=40, io=8, net=1),
    Guest(2, "db01", duty=15, io=8, net=1),
    Guest(3, 'app "Grün" \\ 1', duty=5, vcpus=2, io=8, net=1),
)


@pytest.fixture(scope="session")
def xen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A running Xen host with the guests of GUESTS at work and the exporter in Dom0."""
    if missing := missing_packages():
        reason = (
            f"an emulated Xen host needs more packages: apt-get install --no-install-recommends {' '.join(missing)}"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    workdir = tmp_path_factory.mktemp("xen")
    exporter = host.exporter_as_tar(workdir)
    with Machine(image(), workdir) as machine:
        # Before the guests run: they would take the CPU from it.
        host.install_exporter(machine, exporter)
        domids = [host.create(machine, guest) for guest in GUESTS]
        host.start_exporter(machine)
        machine.check("; ".join(f"xl unpause {domid}" for domid in domids))
        yield machine


@pytest.fixture(scope="session")
def prometheus(xen: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """The project's Prometheus, scraping the Xen host every 5 s, as shipped."""
    target = {"targets": [xen.exporter], "labels": {"host": "xen-lab", "platform": "xen"}}
    with Prometheus(tmp_path_factory.mktemp("prometheus"), {"xentop": [target]}, interval="5s") as server:
        yield server
