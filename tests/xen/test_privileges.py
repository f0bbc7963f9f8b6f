"""xentop-exporter as user nobody in Dom0: with its unit's only capability it reads everything, without it nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.support.emulated import MachineError
from tests.support.pages import Series
from tests.support.privileges import UNITS, capabilities, directives, unprivileged
from tests.support.waiting import wait_for
from tests.xen.exporters import Page, exporter_in
from tests.xen.host import XenHost
from tests.xen.machine import EXPORTER_PORT

PORT = 10292
LOG = "/var/log/unprivileged-exporter"
GIVEN = capabilities("xentop-exporter")


@contextlib.contextmanager
def exporter(xen: XenHost, flags: str, having: set[str]) -> Iterator[None]:
    """An exporter running in Dom0 as user nobody; it listens already."""
    flags = f"{flags} --web.listen-address=127.0.0.1:{PORT}"
    with exporter_in(xen, flags, LOG, before=" ".join(unprivileged(having))):
        yield


def series(xen: XenHost, port: int = PORT) -> Series:
    return Page.from_within(xen, port).series()


def about_xen(series: Series) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """The names and labels of all series about Xen."""
    return {key for key in series if not key[0].startswith(("xentop_", "process_"))}


def wait_until_up(xen: XenHost, *sources: str) -> None:
    """Returns once the exporter shows these as up; some are read in the background."""
    up = {("xentop_source_up", frozenset({("source", source)})) for source in sources}
    wait_for(
        lambda: {key for key, value in series(xen).items() if value == 1},
        until=up.__le__,
        explain=lambda: xen.dom0(f"cat {LOG}"),
        not_yet=(MachineError,),
    )


@pytest.fixture
def devices_of_the_unit(xen: XenHost) -> Iterator[None]:
    """While a test lasts, Dom0 has only those of Xen's devices that the unit allows."""
    rules = directives(UNITS / "xentop-exporter.service")["DeviceAllow"]
    allowed = {rule.split()[0].removeprefix("/dev/xen/") for rule in rules}
    others = " ".join(set(xen.dom0("ls /dev/xen").split()) - allowed)
    xen.dom0(f"mkdir /dev/others; cd /dev/xen; mv {others} /dev/others")
    try:
        yield
    finally:
        xen.dom0(f"cd /dev/others; mv {others} /dev/xen; rmdir /dev/others")


@pytest.mark.usefixtures("devices_of_the_unit")
def test_with_that_capability_an_ordinary_user_gets_what_root_gets_and_can_trace(xen: XenHost) -> None:
    with exporter(xen, "--source=libxenstat --xentrace.interval=10s", GIVEN):
        wait_until_up(xen, "libxenstat", "xl", "xentrace")
        mine = {key for key in about_xen(series(xen)) if "_trace_" not in key[0] and "_estimated_" not in key[0]}
        assert mine != set()
        # root's exporter may be about to run xl
        wait_for(lambda: about_xen(series(xen, EXPORTER_PORT)), until=mine.__eq__)
    with exporter(xen, "--source=xentop", GIVEN):
        wait_until_up(xen, "xentop")
        assert any(name == "xen_domain_cpu_seconds_total" for name, _ in about_xen(series(xen)))


def test_without_it_nothing_is_shown_and_the_log_says_what_is_missing(xen: XenHost) -> None:
    for having in (set[str](), {"CAP_DAC_READ_SEARCH"}):
        with exporter(xen, "--source=libxenstat --xl.interval=0", having):
            assert about_xen(series(xen)) == set()
            log = xen.dom0(f"cat {LOG}")
        assert "Permission denied" in log
        assert {word for word in log.replace(",", " ").split() if word.startswith("CAP_")} == GIVEN
