"""Emulated machines with kernels other than this machine's, one at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.distributions.chroots import MissingError
from tests.kernels.machine import Machine
from tests.support.disk import need_emulation
from tests.support.needs import missing
from tests.support.reporting import Report, pytest_terminal_summary, report
from tests.xen.package import exporter_as_tar

__all__ = ["pytest_terminal_summary", "report"]


@pytest.fixture(scope="module")
def machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, report: Report
) -> Iterator[Machine]:
    """The machine of the setup that is the parameter, with the exporter."""
    need_emulation()
    workdir = tmp_path_factory.mktemp(request.param.release.suite)
    exporter = exporter_as_tar(workdir)
    begun = time.monotonic()
    try:
        with Machine(request.param, workdir) as found:
            found.start_unit(exporter)
            report(f"{request.param.name}: {time.monotonic() - begun:.0f} s until the exporter counted")
            failed = request.session.testsfailed
            yield found
            if request.session.testsfailed > failed:
                report(f"The console:\n{found.console()}\nThe exporter's log:\n{found.log()}")
    except MissingError as error:
        missing(str(error))
