"""CPU time of QEMU's threads, by /proc/PID/task/TID/stat and schedstat, as monotonic counters.

    390 (CPU 0/KVM) S 1 382 ... 365 360 ... 237        # utime, stime; field 43: guest_time, a part of utime. In ticks
    7271284034 9131874722 20517                        # schedstat: ns on a CPU, ns waiting for one, times it ran

Formats: proc_pid_stat(5); Documentation/scheduler/sched-stats.rst. Time in stat is exact in sum, its parts are samples
in most kernels (CONFIG_TICK_CPU_ACCOUNTING). By hand: `ps -L -p PID -o comm,times`.

Threads are identified by their names, which libvirt and Proxmox enable (-name debug-threads=on), and QEMU from 11 on by
default. Without names only the process's total and the number of threads with guest time are known.

QEMU's workers exit when idle, and vCPUs when unplugged. The process's total keeps their time, but a sum over existing
threads doesn't. So the last time seen of ended threads is added. Role "worker" is the rest of the total, so it is right
from the first scrape on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import fsum
from operator import add
from typing import NamedTuple

from virtscope.kvm.host_files import Files
from virtscope.kvm.model import Vcpu

TICKS = 100  # per second: USER_HZ, independent of the kernel's HZ except on Alpha
_NS = 1_000_000_000

# Of /proc/PID/status, in KiB: resident memory, without huge pages.
MEMORY = re.compile(rb"(?m)^(VmRSS|HugetlbPages):\s+([0-9]{1,15}) kB$")

_VCPU = re.compile(rb"(?:CPU ([0-9]{1,4})|ALL CPUs)/(KVM|TCG|MSHV|DUMMY)")
_VCPU_OF_ANOTHER = re.compile(rb"(?:fc_vcpu |vcpu|crosvm_vcpu)([0-9]{1,4})")  # Firecracker's, Cloud Hypervisor's
_WORKER = re.compile(rb"worker|iou-(?:wrk|sqp)-[0-9]+")  # QEMU's, the kernel's for io_uring
# More than any KVM guest has; of larger processes only the total is read.
MAX_THREADS = 2048
_KERNEL_THREAD = 0x200000  # PF_KTHREAD in include/linux/sched.h
EMULATOR, IOTHREAD, WORKER, VHOST, KVM = "emulator", "iothread", "worker", "vhost", "kvm"


class Process(NamedTuple):
    """The stat of a process or kernel thread; times in ticks."""

    comm: bytes
    state: str
    ppid: int
    kernel_thread: bool
    user: int
    system: int
    start: int  # since boot
    guest: int  # of `user`
    threads: int
    counted_guest: int  # by ticks like the host's, so it may be more than `user`


class Use(NamedTuple):
    """Times of a vCPU's thread: ns by schedstat (0 unless `scheduled`), ticks by stat."""

    run: int
    wait: int
    user: int
    system: int
    guest: int
    scheduled: bool  # this kernel has schedstat


class Kind(NamedTuple):
    """The role of a thread."""

    role: str  # "vcpu" or a role
    vcpu: str  # the vCPU's name
    accelerator: str  # the vCPU's accelerator: "kvm", "tcg"


def parse_process(stat: bytes) -> Process | None:
    """Parse a stat; None if truncated or malformed."""
    opened, closed = stat.find(b"("), stat.rfind(b")")
    fields = stat[closed + 1 :].split(None, 41)
    if not 0 < opened < closed or len(fields) < 41:
        return None
    try:
        state, ppid, flags, start = fields[0].decode(), int(fields[1]), int(fields[6]), int(fields[19])
        user, system, guest, threads = int(fields[11]), int(fields[12]), int(fields[40]), int(fields[17])
    except ValueError:
        return None
    comm, kernel_thread = stat[opened + 1 : closed], bool(flags & _KERNEL_THREAD)
    return Process(comm, state, ppid, kernel_thread, user, system, start, min(guest, user), threads, guest)


