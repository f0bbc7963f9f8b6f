"""Hosts with 1,000 large guests and 300,000 series each, as kvm-exporter and xentop-exporter show them.

The families are the exporters' own, with simulated values. A guest has 32 vCPUs and eight network interfaces.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import Metric

from virtscope.kvm import metrics as kvm_metrics
from virtscope.kvm import model as kvm_model
from virtscope.xen import metrics as xen_metrics
from virtscope.xen import model as xen_model

GUESTS = 1_000
VCPUS = 32
INTERFACES = 8
DISKS = {"kvm": 6, "xen": 12}  # per guest, for a total of 300 series
WAITED_FOR = 8  # domains that xentop-exporter names per waiting domain

_NOTHING_ASKED = xen_model.Bandwidth({}, {})


def kvm() -> Iterator[str]:
    """kvm-exporter's page as in tests/proofs/bench/fleet.py, for guests that libvirt runs."""
    guests = tuple(_kvm_guest(number) for number in range(GUESTS))
    yield "kvm_up 1"
    yield from _lines(kvm_metrics.families(kvm_model.Host(128, 100.0, 80.0, guests)))


def xentop() -> Iterator[str]:
    """xentop-exporter's page on XenServer, whose hypervisor reports run states, with xentrace."""
    domains = tuple(_domain(domid) for domid in range(GUESTS + 1))
    guests = tuple(_xen_guest(domain) for domain in domains)
    totals = xen_model.Totals(*[0.01] * len(xen_model.Totals._fields))
    host = xen_model.Host("4.17", 128, 2 * 10**9, 10**12, 10**9, domains, guests, totals=totals)
    states = ("full_run", "full_contention", "concurrency_hazard", "partial_run", "partial_contention", "blocked")
    accounts = [
        xen_model.Waiting(domid, _name(domid), dict.fromkeys(states, 0.01), 0, 0.02) for domid in range(GUESTS + 1)
    ]
    others = [*range(1, WAITED_FOR + 1), xen_model.DOM0, xen_model.IDLE, xen_model.REST]
    waits = {domid: dict.fromkeys(others, 0.001) for domid in range(1, GUESTS + 1)}
    names = {domid: _name(domid) for domid in range(GUESTS + 1)}
    yield "xentop_up 1"
    yield from _lines(xen_metrics.host_families(host))
    yield from _lines(xen_metrics.waiting_families(accounts, 0.02))
    yield from _lines(xen_metrics.wait_estimate_families(xen_model.WaitEstimates(waits, 1, 0), names))


def _lines(families: Iterable[Metric]) -> Iterator[str]:
    for family in families:
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            growing = "~" if sample.name.endswith("_total") else ""
            yield f"{sample.name}{{{labels}}} {growing}{float(sample.value)}"


def _name(number: int) -> str:
    return f"guest-{number:04}" if number else "Domain-0"


def _kvm_guest(number: int) -> kvm_model.Guest:
    there = kvm_model.Traffic(100_000, 100, 0, 0)
    asked = kvm_model.Requests(10, 10_000, 0.001)
    devices = [f"vnet{number}-{nth}" for nth in range(INTERFACES)]
    vcpus = [str(vcpu) for vcpu in range(VCPUS)]
    return kvm_model.Guest(
        pid=10_000 + number,
        name=_name(number + 1),
        uuid=f"{number:036}",
        id=str(number),
        manager="libvirt",
        accelerator="kvm",
        start_time=1e9,
        vcpu_count=VCPUS,
        cpu_seconds=0.1,
        guest_seconds=0.08,
        guest_time_absent="",
        vcpus=tuple(kvm_model.Vcpu(vcpu, 0.003, 0.0003, 0.0025, 0.0005) for vcpu in vcpus),
        role_seconds=dict.fromkeys(("emulator", "iothread", "vhost", "kvm", "worker"), 0.001),
        memory_resident_bytes=10**9,
        memory_limit_bytes=2 * 10**9,
        limits=kvm_model.Limits(16, 100),
        throttling=tuple(kvm_model.Throttling(part, 10, 0, 0.0) for part in ("all", "vcpu", "emulator")),
        networks=tuple(kvm_model.Network(device, there, there) for device in devices),
        domain=kvm_model.Domain(
            state="running",
            balloon_bytes=10**9,
            blocks=tuple(kvm_model.Block(f"vd{chr(97 + nth)}", asked, asked, asked) for nth in range(DISKS["kvm"])),
            exits=dict.fromkeys(vcpus, 100),
            halt_poll_seconds={"success": 0.001, "fail": 0.001},
        ),
    )


def _domain(domid: int) -> xen_model.Domain:
    there = xen_model.Traffic(100_000, 100, 0, 0)
    asked = xen_model.Requests(10, 10_000)
    of_guest = domid > 0
    return xen_model.Domain(
        domid=domid,
        name=_name(domid),
        cpu_seconds=0.1,
        memory_bytes=10**9,
        memory_limit_bytes=2 * 10**9,
        ssid=0,
        states=frozenset(("running",)),
        vcpus=(xen_model.Vcpu(online=True, cpu_seconds=0.003),) * VCPUS,
        networks=tuple(xen_model.Network(str(vif), there, there) for vif in range(INTERFACES * of_guest)),
        blocks=tuple(
            xen_model.Block(f"xvd{chr(97 + nth)}", f"ca:{nth:x}0", "BlkBack", asked, asked, 0)
            for nth in range(DISKS["xen"] * of_guest)
        ),
    )


def _xen_guest(domain: xen_model.Domain) -> xen_model.Guest:
    assert domain.domid is not None
    return xen_model.Guest(
        domid=domain.domid,
        name=domain.name,
        cpu_seconds=0.1,
        uuid=f"{domain.domid:036}",
        type="pvh",
        os="",
        cpupool="Pool-0",
        share=xen_model.Share(weight=256, cap=1600),
        placements={vcpu: xen_model.Placement(vcpu, "all", "all") for vcpu in range(VCPUS)},
        cache_bytes={0: 10**6, 1: 10**6},
        bandwidth=_NOTHING_ASKED,
    )
