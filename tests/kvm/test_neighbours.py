"""sched-exporter on a KVM host with libvirt: what a guest's vCPUs waited, by which guest ran meanwhile.

KVM shows a guest its vCPUs' run_delay as steal (record_steal_time in arch/x86/kvm/x86.c), and kvm-exporter shows it as
waiting: so all three are one number. The guests are paused while it is read, so that nothing moves.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.kvm.guests import BURN
from tests.kvm.libvirt_host import SECONDS, Domain, LibvirtHost, booted
from tests.support.disk import need_emulation
from tests.support.pages import Page
from tests.support.reporting import Report
from tests.xen.package import exporter_as_tar
from virtscope.kvm.guests import COUNTERS

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]  # the first test also builds and boots

ON_ONE_CPU = (
    "<cputune><vcpupin vcpu='0' cpuset='1'/><vcpupin vcpu='1' cpuset='1'/>"
    "<emulatorpin cpuset='0'/><iothreadpin iothread='1' cpuset='0'/></cputune>"
)
SHOP, BATCH = (Domain(name, BURN, cputune=ON_ONE_CPU) for name in ("shop", "batch"))
GUESTS = (SHOP, BATCH)
WINDOW_SECONDS = 30
CHARGED = 0.05  # of the kernel's run_delay
WAIT = "sched_wait_seconds_total"


@pytest.fixture(scope="module")
def host(
    tmp_path_factory: pytest.TempPathFactory, report: Report, request: pytest.FixtureRequest
) -> Iterator[LibvirtHost]:
    """The host with both guests and both exporters."""
    need_emulation(nasm="nasm")
    workdir = tmp_path_factory.mktemp("neighbours")
    exporter = exporter_as_tar(workdir)
    with booted(workdir, GUESTS) as found:
        found.start_exporters(exporter, sched=True)
        failed = request.session.testsfailed
        yield found
        if request.session.testsfailed > failed:
            report(f"sched-exporter's log:\n{found.log('sched')}")


def scope(host: LibvirtHost, domain: Domain) -> str:
    """The path of the domain's cgroup, of which its vCPUs' and emulator's are parts."""
    return host.run(f"sed 's/^0:://; s,/libvirt/.*,,' /proc/{host.pid(domain)}/cgroup").strip()


@dataclass(frozen=True)
class Counted:
    """Seconds since the start: what each guest's vCPUs waited, by kvm-exporter, and by sched-exporter while who ran."""

    waited: dict[Domain, float]
    charged: dict[Domain, dict[str, float]]


def paused(host: LibvirtHost) -> Counted:
    """What is counted while both guests are paused."""
    for domain in GUESTS:
        host.run(f"virsh suspend {domain.name}", SECONDS)
    time.sleep(COUNTERS + 0.5)  # kvm-exporter reads some again only after that
    kvm, sched = Page.of(host.exporter), Page.of(host.sched_exporter)
    for domain in GUESTS:
        host.run(f"virsh resume {domain.name}", SECONDS)
    waited = {domain: kvm.total("kvm_vcpu_wait_seconds_total", guest=domain.name) for domain in GUESTS}
    charged = {
        domain: {sample.labels["running"]: sample.value for sample in sched.all(WAIT, cgroup=scope(host, domain))}
        for domain in GUESTS
    }
    return Counted(waited, charged)


def test_what_vcpus_waited_is_the_kernels_and_the_guest_that_ran_meanwhile_is_named(
    host: LibvirtHost, report: Report
) -> None:
    first = paused(host)
    time.sleep(WINDOW_SECONDS)
    last = paused(host)
    for victim, neighbour in ((SHOP, BATCH), (BATCH, SHOP)):
        waited = last.waited[victim] - first.waited[victim]
        charged = {name: value - first.charged[victim].get(name, 0) for name, value in last.charged[victim].items()}
        total = sum(charged.values())
        parts = {name: seconds / total for name, seconds in charged.items()}
        shown = ", ".join(f"{name} {part:.1%}" for name, part in sorted(parts.items(), key=lambda item: -item[1]))
        report(f"{victim.name}: charged {total:.3f} s of {waited:.3f} s: {total / waited:.2%}; while running: {shown}")
        assert waited > WINDOW_SECONDS / 5, "the two guests don't compute on one CPU"
        assert total == pytest.approx(waited, rel=CHARGED), victim.name
        # In emulation, what else the host does takes much longer than elsewhere.
        assert parts.get(scope(host, neighbour), 0) > 0.5, victim.name
