"""xentop-exporter as user nobody in Dom0: with its unit's only capability it reads everything, without it nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from tests.support.privileges import UNITS, capabilities, directives, unprivileged
from tests.xen.host import XenHost
from tests.xen.pages import Page

pytestmark = pytest.mark.timeout(900)  # the first test also builds and boots

PORT = 10292
LOG = "/var/log/unprivileged-exporter"
GIVEN = capabilities("xentop-exporter")
XENTOP_IS_UP = ("xentop_up", frozenset[tuple[str, str]]())
XL_IS_UP = ("xentop_source_up", frozenset({("source", "xl")}))
ABOUT_THE_READING = ("xentop_", "process_")


@contextlib.contextmanager
def exporter(xen: XenHost, flags: str, having: set[str]) -> Iterator[None]:
    """An exporter running in Dom0 as user nobody; it listens already."""
    command = f"python3 -m virtscope.xen {flags} --web.listen-address=127.0.0.1:{PORT}"
    started = f"PYTHONPATH=/opt/virtscope setsid {' '.join(unprivileged(having))} {command} >{LOG} 2>&1 & echo $!"
    pid = xen.dom0(started).strip()
    try:
        xen.dom0(f"for i in $(seq 60); do grep -q listening {LOG} && exit 0; sleep 1; done; cat {LOG}; exit 1", 90)
        yield
    finally:
        xen.dom0(f"kill {pid}")
        xen.dom0(f"for i in $(seq 30); do [ -e /proc/{pid} ] || exit 0; sleep 1; done; exit 1")


def wait_for(xen: XenHost, series: tuple[str, frozenset[tuple[str, str]]]) -> None:
    """Returns once the exporter shows this series as 1."""
    deadline = time.monotonic() + 60
    while Page.from_within(xen, PORT).series().get(series) != 1:
        assert time.monotonic() < deadline, xen.dom0(f"cat {LOG}")


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


def series_about_xen(xen: XenHost, port: int) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """The names and labels of all series about Xen."""
    return {series for series in Page.from_within(xen, port).series() if not series[0].startswith(ABOUT_THE_READING)}


@pytest.mark.usefixtures("devices_of_the_unit")
def test_with_that_capability_libxenstat_and_xl_give_an_ordinary_user_what_they_give_root(xen: XenHost) -> None:
    with exporter(xen, "--source=libxenstat", GIVEN):
        wait_for(xen, XL_IS_UP)  # it is read in the background
        deadline = time.monotonic() + 60
        while (differing := series_about_xen(xen, PORT) ^ series_about_xen(xen, 10290)) and time.monotonic() < deadline:
            pass  # root's exporter may be about to run xl
        assert differing == set()
        assert series_about_xen(xen, PORT) != set()


@pytest.mark.usefixtures("devices_of_the_unit")
def test_with_that_capability_xentop_works_for_an_ordinary_user(xen: XenHost) -> None:
    with exporter(xen, "--source=xentop", GIVEN):
        wait_for(xen, XENTOP_IS_UP)
        assert any(name == "xen_domain_cpu_seconds_total" for name, _ in series_about_xen(xen, PORT))


@pytest.mark.usefixtures("devices_of_the_unit")
def test_with_that_capability_an_ordinary_user_can_trace(xen: XenHost) -> None:
    with exporter(xen, "--source=libxenstat --xentrace.interval=10s", GIVEN):
        wait_for(xen, ("xentop_source_up", frozenset({("source", "xentrace")})))


@pytest.mark.parametrize("having", [set(), {"CAP_DAC_READ_SEARCH"}], ids=["none", "read access only"])
def test_without_it_nothing_is_shown_and_the_log_says_what_is_missing(xen: XenHost, having: set[str]) -> None:
    with exporter(xen, "--source=libxenstat --xl.interval=0", having):
        assert series_about_xen(xen, PORT) == set()
        log = xen.dom0(f"cat {LOG}")
    assert "Permission denied" in log
    assert {word for word in log.replace(",", " ").split() if word.startswith("CAP_")} == GIVEN
