"""kvm-exporter as an ordinary user on a real KVM host with libvirt, vhost and guest time."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from advise.commands import VIRSH, Managed, cap, move, vcpus
from tests.kvm.libvirt_host import CAPPED, DATABASE, DOMAINS, INSTANCE, SECONDS, Domain, LibvirtHost, booted
from tests.support.disk import need_emulation
from tests.support.emulated import MachineError
from tests.support.pages import Page
from tests.support.reporting import Report
from tests.support.waiting import wait_for
from tests.xen.package import exporter_as_tar
from virtscope.kvm.guests import COUNTERS

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]  # the first test also builds and boots

TICK = 0.01
ROUNDED = 1e-6
SECTOR_BYTES, READ_BYTES = 512, 32768
CPU = "kvm_guest_cpu_seconds_total"
OF_ALL = "kvm_host_guests_cpu_seconds_total"
UP = "kvm_source_up"
# /proc's values of a QEMU, one per line: its stat; its threads' names with their schedstat; vhost's stat.
LOOK = """
cat /proc/{pid}/stat
for task in /proc/{pid}/task/*; do echo "$(cat $task/comm)=$(cat $task/schedstat)"; done
for comm in $(grep -lx vhost-{pid} /proc/[0-9]*/comm); do cat ${{comm%comm}}stat; done
"""


@pytest.fixture(scope="module")
def host(
    tmp_path_factory: pytest.TempPathFactory, report: Report, request: pytest.FixtureRequest
) -> Iterator[LibvirtHost]:
    """The host with its domains, and the exporter on it."""
    need_emulation(nasm="nasm")
    workdir = tmp_path_factory.mktemp("libvirt-host")
    exporter = exporter_as_tar(workdir)
    begun = time.monotonic()
    with booted(workdir) as found:
        found.start_kvm_exporter(exporter)
        report(f"the libvirt host with {len(DOMAINS)} domains and the exporter: {time.monotonic() - begun:.0f} s")
        page_with(found, lambda page: len(page.all("kvm_guest_block_read_bytes_total")) == len(DOMAINS))
        failed = request.session.testsfailed
        yield found
        if request.session.testsfailed > failed:
            report(f"The exporter's log:\n{found.log()}")


def page_with(host: LibvirtHost, wanted: Callable[[Page], object]) -> Page:
    """The first page that matches; some take long in emulation."""
    return wait_for(
        lambda: Page.of(host.exporter),
        SECONDS,
        every=1,
        until=wanted,
        explain=lambda: host.run("ps -eo pid,ppid,stat,etimes,args | grep -E 'qemu|virsh|libvirt' | cut -c1-100"),
    )


def let_counters_age() -> None:
    """Wait until the exporter, which nothing else scrapes, reads all of its counters for the next page."""
    time.sleep(COUNTERS + 0.5)


def look(host: LibvirtHost, domain: Domain) -> dict[str, float]:
    """Counters of one guest from the host's /proc, in seconds."""
    found = {"cpu": 0.0, "vhost": 0.0}
    for line in host.run(LOOK.format(pid=host.pid(domain))).splitlines():
        if thread := re.fullmatch(r"CPU (\d)/KVM=(\d+) (\d+) \d+", line):
            found[f"run{thread[1]}"], found[f"wait{thread[1]}"] = int(thread[2]) / 1e9, int(thread[3]) / 1e9
        elif process := re.fullmatch(r"\d+ \((.+)\) (.*)", line):
            fields = process[2].split()
            used = (int(fields[11]) + int(fields[12])) * TICK
            if process[1].startswith("vhost-"):
                found["vhost"] += used
            else:
                found["cpu"], found["guest"] = used, int(fields[40]) * TICK
    found["cpu"] += found["vhost"]
    return found


def test_domains_are_shown_as_their_users_know_them(host: LibvirtHost) -> None:
    page = Page.of(host.exporter)
    assert {sample.labels["guest"] for sample in page.all("kvm_guest_info")} == {domain.name for domain in DOMAINS}
    titles = {INSTANCE: "web01.example.org", DATABASE: "the data base", CAPPED: ""}
    for domain, title in titles.items():
        [info] = page.all("kvm_guest_info", guest=domain.name)
        uuid, id_ = (host.run(f"virsh -r {what} {domain.name}").strip() for what in ("domuuid", "domid"))
        known = {"guest": domain.name, "pid": host.pid(domain), "uuid": uuid, "id": id_, "title": title}
        assert info.labels == {**known, "manager": "libvirt", "accelerator": "kvm", "tags": "", "pool": ""}
        assert page.value("kvm_guest_vcpus", guest=domain.name) == 2, "the third is not plugged in"


