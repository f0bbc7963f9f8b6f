"""Values that xl reports and sets, with each scheduler: weight, cap, CPU pool, affinity, type of guest.

Caps and vCPUs are set by the commands that advise prints.
"""

import re
import shlex
from collections.abc import Iterator

import pytest

from advise.commands import XL, Managed, cap, vcpus
from tests.xen.exporters import Page, SecondExporter, second_exporter_in
from tests.xen.host import CREDIT, CREDIT2, XenHost

pytestmark = pytest.mark.hosts(CREDIT2, CREDIT)

CAP = 10  # percent of a CPU


@pytest.fixture(scope="module")
def exporter(xen: XenHost) -> Iterator[SecondExporter]:
    with second_exporter_in(xen, "--source=libxenstat --xl.interval=10s") as exporter:
        exporter.page_with(lambda page: page.all("xen_domain_scheduler_weight"))
        yield exporter


def test_weight_and_cap_are_those_of_xl_and_their_changes_are_counted(xen: XenHost, exporter: SecondExporter) -> None:
    name = xen.plan.guests[0].name

    def shows(page: Page, weight: int, changes: int) -> bool:
        counted = page.all("xen_domain_scheduler_changes_total", domain=name)
        return page.value("xen_domain_scheduler_weight", domain=name) == weight and {
            sample.labels["what"]: sample.value for sample in counted
        } == {"weight": changes, "cap": changes}

    assert shows(page := exporter.page(), weight=256, changes=0)
    assert page.all("xen_domain_cpu_limit_cpus", domain=name) == []
    xen.dom0(f"xl sched-{xen.plan.name} -d {name} -w 512")
    xen.dom0(str(cap(Managed(XL, name, xen.plan.name), CAP / 100)))
    try:
        page = exporter.page_with(lambda page: shows(page, weight=512, changes=1))
        assert page.value("xen_domain_cpu_limit_cpus", domain=name) == CAP / 100
    finally:
        xen.dom0(f"xl sched-{xen.plan.name} -d {name} -w 256 -c 0")
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
        hard = str(last) if xen.plan.setup.cpus > 1 else "all"  # xl prints a host's only CPU as "all"

        def pinned(page: Page) -> bool:
            affinity = page.all("xen_vcpu_affinity_info", domain=name, hard=hard)
            shown = [(info.labels["vcpu"], info.labels["soft"]) for info in affinity]
            return shown == [("0", "all")] and page.value("xen_vcpu_cpu", domain=name, vcpu="0") == last

        exporter.page_with(pinned)
    finally:
        xen.dom0(f"xl vcpu-pin {name} 0 all")


def test_vcpus_of_a_guest_are_set(xen: XenHost) -> None:
    guest = xen.plan.guests[-1]

    def available() -> list[str]:
        cpus = f"/local/domain/$(xl domid {shlex.quote(guest.name)})/cpu"
        return [xen.dom0(f"xenstore-read {cpus}/{vcpu}/availability").strip() for vcpu in range(guest.vcpus)]

    assert available() == ["online"] * guest.vcpus
    try:
        xen.dom0(str(vcpus(Managed(XL, guest.name), 1)))
        assert available() == ["online", *["offline"] * (guest.vcpus - 1)]
    finally:
        xen.dom0(str(vcpus(Managed(XL, guest.name), guest.vcpus)))
