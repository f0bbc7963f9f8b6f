"""For whom a guest waits, by windows of a real Xen's trace: an injected burner is named, and on a quiet host nobody."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.reporting import Report
from tests.xen.exporters import Page, SecondExporter, second_exporter_in
from tests.xen.host import CREDIT, Guest, XenHost

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]  # the first test also builds and boots

FLAGS = "--source=libxenstat --xl.interval=60s --xentrace.interval=10s"
INTERVAL = 10
WINDOWS = 6  # as many as a rule's five minutes have, and one
SECONDS = 300
WORTH_A_NAME = 0.03  # seconds per second, the least for which prometheus/rules/waits.yml names a neighbour
WAITED = "xen_domain_wait_estimated_seconds_total"
BURNER = Guest(12, "burner", duty=99, memory=80)


@pytest.fixture(scope="module")
def exporter(xen: XenHost) -> Iterator[SecondExporter]:
    """One that takes a window every ten seconds."""
    with second_exporter_in(xen, FLAGS) as exporter:
        yield exporter


def windows(page: Page) -> float:
    return page.total("xen_trace_windows_total")


def page_with(exporter: SecondExporter, condition: Callable[[Page], object]) -> Page:
    return exporter.page_with(condition, SECONDS, every=3)


def waited(exporter: SecondExporter) -> dict[str, dict[str, float]]:
    """Who waited while who ran, from now on, in seconds per second."""
    begun = windows(page_with(exporter, windows))
    first = page_with(exporter, lambda page: windows(page) > begun)  # a window may be under way: it is not from now on
    last = page_with(exporter, lambda page: windows(page) >= windows(first) + WINDOWS)
    seconds = (windows(last) - windows(first)) * INTERVAL
    found: dict[str, dict[str, float]] = {}
    for sample in last.all(WAITED):
        same = {name: sample.labels[name] for name in ("domid", "running_domid", "running")}
        grown = sample.value - first.total(WAITED, **same)
        assert grown >= 0
        found.setdefault(sample.labels["domain"], {})[sample.labels["running"]] = grown / seconds
    return found


def guests_in_the_way(rates: dict[str, dict[str, float]], victim: str) -> dict[str, float]:
    """For how long it waited for each other guest."""
    nobody = {victim, "Domain-0", "(idle)", "(rest)"}
    return {other: rate for other, rate in rates[victim].items() if other not in nobody}


def most(row: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(row.items(), key=lambda item: -item[1])


def said(rates: dict[str, dict[str, float]]) -> str:
    return "; ".join(
        f"{victim}: " + ", ".join(f"{other} {rate:.3f}" for other, rate in most(row)[:4] if rate)
        for victim, row in rates.items()
    )


def test_nothing_is_traced_unless_it_is_asked_for(xen: XenHost) -> None:
    page = Page.of(xen.exporter)
    assert page.value("xentop_source_up", source="libxenstat") == 1
    assert page.all(WAITED) == page.all("xen_trace_windows_total") == []
    assert page.all("xentop_source_reads_total", source="xentrace") == []


def test_an_injected_burner_is_who_the_others_wait_for(xen: XenHost, exporter: SecondExporter, report: Report) -> None:
    victim = xen.plan.guests[0].name
    domid = xen.create(BURNER)
    try:
        xen.dom0(f"xl unpause {domid}")
        # Until it has booted it computes little, and xl has to have listed it.
        page_with(exporter, lambda page: page.all(WAITED, domain=victim, running=BURNER.name) != [])
        xen.wait_for_guests([domid])
        rates = waited(exporter)
    finally:
        xen.dom0(f"xl destroy {domid}")
    report(f"with a burner, s/s: {said(rates)}")
    named, rate = most(rates[victim])[0]
    assert named == BURNER.name
    assert rate >= WORTH_A_NAME
    assert rate >= sum(guests_in_the_way(rates, victim).values()) / 2
    assert exporter.page().value("xen_trace_lost_records_total") == 0
    gone = page_with(exporter, lambda page: page.all("xen_domain_vcpus", domain=BURNER.name) == [])
    assert [sample for sample in gone.all(WAITED) if BURNER.name in sample.labels.values()] == []


@pytest.mark.hosts(CREDIT)
def test_only_who_runs_where_a_guest_may_run_is_in_its_way(
    xen: XenHost, exporter: SecondExporter, report: Report
) -> None:
    """Of two CPUs Dom0 has the first for itself and a guest, the burner and its victim share the second."""
    victim, other = (guest.name for guest in xen.plan.guests)
    domid = xen.create(BURNER)
    places = {victim: "1", BURNER.name: "1", other: "0"}
    try:
        xen.dom0("".join(f"xl vcpu-pin {name} 0 {cpu}; " for name, cpu in places.items()))
        xen.dom0(f"xl unpause {domid}")
        xen.wait_for_guests([domid])
        for name, cpu in places.items():  # once xl has listed it
            page_with(exporter, lambda page: page.all("xen_vcpu_affinity_info", domain=name, hard=cpu))  # noqa: B023
        rates = waited(exporter)
    finally:
        xen.dom0(f"xl destroy {domid}; for name in {victim} {other}; do xl vcpu-pin $name 0 all; done")
    report(f"on a CPU that it shares with a burner, s/s: {said(rates)}")
    assert most(rates[victim])[0][0] == BURNER.name
    assert rates[victim][BURNER.name] >= WORTH_A_NAME
    assert rates[victim][other] == rates[victim]["Domain-0"] == 0


def test_on_a_quiet_host_nobody_is_named(xen: XenHost, exporter: SecondExporter, report: Report) -> None:
    busiest, *_ = xen.domids()
    with xen.paused(busiest):
        rates = waited(exporter)
    report(f"on a quiet host, s/s: {said(rates)}")
    for guest in xen.plan.guests:
        for other, rate in guests_in_the_way(rates, guest.name).items():
            assert rate < WORTH_A_NAME, f"{guest.name} waited for {other}"


def test_beside_another_reader_nothing_is_traced_and_it_is_not_disturbed(
    xen: XenHost, exporter: SecondExporter
) -> None:
    begun = windows(page_with(exporter, windows))
    page_with(exporter, lambda page: windows(page) > begun)  # so the next one is seconds away
    pid = xen.dom0("xentrace -D -e 0x2f000 /tmp/other.trace >/tmp/other.log 2>&1 & echo $!").strip()
    try:
        # What was estimated before is shown until it is too old.
        page = page_with(exporter, lambda page: page.all("xentop_source_up", source="xentrace") == [])
        [why] = [
            sample.labels["detail"]
            for sample in page.all("xentop_source_info", source="xentrace")
            if "absent" in sample.labels["detail"]
        ]
        assert "takes one reader" in why
        assert page.value("xentop_up") == 1
        size = int(xen.dom0("stat -c %s /tmp/other.trace"))
        time.sleep(2 * INTERVAL)
        assert int(xen.dom0("stat -c %s /tmp/other.trace")) > size
    finally:
        xen.dom0(f"kill {pid}; rm -f /tmp/other.trace", timeout=120)
    assert "ERROR" not in xen.dom0("cat /tmp/other.log")
    page_with(exporter, lambda page: page.all("xentop_source_up", source="xentrace") != [])
