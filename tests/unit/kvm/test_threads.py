"""Threads of a guest: their purposes, and counters that never decrease."""

import pytest

from tests.unit.kvm.captured import recorded
from virtscope.kvm.threads import ThreadClocks, Threads, kind, parse_process


def stat(comm: str, user: int, system: int = 0, guest: int = 0, start: int = 500) -> bytes:
    after = ["S", "1", *["0"] * 9, user, system, *["0"] * 6, start, *["0"] * 20, guest, "0"]
    return f"7 ({comm}) {' '.join(map(str, after))}\n".encode()


class Process:
    """A QEMU with threads that come and go, read repeatedly."""

    def __init__(self) -> None:
        self.files = recorded({})
        self.clocks = ThreadClocks("7")

    def look(self, **threads: bytes | tuple[bytes, bytes]) -> Threads:
        content: dict[str, bytes] = {}
        for tid, given in threads.items():
            status, schedstat = given if isinstance(given, tuple) else (given, b"")
            content[f"proc/7/task/{tid[1:]}/stat"] = status
            if schedstat:
                content[f"proc/7/task/{tid[1:]}/schedstat"] = schedstat
        self.files.show(content)
        return self.clocks.read(self.files)


def test_what_a_thread_is_for() -> None:
    vcpus = {"CPU 12/KVM": ("12", "kvm"), "CPU 0/TCG": ("0", "tcg"), "ALL CPUs/TCG": ("all", "tcg")}
    vcpus |= {"fc_vcpu 3": ("3", "kvm"), "vcpu11": ("11", "kvm"), "crosvm_vcpu2": ("2", "kvm")}
    roles = {
        "iothread": ("IO iothread1",),
        "emulator": ("IO mon_iothread", "call_rcu", "CPU x/KVM", "CPU 12345/KVM", "CPU 0/FORGED"),
        "worker": ("worker", "iou-wrk-390", "iou-sqp-390"),  # plus the kernel's, for io_uring
        "vhost": ("vhost-415",),
        "kvm": ("kvm-nx-lpage-re",),
    }
    expected = {comm: ("vcpu", *which) for comm, which in vcpus.items()}
    expected |= {comm: (role, "", "") for role, comms in roles.items() for comm in comms}
    expected["kvm"] = ("emulator", "", "")  # Proxmox's main thread
    assert {comm: kind(comm.encode()) for comm in expected} == expected


def test_a_vcpu_s_times_are_schedstat_s_and_stat_s() -> None:
    threads = Process().look(_8=(stat("CPU 1/KVM", 300, 120, 250), b"4250000000 1500000000 99\n"))
    (vcpu,) = threads.vcpus
    assert vcpu == ("1", 4.25, 1.5, 2.5, 1.2)
    assert threads.accelerator == "kvm"

    assert Process().look(_7=stat("qemu-system-x86", 50), _8=stat("qemu-system-x86", 9))[:1] == ((),), "no names"
    # A kernel without schedstat has neither run nor wait times. In most kernels, guest and user time are sampled, and
    # only user time is scaled to the measured total.
    (vcpu,) = Process().look(_8=stat("CPU 0/KVM", 300, 50, 310)).vcpus
    assert (vcpu.run_seconds, vcpu.wait_seconds, vcpu.guest_seconds) == (None, None, 3)
    one, other = (stat("CPU 0/KVM", 10), b"100000000 0 1\n"), (stat("CPU 0/KVM", 20), b"200000000 0 1\n")
    (vcpu,) = Process().look(_8=one, _9=other).vcpus  # two threads of one vCPU
    assert vcpu.run_seconds == pytest.approx(0.3)


def test_a_stat_may_have_any_name_and_be_malformed() -> None:
    process = parse_process(stat("a) S 1 (b", 12, 34, 5, 678))
    assert process
    assert (process.comm, process.user, process.system, process.guest, process.start) == (b"a) S 1 (b", 12, 34, 5, 678)
    more = parse_process(stat("qemu", 12, guest=13))
    assert more
    assert more.guest == 12, "no more than user time"
    for text in (b"", b"7 (a", b"7 (a) S 1 2 3", stat("a", 1).replace(b"500", b"x")):
        assert parse_process(text) is None


def test_what_ended_threads_used_is_not_lost() -> None:
    process = Process()
    vcpu = (stat("CPU 0/KVM", 100), b"1000000000 0 1\n")
    before = process.look(_7=stat("qemu", 50), _8=vcpu, _9=stat("worker", 30), _10=stat("vnc_worker", 20))
    assert before.role_ticks == {"emulator": 70}
    assert before.worker_ticks(process_ticks=200) == 30
    after = process.look(_7=stat("qemu", 60), _8=vcpu)
    assert after.role_ticks == {"emulator": 80}
    assert after.worker_ticks(process_ticks=210) == 30
    # A thread id may be reused by the next one.
    assert process.look(_7=stat("qemu", 400), _8=vcpu).role_ticks == {"emulator": 420}
    assert process.look(_7=stat("qemu", 1), _8=vcpu).role_ticks == {"emulator": 421}
    later = Process().look(_7=stat("qemu", 60), _8=vcpu)  # seen by an exporter started later
    assert later.worker_ticks(process_ticks=210) == 50


def test_a_vcpu_that_is_plugged_in_again_goes_on() -> None:
    process = Process()
    first = (stat("CPU 0/KVM", 10), b"100000000 0 1\n")
    process.look(_8=first, _9=(stat("CPU 1/KVM", 500, 100, 400), b"6000000000 2000000000 9\n"))
    unplugged = process.look(_8=first)
    assert [vcpu.name for vcpu in unplugged.vcpus] == ["0"]
    assert unplugged.vcpu_ticks == 610
    again = process.look(_8=first, _11=(stat("CPU 1/KVM", 20, 0, 10), b"200000000 100000000 2\n"))
    assert again.vcpus[1] == pytest.approx(("1", 6.2, 2.1, 4.1, 1.0))


def test_a_thread_that_cant_be_read_this_time_has_not_ended() -> None:
    process = Process()
    vcpu = (stat("CPU 0/KVM", 100), b"1000000000 0 1\n")
    process.look(_7=stat("qemu", 50), _8=vcpu)
    unread = process.look(_7=b"", _8=(b"8 (CPU 0/KVM", b""))
    assert unread.role_ticks == {"emulator": 50}
    assert unread.vcpus[0].run_seconds == 1
    again = process.look(_7=stat("qemu", 55), _8=(stat("CPU 0/KVM", 105), b"1050000000 0 1\n"))
    assert again.role_ticks == {"emulator": 55}
    assert again.vcpus[0].run_seconds == 1.05


def test_of_a_process_with_more_threads_than_any_guest_only_the_total_is_read() -> None:
    process = Process()
    for threads, read in ((2048, 2048), (2049, 0)):
        assert len(process.look(**{f"_{tid}": stat(f"CPU {tid}/KVM", 5) for tid in range(threads)}).vcpus) == read
