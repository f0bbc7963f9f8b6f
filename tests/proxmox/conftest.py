"""The emulated Proxmox VE host."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.distributions.chroots import MissingError
from tests.proxmox.host import ProxmoxHost
from tests.support.disk import need_emulation
from tests.support.needs import missing
from tests.support.reporting import Report, pytest_terminal_summary, report
from tests.xen.package import exporter_as_tar

__all__ = ["pytest_terminal_summary", "report"]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, report: Report) -> Iterator[ProxmoxHost]:
    """The host with its storages; nothing runs on it."""
    need_emulation(gcc="gcc")
    workdir = tmp_path_factory.mktemp("proxmox")
    begun = time.monotonic()
    try:
        with ProxmoxHost(workdir) as found:
            found.prepare()
            report(f"the Proxmox host: {time.monotonic() - begun:.0f} s until its storages were made")
            found.start_kvm_exporter(exporter_as_tar(workdir))
            yield found
    except MissingError as error:
        missing(str(error))