def test_time_is_the_hosts_own(host: LibvirtHost, report: Report) -> None:
    """Run and wait of each vCPU, total time, guest time, and vhost's thread, which is a kernel thread here."""
    for domain in DOMAINS:
        let_counters_age()
        before = look(host, domain)
        page = Page.of(host.exporter)
        after = look(host, domain)
        of_guest = {"guest": domain.name}
        shown = {
            f"{what}{vcpu}": page.value(f"kvm_vcpu_{what}_seconds_total", vcpu=vcpu, **of_guest)
            for what in ("run", "wait")
            for vcpu in "01"
        }
        shown["cpu"] = page.value(CPU, **of_guest)
        shown["guest"] = page.value("kvm_guest_guest_seconds_total", **of_guest)
        shown["vhost"] = page.value("kvm_guest_thread_cpu_seconds_total", role="vhost", **of_guest)
        assert before.keys() == after.keys() == shown.keys()
        for what, value in shown.items():
            # The total also contains time of other kernel threads that worked for the guest.
            least, most = before[what] - ROUNDED, after[what] + ROUNDED
            assert least <= value, (domain.name, what)
            assert value <= most or what == "cpu", (domain.name, what)
        report(f"{domain.name}: {shown['guest']:.2f} s of {shown['cpu']:.2f} s of CPU ran the guest's code")
        assert 0.1 < shown["guest"] < shown["cpu"]
        assert page.all("kvm_guest_time_absent", **of_guest) == []


def test_no_time_is_counted_twice(host: LibvirtHost) -> None:
    let_counters_age()
    page = Page.of(host.exporter)
    for domain in DOMAINS:
        parts = ("kvm_guest_thread_cpu_seconds_total", "kvm_vcpu_run_seconds_total")
        # About ten threads are each read at a different moment, and all but the vCPUs in ticks.
        all_of_it = pytest.approx(page.value(CPU, guest=domain.name), rel=0.02, abs=0.2)
        assert sum(page.total(part, guest=domain.name) for part in parts) == all_of_it, domain.name
    # By the scheduler's clock: on a busy emulated host, /proc/stat lacks late ticks.
    lines = [line.split() for line in host.run("cat /proc/schedstat").splitlines()]
    ran = sum(int(words[7]) / 1e9 for words in lines if re.fullmatch("cpu[0-9]+", words[0]))
    assert sum(page.value(CPU, guest=domain.name) for domain in DOMAINS) < ran


def test_devices_and_exits_are_libvirts(host: LibvirtHost) -> None:
    """The domains are paused, so that counters stay constant, and the test waits until libvirt's answer shows that."""
    of_disk = {"guest": DATABASE.name, "device": "vda"}
    reading = "kvm_guest_block_read_requests_total"
    page_with(host, lambda page: page.value(reading, **of_disk) > 11)  # its BIOS takes minutes in emulation
    for domain in DOMAINS:
        host.run(f"virsh suspend {domain.name}")
    try:
        page = page_with(host, lambda page: len(paused(page)) == len(DOMAINS))
        for domain in DOMAINS:
            printed = host.run(f"virsh -r domstats --raw {domain.name}", SECONDS)
            stats = dict(line.strip().split("=", 1) for line in printed.splitlines() if "=" in line)
            of_guest = {"guest": domain.name}
            assert stats["block.0.name"] == "vda"
            for device, metric, key in (
                ("vda", "block_read_requests", "block.0.rd.reqs"),
                ("vda", "block_read_bytes", "block.0.rd.bytes"),
                ("vda", "block_write_requests", "block.0.wr.reqs"),
                ("vda", "block_write_bytes", "block.0.wr.bytes"),
                (stats["net.0.name"], "network_receive_bytes", "net.0.rx.bytes"),
                (stats["net.0.name"], "network_receive_packets", "net.0.rx.pkts"),
                (stats["net.0.name"], "network_transmit_bytes", "net.0.tx.bytes"),
                (stats["net.0.name"], "network_transmit_packets", "net.0.tx.pkts"),
            ):
                shown = page.value(f"kvm_guest_{metric}_total", device=device, **of_guest)
                assert shown == int(stats[key]), (domain.name, metric)
            for vcpu in "01":
                exits = page.value("kvm_vcpu_exits_total", vcpu=vcpu, **of_guest)
                assert exits == int(stats[f"vcpu.{vcpu}.exits.sum"]), (domain.name, vcpu)
        # The BIOS reads the boot sector, which reads 32 KiB at a time.
        reads = page.value(reading, **of_disk) - 1
        assert reads > 10
        assert page.value("kvm_guest_block_read_bytes_total", **of_disk) == SECTOR_BYTES + reads * READ_BYTES
    finally:
        for domain in DOMAINS:
            host.run(f"virsh resume {domain.name}")
    page_with(host, lambda page: paused(page) == set())