def thread_name(stat: bytes) -> bytes:
    """Return the name in a thread's stat; b"" if absent."""
    return stat[stat.find(b"(") + 1 : stat.rfind(b")")]


@lru_cache(maxsize=4096)  # few different names
def kind(comm: bytes) -> Kind:
    """Return the role of a thread by its name."""
    vcpu = _VCPU.fullmatch(comm)
    if vcpu:
        return Kind("vcpu", (vcpu[1] or b"all").decode(), vcpu[2].decode().lower())
    vcpu = _VCPU_OF_ANOTHER.fullmatch(comm)
    if vcpu:
        return Kind("vcpu", vcpu[1].decode(), "kvm")
    if comm.startswith(b"IO ") and comm != b"IO mon_iothread":
        return Kind(IOTHREAD, "", "")
    if _WORKER.fullmatch(comm):
        return Kind(WORKER, "", "")
    if comm.startswith(b"vhost-"):
        return Kind(VHOST, "", "")
    return Kind(KVM if comm.startswith(b"kvm-") else EMULATOR, "", "")


def _parse_schedstat(schedstat: bytes | None) -> tuple[int, int] | None:
    """Return a thread's ns of running and waiting; None if it has ended or the kernel has no schedstat."""
    fields = (schedstat or b"").split(None, 2)
    try:
        return int(fields[0]), int(fields[1])
    except (ValueError, IndexError):
        return None


class Threads(NamedTuple):
    """The current threads of a guest."""

    vcpus: tuple[Vcpu, ...]
    accelerator: str  # "" if threads have no names
    role_ticks: Mapping[str, int]  # of the other threads except workers, ended ones included
    vcpu_ticks: int  # of all vCPUs, ended ones included
    unnamed_vcpus: int = 0  # threads with guest time but without a vCPU's name

    def worker_ticks(self, process_ticks: int) -> int:
        """Return the rest of the process's total."""
        return max(process_ticks - self.vcpu_ticks - sum(self.role_ticks.values()), 0)


_NOTHING = Use(0, 0, 0, 0, 0, scheduled=True)


