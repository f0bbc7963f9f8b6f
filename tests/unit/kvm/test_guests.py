"""The host's guests as they come and go: their processes, and their values."""

import pytest

from tests.support.refusals import assert_refused
from tests.unit.kvm.captured import BOOTED, STAT, command_line, recorded
from tests.unit.kvm.test_threads import stat
from virtscope.kvm.guests import Guests, parse_host
from virtscope.kvm.model import Host
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable

QEMU = command_line("-name", "guest=web", "-m", "16")


def process(text: bytes, **fields: int) -> bytes:
    before, _, after = text.rpartition(b") ")
    words = after.split()
    words[1] = b"%d" % fields.get("ppid", 1)
    words[6] = b"%d" % fields.get("flags", 0)
    return before + b") " + b" ".join(words) + b"\n"


class Machine:
    """A host whose processes change, read repeatedly like the live exporter reads its own."""

    def __init__(self) -> None:
        self.content = {"proc/stat": STAT, "proc/1/net/dev": b"\n"}
        self.files = recorded(self.content)
        self.guests = Guests(self.files)

    def runs(self, pid: int, content: bytes, text: bytes, **threads: bytes) -> None:
        self.ends(pid)
        self.content |= {f"proc/{pid}/cmdline": content, f"proc/{pid}/stat": text, f"proc/{pid}/task/{pid}/stat": text}
        for tid, status in threads.items():
            self.content[f"proc/{pid}/task/{tid[1:]}/stat"] = status

    def starts(self, pid: int, *words: str, cgroup: str = "", **files: bytes) -> None:
        """Run QEMU with these words in this cgroup; `files` of its folder are named with _ instead of /."""
        self.runs(pid, command_line(*words), stat("qemu", 5))
        files |= {"cgroup": f"0::{cgroup}\n".encode()} if cgroup else {}
        self.content |= {f"proc/{pid}/{name.replace('_', '/')}": text for name, text in files.items()}

    def ends(self, pid: int) -> None:
        self.content = {path: text for path, text in self.content.items() if not path.startswith(f"proc/{pid}/")}

    def look(self, now: float = 0) -> Host:
        self.files.show(self.content)
        return self.guests.read(now)

    def names(self, now: float = 0) -> list[str]:
        return [guest.name for guest in self.look(now).guests]


def test_a_malformed_stat_or_hidden_processes_are_no_empty_host() -> None:
    assert parse_host(STAT).boot_time == BOOTED
    negative, endless = STAT.replace(b" 30000", b" -1"), STAT.replace(b" 30000", b" " + b"9" * 5000)
    for text in (b"", b"cpu 1 2 3\n", STAT.replace(b"btime", b"x"), negative, endless):
        assert_refused(SourceMalformed, "", parse_host, text)
    with pytest.raises(SourceUnavailable, match="hidepid"):
        Guests(recorded({"proc/stat": STAT})).read(0)


def test_a_guest_that_starts_again_is_another_one() -> None:
    machine = Machine()
    machine.runs(9, QEMU, stat("qemu", 500, start=100))
    (before,) = machine.look().guests
    machine.runs(9, QEMU, stat("qemu", 3, start=9000))
    machine.look(1)  # notices that the previous one has ended
    (after,) = machine.look(2).guests
    assert (before.cpu_seconds, before.start_time) == (5, BOOTED + 1)
    assert (after.cpu_seconds, after.start_time) == (0.03, BOOTED + 90)


def test_a_process_may_become_a_guest() -> None:
    """A shell that executes QEMU, as in scripts and libvirt's daemon; at the latest it is found after a minute."""
    machine = Machine()
    machine.look()
    late = command_line("-name", "late")
    for now, pid, line, text, shown in (
        (0, 9, b"/bin/sh\0-c\0exec qemu\0", stat("sh", 1, start=100), []),
        (1, 9, QEMU, stat("qemu", 2, start=100), ["web"]),
        *((now, 10, b"/bin/sh\0", stat("sh", 1, start=200), ["web"]) for now in (50, 100, 150)),
        (220, 10, late, stat("qemu", 2, start=200), ["web", "late"]),
        (300, 10, late, stat("qemu", 5, start=200).replace(b") S", b") Z"), ["web"]),  # a zombie
    ):
        machine.runs(pid, line, text)
        assert machine.names(now) == shown, now


def test_the_parent_that_waits_for_a_daemon_is_no_second_guest() -> None:
    machine = Machine()
    machine.runs(9, QEMU, stat("qemu", 1))
    machine.runs(10, QEMU, process(stat("qemu", 5), ppid=9))
    assert [guest.pid for guest in machine.look().guests] == [10]


def test_the_kernel_s_threads_for_a_guest_are_its_own() -> None:
    """vhost's threads before Linux 6.4, and their time after they end."""
    machine = Machine()
    machine.runs(9, QEMU, stat("qemu", 500), _11=stat("CPU 0/KVM", 400, 0, 300))
    kernel = {"ppid": 2, "flags": 0x200000}
    machine.runs(20, b"", process(stat("vhost-9", 0, 70, start=600), **kernel))
    machine.runs(21, b"", process(stat("kvm-pit/9", 0, 5, start=601), **kernel))
    machine.runs(22, b"", process(stat("vhost-99", 0, 1000), **kernel))
    machine.runs(23, QEMU, stat("vhost-9", 0, 1000, start=700))  # a program with the same name
    guest = machine.look().guests[0]
    assert (guest.cpu_seconds, guest.role_seconds["vhost"], guest.role_seconds["kvm"]) == (5.75, 0.7, 0.05)
    machine.ends(20)
    guest = machine.look(1).guests[0]
    assert (guest.cpu_seconds, guest.role_seconds["vhost"]) == (5.75, 0.7)