CREATIONS = 20


def is_shown(pid: str, page: Page) -> bool:
    return pid in page.labels(CPU, "pid")


def paused(page: Page) -> set[str]:
    return {sample.labels["guest"] for sample in page.all("kvm_guest_state", state="paused") if sample.value == 1}


def test_the_host_s_counter_keeps_what_ended_domains_used(host: LibvirtHost, report: Report) -> None:
    """By the cgroup around all domains' cgroups, which keeps what ended ones used."""

    def seconds() -> float:
        stat = host.run("cat /sys/fs/cgroup/machine.slice/cpu.stat")
        return int(stat.partition("usage_usec ")[2].partition("\n")[0]) / 1e6

    begun, counted = seconds(), Page.of(host.exporter).value(OF_ALL)
    for _ in range(CREATIONS):
        ended = host.pid(CAPPED)
        host.run(f"virsh destroy {CAPPED.name}")
        host.run(f"virsh start {CAPPED.name}", SECONDS)
        started = host.pid(CAPPED)
        assert started != ended
        page_with(host, functools.partial(is_shown, started))
    counted, used = Page.of(host.exporter).value(OF_ALL) - counted, seconds() - begun
    report(f"in {CREATIONS} starts of a domain, all used {used:.1f} s by their cgroup, {counted:.1f} s were counted")
    assert counted == pytest.approx(used, rel=0.05)


def test_a_guest_that_hangs_costs_libvirts_answers_only(host: LibvirtHost, report: Report) -> None:
    """libvirt then hangs too, and only answers without that guest's devices if a caller is already waiting."""
    others = [domain for domain in DOMAINS if domain is not DATABASE]
    # After a restart, libvirt doesn't answer for all guests at once.
    page_with(host, lambda page: with_devices(page) == {domain.name for domain in DOMAINS})
    before = timeouts(Page.of(host.exporter))
    with host.hung(DATABASE):
        page = page_with(host, lambda page: timeouts(page) > before or DATABASE.name not in with_devices(page))
        report(f"while a domain hung libvirt was {'missing' if timeouts(page) > before else 'there for the others'}")
        assert DATABASE.name not in with_devices(page), "old values must not pass for new ones"
        assert page.value(UP, source="procfs") == 1
        assert_they_go_on(host, others)
        still = {"guest": DATABASE.name, "vcpu": "0"}
        run = page.value("kvm_vcpu_run_seconds_total", **still)
        assert Page.of(host.exporter).value("kvm_vcpu_run_seconds_total", **still) == run
    page_with(host, lambda page: with_devices(page) == {domain.name for domain in DOMAINS})


def test_commands_that_advise_prints(host: LibvirtHost) -> None:
    """The cap replaces one for the whole domain; the third vCPU is plugged in; a move gets as far as ssh."""
    host.run(str(cap(Managed(VIRSH, CAPPED.name), 0.25)))
    page_with(host, lambda page: page.value("kvm_guest_cpu_limit_cpus", guest=CAPPED.name) == 0.25)
    host.run(str(vcpus(Managed(VIRSH, INSTANCE.name), 3)), SECONDS)
    page_with(host, lambda page: page.value("kvm_guest_vcpus", guest=INSTANCE.name) == 3)
    with pytest.raises(MachineError, match="Cannot find 'ssh' in path"):
        host.run(str(move(Managed(VIRSH, INSTANCE.name), "nowhere.invalid")), SECONDS)


def timeouts(page: Page) -> float:
    """How often libvirt has timed out."""
    return page.total("kvm_source_errors_total", source="libvirt", reason="timeout")


def with_devices(page: Page) -> set[str]:
    """The guests whose block devices are shown."""
    return page.labels("kvm_guest_block_read_bytes_total", "guest")


def assert_they_go_on(host: LibvirtHost, domains: Sequence[Domain]) -> None:
    """The counters of these guests increase."""

    def used(page: Page) -> list[float]:
        return [page.value(CPU, guest=domain.name) for domain in domains]

    before = used(Page.of(host.exporter))
    page_with(host, lambda page: all(now > then for then, now in zip(before, used(page), strict=True)))
