"""Counters of all guests, which keep what ended guests had counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.kvm.captured import STAT, command_line
from tests.unit.kvm.test_guests import Machine
from tests.unit.kvm.test_threads import stat
from virtscope.kvm.exporter import HostView, replayed
from virtscope.kvm.model import Block, Domain, Guest, Requests
from virtscope.toolkit.replay import Playback

CPU, WAIT, RECEIVED, SENT, READ, WRITTEN = (
    f"kvm_host_guests_{name}_total"
    for name in (
        *("cpu_seconds", "wait_seconds", "network_receive_bytes"),
        *("network_transmit_bytes", "block_read_bytes", "block_write_bytes"),
    )
)


class Host(Machine):
    """A host of 2 CPUs that is scraped every 10 s; `disks` has each guest's disk by name, in bytes read."""

    def __init__(self) -> None:
        super().__init__()
        self.disks: dict[str, int] = {}
        self.view = HostView(self.files, [self.add_disks])
        self.now = 0

    def add_disks(self, guests: Sequence[Guest]) -> tuple[Guest, ...]:
        nothing = Requests(None, None, None)

        def domain(name: str) -> Domain | None:
            if name not in self.disks:
                return None
            return Domain(blocks=(Block("vda", Requests(1, self.disks[name], 1.0), nothing, nothing),))

        return tuple([guest._replace(domain=domain(guest.name)) for guest in guests])

    def has(self, pid: int, name: str, seconds: float, start: int, *words: str) -> None:
        """It has a guest that has used so many seconds of CPU time."""
        self.runs(pid, command_line("-name", name, *words), stat("qemu", round(100 * seconds), start=start))

    def taps(self, **sent: int) -> None:
        """It has these interfaces, with the bytes that guests sent and as many received."""
        rows = [f"{name}: {count} 0 0 0 0 0 0 0 {count} 0 0 0 0 0 0 0\n" for name, count in sent.items()]
        self.content["proc/1/net/dev"] = "".join(rows).encode()

    def scrape(self) -> dict[str, float]:
        """The counters of all guests."""
        self.files.show(self.content)
        self.now += 10
        families = self.view.families(self.now)
        return {each.name: each.value for family in families for each in family.samples if "_host_guests_" in each.name}


def test_the_total_is_what_all_guests_used_and_never_falls() -> None:
    host = Host()
    totals = [host.scrape()[CPU]]
    host.has(9, "old", 5000, 100)

    def then(expected: float) -> None:
        totals.append(host.scrape()[CPU])
        assert totals[-1] == pytest.approx(expected)

    then(0)  # it was there before the exporter
    host.has(9, "old", 5002, 100)
    host.has(10, "job", 3, 200)
    then(5)
    host.has(10, "job", 7, 200)
    unread = host.content.pop("proc/9/stat")
    then(9)
    host.content["proc/9/stat"] = unread
    host.has(9, "old", 5008, 100)
    host.ends(10)
    then(15)
    host.has(10, "job", 2, 900)  # another process with its pid
    then(17)
    host.has(11, "unseen", 36000, 300)  # hours that weren't used since the last scrape
    then(17)
    host.has(11, "unseen", 36001, 300)
    then(18)
    for pid in (9, 10, 11):
        host.ends(pid)
    then(18)
    assert totals == sorted(totals)


def test_guest_time_counts_to_the_end_of_a_guest_and_of_one_between_two_scrapes() -> None:
    host = Host()

    def then(expected: float, guest_time: int, **used: tuple[int, int]) -> None:
        """After 10 s, the host's guest time and each guest's CPU and guest time, in seconds."""
        host.content["proc/stat"] = STAT.replace(b" 20000 500\n", b" %d 500\n" % (20000 + 100 * guest_time), 1)
        for pid in (9, 10):
            host.ends(pid)
        for name, (cpu, guest) in used.items():
            pid = 9 if name == "web" else 10
            text = stat("qemu", 100 * cpu, guest=100 * guest)
            host.runs(pid, command_line("-name", name, "-accel", "kvm"), text)
        assert host.scrape()[CPU] == pytest.approx(expected)

    then(0, 1000, web=(2000, 1000))
    then(10, 1008, web=(2010, 1008))
    then(16, 1013, web=(2014, 1011), job=(2, 2))
    then(29, 1025, web=(2024, 1020))  # the job had computed another 3 s
    then(37, 1033, web=(2024, 1020))  # another one for 8 s
    then(45, 1041)  # web's last 8 s
    then(45, 1041)
    host.content["proc/9/stat"] = b""
    then(54, 1049, job=(9, 8))


def test_a_guest_that_a_scrape_missed_counts_once() -> None:
    host = Host()
    for seconds, missed, expected in ((0, False, 0), (10, False, 10), (18, True, 18), (30, False, 30), (40, False, 40)):
        host.content["proc/stat"] = STAT.replace(b" 20000 500\n", b" %d 500\n" % (20000 + 100 * seconds), 1)
        text = stat("qemu", 100 * (500 + seconds), guest=100 * (400 + seconds))
        host.runs(9, command_line("-name", "web", "-accel", "kvm"), b"" if missed else text)
        assert host.scrape()[CPU] == pytest.approx(expected)