def test_guest_time_that_is_no_measurement_is_absent_with_its_reason() -> None:
    """With TCG, with kvm_pvm, which has a stray tick in hours, and while the accelerator isn't known."""
    unknown = command_line("-name", "v1", "-readconfig", "/run/qemu.conf")
    for line, text, threads, absent in (
        (QEMU, stat("qemu", 500, guest=2), {"_11": stat("CPU 0/TCG", 400, 0, 2)}, "tcg"),
        (QEMU, stat("qemu", 100, 90_000, guest=1), {"_11": stat("CPU 0/KVM", 100, 80_000, 1)}, "kernel"),
        (unknown, stat("qemu-system-x86", 500), {}, "accelerator not known"),
    ):
        machine = Machine()
        machine.runs(9, line, text, **threads)
        host = machine.look()
        assert [guest.guest_time_absent for guest in host.guests] == [absent]
        assert host.guest_seconds is None, absent


def test_an_idle_guest_s_0_is_a_measurement_once_another_had_guest_time() -> None:
    machine = Machine()
    machine.runs(9, QEMU, stat("qemu", 500, guest=400), _11=stat("CPU 0/KVM", 450, 0, 400))
    machine.runs(10, command_line("-name", "idle"), stat("qemu", 5), _12=stat("CPU 0/KVM", 0))
    machine.look()
    machine.ends(9)
    assert [guest.guest_time_absent for guest in machine.look(1).guests] == [""]


def test_without_thread_names_only_totals_are_known() -> None:
    machine = Machine()
    line = command_line("-name", "web", "-smp", "2", "-enable-kvm")
    machine.runs(9, line, stat("qemu", 500, 20, guest=300), _11=stat("qemu", 400, 0, 300))
    (guest,) = machine.look().guests
    assert (guest.cpu_seconds, guest.guest_seconds, guest.guest_time_absent) == (5.2, 3, "")
    assert (guest.vcpus, guest.role_seconds, guest.vcpu_count) == ((), {}, 2)


def test_memory_counts_huge_pages() -> None:
    machine = Machine()
    machine.runs(9, QEMU, stat("qemu", 5))
    machine.content["proc/9/status"] = b"VmRSS:\t    2048 kB\nHugetlbPages:\t    1024 kB\n"
    (guest,) = machine.look().guests
    assert (guest.memory_resident_bytes, guest.memory_limit_bytes) == (3 << 20, 16 << 20)


def test_scrapes_each_second_get_clocks_at_once_and_other_counters_at_the_same_seconds_of_each_minute() -> None:
    """So these have the same age at both ends of a rate over a minute."""
    machine, ages = Machine(), []
    for second in range(1000, 1200):
        machine.runs(9, QEMU, stat("qemu", second), _11=stat("CPU 0/KVM", 100))
        machine.content["proc/9/task/11/schedstat"] = b"%d 500000000 9\n" % (second * 10**9)
        (guest,) = machine.look(second + 0.01 * (second % 3)).guests
        (vcpu,) = guest.vcpus
        assert (vcpu.run_seconds, vcpu.wait_seconds, guest.cpu_seconds) == (second, 0.5, second / 100)
        ages.append(second - round(100 * guest.role_seconds["emulator"]))
    assert max(ages) == 14
    assert ages[60:120] == ages[120:180]


def test_guest_time_proves_kvm() -> None:
    """Proxmox before 7.2 names neither accelerator nor threads; Incus passes all options by -readconfig."""
    machine = Machine()
    comm, vcpus = "qemu-system-x86", {tid: stat("qemu-system-x86", 245, guest=200) for tid in ("_11", "_12")}
    line = command_line("-name", "v1", "-readconfig", "/run/qemu.conf")
    machine.runs(9, line, stat(comm, 500, guest=400), _9=stat(comm, 10), **vcpus)
    (guest,) = machine.look().guests
    assert (guest.accelerator, guest.guest_time_absent, guest.guest_seconds, guest.vcpu_count) == ("kvm", "", 4, 2)


def test_a_container_s_processes_are_not_the_host_s() -> None:
    machine = Machine()
    machine.content["proc/self/ns/pid"] = b"pid:[4026532570]"
    with pytest.raises(SourceUnavailable, match="pid: host"):
        machine.look()
    machine.content["proc/2/stat"] = stat("sh", 1)
    with pytest.raises(SourceUnavailable, match="PID namespace"):
        machine.look(1)
    machine.content["proc/2/stat"] = process(stat("kthreadd", 0), ppid=0, flags=0x200000)
    assert machine.names(2) == []
    del machine.content["proc/2/stat"]
    machine.content["proc/self/ns/pid"] = b"pid:[4026531836]"
    assert machine.names(3) == []


def test_libvirt_s_number_is_the_host_s_where_its_cgroup_has_it() -> None:
    for cgroup, id_shown in (
        ("machine.slice/machine-qemu\\x2d7\\x2dweb.scope/libvirt/vcpu0", "7"),
        ("../../machine.slice/machine-qemu\\x2d7\\x2dweb.scope", "7"),  # as seen in a container
        ("machine/qemu-7-web.libvirt-qemu/emulator", "7"),
        ("production.partition/qemu-7-web.libvirt-qemu", "7"),
        ("machine.slice/machine-qemu\\x2d71\\x2dweb.scope", ""),
        ("user.slice/user-1000.slice/user@1000.service/machine-qemu\\x2d7\\x2dweb.scope", ""),
    ):
        machine = Machine()
        machine.starts(9, "-name", "web", "-mon", "chardev=charmonitor,path=/domain-7-web/", cgroup=f"/{cgroup}")
        assert [(guest.id, guest.manager) for guest in machine.look().guests] == [(id_shown, "libvirt")], cgroup
