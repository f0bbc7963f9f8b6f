"""Emulated machines with kernels other than this machine's, one at a time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest

from tests.distributions.chroots import MissingError
from tests.kernels.image import why_not_here
from tests.kernels.machine import Machine, Setup, booted
from tests.xen.package import exporter_as_tar

REPORTED = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Prints a line at the end of the run: what was measured, whether or not the test passed."""
    return pytestconfig.stash.setdefault(REPORTED, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash.get(REPORTED, []):
        terminalreporter.section("measured on emulated kernels")
        terminalreporter.write("".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="module")
def machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, report: Callable[[str], None]
) -> Iterator[Machine]:
    """The machine of the setup that is the parameter, with the exporter."""
    if reason := why_not_here():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    setup: Setup = request.param
    workdir = tmp_path_factory.mktemp(setup.release.suite)
    exporter = exporter_as_tar(workdir)
    begun = time.monotonic()
    try:
        with booted(setup, workdir) as found:
            found.start_exporter(exporter)
            report(f"{setup.name}: {time.monotonic() - begun:.0f} s until the exporter counted")
            failed = request.session.testsfailed
            yield found
            if request.session.testsfailed > failed:
                report(f"The console:\n{found.console()}")
                report(f"The exporter's log:\n{found.log()}")
    except MissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