class ThreadClocks:
    """Remembers the threads of a guest between scrapes, and the time of ended ones."""

    def __init__(self, pid: str) -> None:
        self._folder = f"proc/{pid}/task"
        self._vcpus: dict[str, tuple[Kind, Use]] = {}  # by thread
        self._ended_vcpus: dict[str, Use] = {}  # by vCPU
        self._others: dict[str, tuple[str, int]] = {}  # role and ticks by thread
        self._ended: dict[str, int] = {}  # ticks by role

    def vcpus(self, files: Files) -> tuple[Vcpu, ...] | None:
        """Update run and wait time of the vCPU threads found by the last read(); other values stay.

        None if one of them is unreadable, or this kernel has no schedstat.
        """
        now: dict[str, tuple[Kind, Use]] = {}
        for tid, (thread, was) in self._vcpus.items():
            clock = _parse_schedstat(files.line_again(f"{self._folder}/{tid}/schedstat"))
            if clock is None or clock[0] < was.run:
                return None
            now[tid] = (thread, Use(*clock, was.user, was.system, was.guest, scheduled=True))
        self._vcpus = now
        return self._shown()

    def waited(self, shown: tuple[Vcpu, ...]) -> float | None:
        """Return the wait time of these vCPUs and unplugged ones in seconds; None if this kernel has no schedstat."""
        waits = [vcpu.wait_seconds for vcpu in shown if vcpu.wait_seconds is not None]
        if self._ended_vcpus:
            names = {vcpu.name for vcpu in shown}
            waits += [use.wait / _NS for name, use in self._ended_vcpus.items() if name not in names]
        return fsum(waits) if waits else None  # the same in any order

    def read(self, files: Files) -> Threads:
        """Read all threads."""
        vcpus: dict[str, tuple[Kind, Use]] = {}
        others: dict[str, tuple[str, int]] = {}
        unnamed = 0
        listed = files.names(self._folder)
        for tid in listed if len(listed) <= MAX_THREADS else ():
            stat = files.line_again(f"{self._folder}/{tid}/stat") or b""
            closed = stat.rfind(b")")
            try:
                thread = kind(stat[stat.index(b"(") + 1 : closed])
                if thread.role == "vcpu":
                    vcpus[tid] = (thread, self._use(files, tid, stat[closed + 1 :]))
                else:
                    fields = stat[closed + 1 :].split(None, 41)
                    others[tid] = (thread.role, int(fields[11]) + int(fields[12]))
                    unnamed += fields[40] != b"0"
            except (ValueError, IndexError):
                # It has ended, or descriptors have run out; if it is still listed next time, it has not ended.
                if tid in self._vcpus:
                    vcpus[tid] = self._vcpus[tid]
                elif tid in self._others:
                    others[tid] = self._others[tid]
        self._bury(vcpus, others)
        self._vcpus, self._others = vcpus, others
        return self._sum()._replace(unnamed_vcpus=unnamed)

    def _use(self, files: Files, tid: str, stat: bytes) -> Use:
        fields = stat.split(None, 41)
        user = int(fields[11])
        ticks = (user, int(fields[12]), min(int(fields[40]), user))
        clock = _parse_schedstat(files.line_again(f"{self._folder}/{tid}/schedstat"))
        if clock is None:  # it has ended, or this kernel has none
            was = self._vcpus[tid][1] if tid in self._vcpus else _NOTHING
            return Use(was.run, was.wait, *ticks, scheduled=was.run > 0)
        return Use(*clock, *ticks, scheduled=True)

    def _bury(self, vcpus: Mapping[str, tuple[Kind, Use]], others: Mapping[str, tuple[str, int]]) -> None:
        """Keep the time of threads that have ended or whose id was reused."""
        for tid, (thread, was) in self._vcpus.items():
            now = vcpus.get(tid)
            if now is None or now[0] != thread or now[1].run < was.run or now[1].user < was.user:
                self._ended_vcpus[thread.vcpu] = _plus(self._ended_vcpus.get(thread.vcpu, _NOTHING), was)
        for tid, (role, ticks) in self._others.items():
            left = others.get(tid)
            if left is None or left[0] != role or left[1] < ticks:
                self._ended[role] = self._ended.get(role, 0) + ticks

    def _sum(self) -> Threads:
        ticks = dict(self._ended)
        for role, used in self._others.values():
            ticks[role] = ticks.get(role, 0) + used
        ticks.pop(WORKER, None)
        uses = [*self._ended_vcpus.values(), *[use for _, use in self._vcpus.values()]]
        accelerator = next((thread.accelerator for thread, _ in self._vcpus.values()), "")
        return Threads(self._shown(), accelerator, ticks, sum(use.user + use.system for use in uses))

    def _shown(self) -> tuple[Vcpu, ...]:
        uses: dict[str, Use] = {}
        for thread, use in sorted(self._vcpus.values(), key=lambda vcpu: (len(vcpu[0].vcpu), vcpu[0].vcpu)):
            # Two threads may exist while a vCPU is replugged.
            before = uses.get(thread.vcpu) or self._ended_vcpus.get(thread.vcpu)
            uses[thread.vcpu] = _plus(before, use) if before else use
        return tuple([_vcpu(name, use) for name, use in uses.items()])


def _plus(one: Use, other: Use) -> Use:
    return Use._make([*map(add, one[:5], other[:5]), other.scheduled])


def _vcpu(name: str, use: Use) -> Vcpu:
    return Vcpu(
        name,
        use.run / _NS if use.scheduled else None,
        use.wait / _NS if use.scheduled else None,
        use.guest / TICKS,
        use.system / TICKS,
    )