def test_each_network_device_counts_from_its_own_start() -> None:
    host = Host()
    assert host.scrape().keys() == {CPU}, "no guest has had a network"
    host.has(9, "web", 5000, 100, "-netdev", "tap,ifname=tap0", "-netdev", "tap,ifname=tap1")
    host.taps(tap0=10**9, tap1=10**9)
    assert (host.scrape()[SENT], host.scrape()[RECEIVED]) == (0, 0)
    host.taps(tap0=10**9 + 100)  # the other is unplugged
    assert host.scrape()[SENT] == 100
    host.taps(tap0=50, tap1=0)  # and both have started again
    assert host.scrape()[SENT] == 150
    host.has(10, "job", 1, 200, "-netdev", "tap,ifname=tap2")
    host.taps(tap0=50, tap1=0, tap2=1000)
    assert host.scrape()[SENT] == 1150
    host.ends(9)
    host.ends(10)
    host.taps()
    assert host.scrape()[SENT] == 1150


def test_disks_count_although_libvirt_answers_late_or_not_for_a_while() -> None:
    host = Host()
    host.has(9, "old", 3, 100)
    host.scrape()
    host.disks["old"] = 10**12  # libvirt's first answer
    assert host.scrape()[READ] == 0
    assert WRITTEN not in host.scrape(), "it doesn't say how much was written"
    host.has(10, "new", 1, 200)
    host.scrape()
    host.disks["new"] = 500
    assert host.scrape()[READ] == 500
    del host.disks["old"]
    for _ in range(30):
        host.scrape()
    host.disks["old"] = 10**12 + 7
    assert host.scrape()[READ] == 507


def test_without_libvirt_disks_count_by_cgroup_and_go_on_when_a_guest_ends() -> None:
    host = Host()

    def used(pid: int, vmid: int, **written: int) -> None:
        host.has(pid, f"vm{vmid}", 1, pid, "-id", f"{vmid}")
        host.content[f"proc/{pid}/cgroup"] = b"0::/qemu.slice/%d.scope\n" % vmid
        lines = [f"{name[1:]}:0 rbytes={count} wbytes={2 * count} rios=1 wios=1\n" for name, count in written.items()]
        host.content[f"sys/fs/cgroup/qemu.slice/{vmid}.scope/io.stat"] = "".join(lines).encode()

    host.content["sys/fs/cgroup/cgroup.controllers"] = b"cpu io\n"
    used(9, 100, _8=10**9)
    assert (host.scrape()[READ], host.scrape()[WRITTEN]) == (0, 0)
    used(9, 100, _8=10**9 + 100)
    used(10, 101, _8=7, _9=8)
    assert (host.scrape()[READ], host.scrape()[WRITTEN]) == (115, 230)
    host.ends(9)
    used(10, 101, _8=9, _9=8)
    assert (host.scrape()[READ], host.scrape()[WRITTEN]) == (117, 234)
    host.ends(10)
    assert host.scrape()[READ] == 117


def test_waiting_goes_on_when_a_vcpu_is_unplugged() -> None:
    host = Host()

    def vcpus(**waited: int) -> None:
        threads = {f"_{tid[1:]}": stat("CPU 0/KVM" if tid == "_20" else "CPU 1/KVM", 5) for tid in waited}
        host.runs(9, command_line("-name", "web"), stat("qemu", 500), **threads)
        for tid, seconds in waited.items():
            host.content[f"proc/9/task/{tid[1:]}/schedstat"] = b"%d %d 7\n" % (10**9, seconds * 10**9)

    vcpus(_20=1000, _21=2000)
    assert host.scrape()[WAIT] == 0
    vcpus(_20=1001, _21=2003)
    assert host.scrape()[WAIT] == 4
    vcpus(_20=1002)
    assert host.scrape()[WAIT] == 5


def test_a_recording_s_total_is_what_its_guests_used() -> None:
    """A real host's minute and a half, with a guest that starts and ends in it."""
    now = 0.0
    recording = Path(__file__).parents[2] / "kvm/recordings/lifecycle.jsonl.gz"
    source = next(iter(replayed(Playback(recording, "kvm", speed=1, once=True, clock=lambda: now))))
    first: dict[str, float] = {}
    used: dict[str, float] = {}
    while now < 90:
        samples = [sample for family in source.read() for sample in family.samples]
        used |= {each.labels["pid"]: each.value for each in samples if each.name == "kvm_guest_cpu_seconds_total"}
        first = first or dict(used)
        total = next(each.value for each in samples if each.name == CPU)
        assert total == pytest.approx(sum(used.values()) - sum(first.values()), abs=0.25)  # files are read in turn
        now += 2
    assert len(used) > len(first)
    assert total > 90
