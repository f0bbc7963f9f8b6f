"""What xl reports and sets, with each scheduler: weight, cap, CPU pool, affinity, type of guest."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from tests.support.reporting import Report
from tests.support.waiting import wait_for
from tests.xen.exporters import Page, SecondExporter, second_exporter_in
from tests.xen.host import CREDIT, CREDIT2, XenHost

pytestmark = pytest.mark.hosts(CREDIT2, CREDIT)

CPU = "xen_domain_cpu_seconds_total"
CAP = 10  # percent of a CPU
TOLERANCE = 1.2  # a cap holds over slices of 30 ms, and the values of a page are not of the same instant


@pytest.fixture(scope="module")
def exporter(xen: XenHost) -> Iterator[SecondExporter]:
    """One that runs xl more often than by default."""
    with second_exporter_in(xen, "--source=libxenstat --xl.interval=10s") as exporter:
        exporter.page_with(lambda page: page.all("xen_domain_scheduler_weight"))
        yield exporter


def cpus_used(exporter: SecondExporter, domain: str, seconds: float) -> float:
    """At the least: a page may take long, and when within that its values were read nobody knows."""
    begun = time.monotonic()
    before = exporter.page().value(CPU, domain=domain)
    time.sleep(seconds)
    after = exporter.page().value(CPU, domain=domain)
    return (after - before) / (time.monotonic() - begun)


def test_weight_and_cap_are_those_of_xl_and_their_changes_are_counted(
    xen: XenHost, exporter: SecondExporter, report: Report
) -> None:
    name = xen.plan.guests[0].name
    others = [domid for domid in xen.domids() if domid != xen.dom0(f"xl domid {name}").strip()]

    def shows(page: Page, weight: int, changes: int) -> bool:
        counted = page.all("xen_domain_scheduler_changes_total", domain=name)
        return page.value("xen_domain_scheduler_weight", domain=name) == weight and {
            sample.labels["what"]: sample.value for sample in counted
        } == {"weight": changes, "cap": changes}

    assert shows(page := exporter.page(), weight=256, changes=0)
    assert page.all("xen_domain_cpu_limit_cpus", domain=name) == []
    with xen.paused(*others):  # on a slow machine they would leave too little CPU for the cap to matter
        free = wait_for(lambda: cpus_used(exporter, name, 5), until=lambda cpus: cpus > CAP / 100 * TOLERANCE)
    xen.dom0(f"xl sched-{xen.plan.name} -d {name} -w 512 -c {CAP}")
    try:
        page = exporter.page_with(lambda page: shows(page, weight=512, changes=1))
        assert page.value("xen_domain_cpu_limit_cpus", domain=name) == CAP / 100
        capped = cpus_used(exporter, name, 10)
    finally:
        xen.dom0(f"xl sched-{xen.plan.name} -d {name} -w 256 -c 0")
    report(f"{xen.plan.name}: {name} uses {free:.2f} CPUs, {capped:.3f} with a cap of {CAP} %")
    assert capped <= CAP / 100 * TOLERANCE
    page = exporter.page_with(lambda page: shows(page, weight=256, changes=2))
    assert page.all("xen_domain_cpu_limit_cpus", domain=name) == []


def test_guests_and_their_pool_are_those_of_xl(xen: XenHost, exporter: SecondExporter) -> None:
    page = exporter.page()
    for guest in xen.plan.guests:
        [info] = page.all("xen_domain_info", domain=guest.name)
        uuid = xen.dom0(f"xenstore-read /local/domain/{info.labels['domid']}/vm").strip().removeprefix("/vm/")
        assert info.labels.items() >= {"role": "guest", "uuid": uuid, "type": guest.type, "cpupool": "Pool-0"}.items()
    assert page.value("xen_cpupool_info", cpupool="Pool-0", scheduler=xen.plan.name) == 1
    assert page.value("xen_cpupool_cpus") == page.value("xen_host_cpus") == xen.plan.setup.cpus
    printed = xen.dom0(f"xl sched-{xen.plan.name} -s").splitlines()[0]
    [ratelimit] = re.findall(r"ratelimit=(\d+)us", printed)
    assert page.value("xen_cpupool_ratelimit_seconds") == int(ratelimit) / 1e6
    timeslices = [sample.value for sample in page.all("xen_cpupool_timeslice_seconds")]
    assert timeslices == [int(milliseconds) / 1e3 for milliseconds in re.findall(r"tslice=(\d+)ms", printed)]
    assert page.value("xentop_source_up", source="xl") == 1
    psr = [sample for sample in page.all("xentop_toolstack_problems_total") if "psr" in sample.labels["command"]]
    assert [sample for sample in psr if sample.value] == [], "a CPU without cache monitoring is no problem"


def test_a_pinned_vcpu_is_on_its_cpu(xen: XenHost, exporter: SecondExporter) -> None:
    name, last = xen.plan.guests[0].name, xen.plan.setup.cpus - 1
    xen.dom0(f"xl vcpu-pin {name} 0 {last}")
    try:
        hard = str(last) if xen.plan.setup.cpus > 1 else "all"  # as xl prints it: a host's only CPU is "all"

        def pinned(page: Page) -> bool:
            affinity = page.all("xen_vcpu_affinity_info", domain=name, hard=hard)
            shown = [(info.labels["vcpu"], info.labels["soft"]) for info in affinity]
            return shown == [("0", "all")] and page.value("xen_vcpu_cpu", domain=name, vcpu="0") == last

        exporter.page_with(pinned)
    finally:
        xen.dom0(f"xl vcpu-pin {name} 0 all")
