"""Wait attribution from windows of a real Xen's trace: an injected burner is named, and on a quiet host nobody."""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.reporting import Report
from tests.xen.exporters import Page, SecondExporter, second_exporter_in
from tests.xen.host import Guest, XenHost

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]  # the first test also builds and boots

FLAGS = "--source=libxenstat --xl.interval=60s --xentrace.interval=10s"
INTERVAL = 10
WINDOWS = 6  # five minutes, the range of a rule, plus one window
WORTH_A_NAME = 0.03  # seconds per second, the minimum for which prometheus/rules/waits.yml names a neighbour
WAITED = "xen_domain_wait_estimated_seconds_total"
BURNER = Guest(12, "burner", duty=99, memory=80)
Rates = dict[str, dict[str, float]]  # seconds per second, by waiting and running domain


@pytest.fixture(scope="module")
def exporter(xen: XenHost) -> Iterator[SecondExporter]:
    with second_exporter_in(xen, FLAGS) as exporter:
        yield exporter


def windows(page: Page) -> float:
    return page.total("xen_trace_windows_total")


def page_with(exporter: SecondExporter, condition: Callable[[Page], object]) -> Page:
    return exporter.page_with(condition, seconds=300, every=3)


def waited(exporter: SecondExporter) -> Rates:
    """Waits by what ran, from now on."""
    begun = windows(page_with(exporter, windows))
    first = page_with(exporter, lambda page: windows(page) > begun)  # a window that is under way doesn't count
    last = page_with(exporter, lambda page: windows(page) >= windows(first) + WINDOWS)
    seconds = (windows(last) - windows(first)) * INTERVAL
    found: Rates = {}
    for sample in last.all(WAITED):
        same = {name: sample.labels[name] for name in ("domid", "running_domid", "running")}
        grown = sample.value - first.total(WAITED, **same)
        assert grown >= 0
        found.setdefault(sample.labels["domain"], {})[sample.labels["running"]] = grown / seconds
    return found


def guests_in_the_way(rates: Rates, victim: str) -> dict[str, float]:
    nobody = {victim, "Domain-0", "(idle)", "(rest)"}
    return {other: rate for other, rate in rates[victim].items() if other not in nobody}


def test_an_injected_burner_is_who_the_others_wait_for(xen: XenHost, exporter: SecondExporter, report: Report) -> None:
    victim = xen.plan.guests[0].name
    domid = xen.create(BURNER)
    try:
        xen.dom0(f"xl unpause {domid}")
        # Until it has booted it computes little, and xl must have listed it.
        page_with(exporter, lambda page: page.all(WAITED, domain=victim, running=BURNER.name) != [])
        xen.wait_for_guests([domid])
        rates = waited(exporter)
    finally:
        xen.dom0(f"xl destroy {domid}")
    report(f"with a burner, s/s: {rates}")
    rate = rates[victim][BURNER.name]
    assert rate == max(rates[victim].values()) >= WORTH_A_NAME
    assert rate >= sum(guests_in_the_way(rates, victim).values()) / 2
    assert exporter.page().value("xen_trace_lost_records_total") == 0
    gone = page_with(exporter, lambda page: page.all("xen_domain_vcpus", domain=BURNER.name) == [])
    assert [sample for sample in gone.all(WAITED) if BURNER.name in sample.labels.values()] == []


def test_on_a_quiet_host_nobody_is_named(xen: XenHost, exporter: SecondExporter, report: Report) -> None:
    busiest, *_ = xen.domids()
    with xen.paused(busiest):
        rates = waited(exporter)
    report(f"on a quiet host, s/s: {rates}")
    for guest in xen.plan.guests:
        assert max(guests_in_the_way(rates, guest.name).values()) < WORTH_A_NAME, guest.name


def test_another_reader_of_the_trace_is_not_disturbed(xen: XenHost, exporter: SecondExporter) -> None:
    begun = windows(page_with(exporter, windows))
    page_with(exporter, lambda page: windows(page) > begun)  # so the next one is seconds away
    pid = xen.dom0("xentrace -D -e 0x2f000 /tmp/other.trace >/tmp/other.log 2>&1 & echo $!").strip()
    try:
        # Earlier estimates are shown until they expire.
        page = page_with(exporter, lambda page: page.all("xentop_source_up", source="xentrace") == [])
        assert any("takes one reader" in detail for detail in page.labels("xentop_source_info", "detail"))
        assert page.value("xentop_up") == 1
        size = int(xen.dom0("stat -c %s /tmp/other.trace"))
        time.sleep(2 * INTERVAL)
        assert int(xen.dom0("stat -c %s /tmp/other.trace")) > size
    finally:
        xen.dom0(f"kill {pid}; rm -f /tmp/other.trace", timeout=120)
    assert "ERROR" not in xen.dom0("cat /tmp/other.log")
    page_with(exporter, lambda page: page.all("xentop_source_up", source="xentrace") != [])
