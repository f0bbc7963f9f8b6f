"""sched-exporter on a KVM host with libvirt: what a guest's vCPUs waited, by which guest ran meanwhile.

KVM shows a guest its vCPUs' run_delay as steal (record_steal_time in arch/x86/kvm/x86.c), and kvm-exporter shows it as
waiting: so all three are one number. The guests are paused while it is read, so that nothing moves.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.kvm.guests import BURN
from tests.kvm.image import image, why_not_here
from tests.kvm.libvirt_host import Domain, LibvirtHost, booted
from tests.support.pages import Page
from tests.xen.package import exporter_as_tar
from virtscope.kvm.guests import COUNTERS

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # the first test also builds and boots

ON_ONE_CPU = (
    "<cputune><vcpupin vcpu='0' cpuset='1'/><vcpupin vcpu='1' cpuset='1'/>"
    "<emulatorpin cpuset='0'/><iothreadpin iothread='1' cpuset='0'/></cputune>"
)
SHOP, BATCH = (Domain(name, BURN, cputune=ON_ONE_CPU) for name in ("shop", "batch"))
GUESTS = (SHOP, BATCH)
WINDOW_SECONDS = 30
SECONDS = 240  # for slow operations, in emulation
CHARGED = 0.05  # of the kernel's run_delay
WAIT = "sched_wait_seconds_total"


@pytest.fixture(scope="module")
def host(
    tmp_path_factory: pytest.TempPathFactory, report: Callable[[str], None], request: pytest.FixtureRequest
) -> Iterator[LibvirtHost]:
    """The host with both guests and both exporters."""
    if reason := why_not_here():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    workdir = tmp_path_factory.mktemp("neighbours")
    exporter = exporter_as_tar(workdir)
    with booted(image(), workdir, GUESTS) as found:
        found.start_exporter(exporter)
        found.start_sched_exporter()
        failed = request.session.testsfailed
        yield found
        if request.session.testsfailed > failed:
            report(f"sched-exporter's log:\n{found.log('sched')}")


@dataclass(frozen=True)
class Grown:
    """What has been added while both guests ran, in seconds.

    waited: by each guest's vCPUs, as kvm-exporter shows it.
    charged: the same by sched-exporter, by whose tasks ran.
    """

    waited: dict[Domain, float]
    charged: dict[Domain, dict[str, float]]


def scope(host: LibvirtHost, domain: Domain) -> str:
    """The path of the domain's cgroup, of which its vCPUs' and emulator's are parts."""
    return host.run(f"sed 's/^0:://; s,/libvirt/.*,,' /proc/{host.pid(domain)}/cgroup").strip()


def paused(host: LibvirtHost) -> Grown:
    """What has been added since the start, while both guests are paused."""
    for domain in GUESTS:
        host.run(f"virsh suspend {domain.name}", SECONDS)
    time.sleep(COUNTERS + 0.5)  # kvm-exporter reads some again only after that
    kvm, sched = Page.of(host.exporter), Page.of(host.sched_exporter)
    for domain in GUESTS:
        host.run(f"virsh resume {domain.name}", SECONDS)
    return Grown(
        {
            domain: sum(sample.value for sample in kvm.all("kvm_vcpu_wait_seconds_total", guest=domain.name))
            for domain in GUESTS
        },
        {
            domain: {sample.labels["running"]: sample.value for sample in sched.all(WAIT, cgroup=scope(host, domain))}
            for domain in GUESTS
        },
    )


@pytest.fixture(scope="module")
def grown(host: LibvirtHost) -> Grown:
    first = paused(host)
    time.sleep(WINDOW_SECONDS)
    last = paused(host)
    return Grown(
        {domain: last.waited[domain] - first.waited[domain] for domain in GUESTS},
        {
            domain: {name: value - first.charged[domain].get(name, 0) for name, value in last.charged[domain].items()}
            for domain in GUESTS
        },
    )


@pytest.mark.parametrize("domain", GUESTS, ids=lambda domain: domain.name)
def test_what_vcpus_waited_is_the_kernels(domain: Domain, grown: Grown, report: Callable[[str], None]) -> None:
    waited, charged = grown.waited[domain], sum(grown.charged[domain].values())
    report(f"{domain.name}: charged {charged:.3f} s of {waited:.3f} s that its vCPUs waited: {charged / waited:.2%}")
    assert waited > WINDOW_SECONDS / 5, "the two guests don't compute on one CPU"
    assert charged == pytest.approx(waited, rel=CHARGED)


@pytest.mark.parametrize(("victim", "neighbour"), [(SHOP, BATCH), (BATCH, SHOP)], ids=["shop", "batch"])
def test_the_guest_that_ran_meanwhile_is_named(
    victim: Domain, neighbour: Domain, host: LibvirtHost, grown: Grown, report: Callable[[str], None]
) -> None:
    charged = grown.charged[victim]
    parts = {name: seconds / sum(charged.values()) for name, seconds in charged.items()}
    shown = ", ".join(f"{name} {part:.1%}" for name, part in sorted(parts.items(), key=lambda item: -item[1]))
    report(f"{victim.name} waited while running: {shown}")
    # In emulation, what else the host does takes much longer than elsewhere.
    assert parts.get(scope(host, neighbour), 0) > 0.5
