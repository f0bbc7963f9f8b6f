"""The host's guests by /proc and cgroups: combines the other modules' values to the model.

Every scrape reads the processes' CPU time, the vCPUs' run and wait time, and throttled time, which is included in the
wait. The split of the vCPUs' time and the other threads' counters are read every few seconds, and rarely changing
values (caps, memory, owners of taps) less often: these are most of the files. With frequent scrapes, each reads them
for some of the guests.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from virtscope.kvm import disks
from virtscope.kvm.command_line import CommandLine
from virtscope.kvm.host_files import Blocked, Files
from virtscope.kvm.limits import Cgroups, Found
from virtscope.kvm.model import A_USERS, UNKNOWN, VOUCHED_FOR, Guest, Host, Throttling, clean, owners
from virtscope.kvm.processes import Monitor, Processes
from virtscope.kvm.taps import opened
from virtscope.kvm.threads import KVM, MEMORY, TICKS, VHOST, WORKER, ThreadClocks, Threads, kind, parse_process
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable

SELDOM = 4.5  # seconds between scrapes; less frequent ones read all counters
# Seconds between two reads of the counters with frequent scrapes: a divisor of a minute, so both ends of a rate() over
# minutes have the same age.
COUNTERS = 15.0
FACTS = 14.5  # seconds between two reads of rarely changing values
_PORTIONS = 12  # of the guests, after the first scrape
_STARTING = 60.0  # seconds that QEMU may need to start its threads

# Guest time is valid if it is at least this part of the vCPUs' run time. Kernels without it, as under kvm_pvm, count
# stray ticks; even a guest that causes exits all the time runs its own code for some percent.
_MIN_GUEST_TIME = 0.001

_HOST_S_PIDS = "pid:[4026531836]"  # PROC_PID_INIT_INO in include/linux/proc_ns.h
_CPU_LINE = re.compile(rb"cpu +[0-9]{1,20}(?: [0-9]{1,20}){8,} *\Z")  # with guest


class HostStat(NamedTuple):
    """The values of /proc/stat; CPU time in ticks."""

    cpus: int
    used: int  # used by all, guests included
    guest: int
    boot_time: int  # Unix time in seconds


class _Counters(NamedTuple):
    """Counters of a guest that are not read at every scrape."""

    accelerator: str
    unnamed_vcpus: int
    role_seconds: Mapping[str, float]
    served_ticks: int  # of the kernel's threads


class _Facts(NamedTuple):
    """Rarely changing values of a guest."""

    resident_bytes: int | None
    cgroups: Found
    disks: Mapping[str, str]  # names of the devices to show, by major:minor
    taps: tuple[str, ...]
    network_namespace: int
    standing: int


class _Kept:
    """State of a guest between scrapes."""

    def __init__(self, monitor: Monitor, now: float) -> None:
        self.monitor = monitor
        self.since = now
        self.clocks = ThreadClocks(str(monitor.pid))
        self.counters: _Counters | None = None
        self.counters_due = now
        self.facts: _Facts | None = None
        self.facts_due = now
        self.opened: list[str] | None = None  # taps, by name
        self.serving: dict[int, tuple[str, int]] = {}  # role and ticks of each of the kernel's threads, by start
        self.served: dict[str, int] = {}  # ticks of ended ones, by role
        self.worker_ticks = 0
        self.throttled: dict[str, Throttling] = {}


def parse_host(stat: bytes) -> HostStat:
    """Parse /proc/stat; raises SourceMalformed if something is missing."""
    head, _, rest = stat.partition(b"\n")
    fields = head.split()
    boot = re.search(rb"(?m)^btime ([0-9]{1,12})$", rest)
    cpus = len(re.findall(rb"(?m)^cpu[0-9]+ ", rest))
    if not _CPU_LINE.match(head) or not boot or not cpus:
        raise SourceMalformed(f"/proc/stat begins with {stat[:80]!r}, or lacks btime or CPUs")
    user, nice, system, _idle, _iowait, irq, softirq, _steal, guest = map(int, fields[1:10])
    guest += int(fields[10]) if len(fields) > 10 else 0
    return HostStat(cpus, user + nice + system + irq + softirq, guest, int(boot[1]))  # user and nice include guest


class Guests:
    """Reads the host's guests repeatedly."""

    def __init__(self, files: Files, *, every_time: bool = False) -> None:
        """`every_time`: read everything at each scrape, as a recording may jump in time."""
        self.processes = Processes(files, every_time=every_time)
        self._files = files
        self._every_time = every_time
        self._looked_at = 0.0
        self._all_counters = True  # read at this scrape
        self.cgroups = Cgroups(files)
        self._kept: dict[tuple[int, int], _Kept] = {}
        self._tells_guest_time = False  # never reset: it is a property of the kernel

    def read(self, now: float) -> Host:
        """Return the host; `now` is in seconds, of any clock.

        Raises SourceUnavailable if processes are hidden, SourceMalformed if /proc/stat is malformed.
        """
        stat = self._files.content("proc/stat")
        if stat is None:
            raise SourceUnavailable("/proc/stat can't be read; see --path.procfs")
        host = parse_host(stat)
        found = self.processes.find(now)
        if not found:
            self._check_what_is_seen()
        self._all_counters = self._every_time or now - self._looked_at >= SELDOM
        self._looked_at = now
        last, self._kept = self._kept, {}
        guests = []
        for monitor in found:
            key = (monitor.pid, monitor.start)
            kept = last.get(key) or _Kept(monitor, now)
            if kept.monitor != monitor:  # its command line is readable now
                kept.monitor, kept.facts, kept.opened = monitor, None, None
            guest = self._guest(kept, host, now)
            if guest:
                self._kept[key] = kept
                guests.append(guest)
            else:
                self.processes.forget(monitor)
        self._files.looked()
        if not self._tells_guest_time and _guest_time_is_told(guests):
            self._tells_guest_time = True
            guests = [guest._replace(guest_time_absent=self._absent(guest.accelerator)) for guest in guests]
        known = self._tells_guest_time or not guests
        return Host(host.cpus, host.used / TICKS, host.guest / TICKS if known else None, _with_own_ids(guests))

    def _check_what_is_seen(self) -> None:
        """Raise SourceUnavailable if guests may be hidden from this process."""
        if not self._files.names("proc/1"):
            raise SourceUnavailable(
                "/proc hides other users' processes (mount option hidepid): run this as root, or in the group that the "
                "option gid= names"
            )
        namespace = self._files.link("proc/self/ns/pid")
        kernel_s = parse_process(self._files.line("proc/2/stat") or b"")
        if namespace and namespace != _HOST_S_PIDS and not (kernel_s and kernel_s.kernel_thread):
            raise SourceUnavailable(
                "/proc has a container's processes only (a PID namespace): give the container the host's (Docker's "
                "`pid: host`), or name the host's /proc by --path.procfs"
            )

    def _guest(self, kept: _Kept, host: HostStat, now: float) -> Guest | None:
        """Return the guest; None if its process has ended."""
        monitor, line, threads = kept.monitor, kept.monitor.command_line, None
        facts = self._facts(kept, now)
        vcpus = kept.clocks.vcpus(self._files) if now < kept.counters_due and not self._all_counters else None
        if vcpus is None or (not vcpus and now - kept.since < _STARTING):
            threads = kept.clocks.read(self._files)
            vcpus = threads.vcpus
        # After its threads, so that it includes all of their time.
        process = parse_process(self._files.line_again(f"proc/{monitor.pid}/stat") or b"")
        if process is None or process.start != monitor.start or process.state in {"Z", "X"}:
            return None
        used = process.user + process.system
        counters = kept.counters
        if threads or counters is None:
            if counters is None:
                kept.counters_due = now + COUNTERS * _share(kept)
            elif now >= kept.counters_due:
                kept.counters_due += COUNTERS * ((now - kept.counters_due) // COUNTERS + 1)
            threads = threads or kept.clocks.read(self._files)
            counters = kept.counters = self._counters(kept, threads, used)
        # Count named threads: vCPUs may have been plugged in or out.
        named = bool(vcpus) and vcpus[0].name != "all"
        vcpu_count = len(vcpus) if named else line.vcpus or counters.unnamed_vcpus or None
        # Only KVM has guest time.
        accelerator = counters.accelerator or ("kvm" if process.guest else line.accelerator)
        return Guest(
            pid=monitor.pid,
            name=line.name
            or clean(f"{line.manager or process.comm.decode('utf-8', 'backslashreplace')}-{monitor.pid}"),
            uuid=line.uuid,
            id=line.id,
            manager=line.manager,
            accelerator=accelerator,
            start_time=host.boot_time + monitor.start / TICKS,
            vcpu_count=vcpu_count,
            cpu_seconds=(used + counters.served_ticks) / TICKS,
            guest_seconds=process.guest / TICKS,
            guest_time_absent=self._absent(accelerator),
            vcpus=vcpus,
            role_seconds=counters.role_seconds,
            memory_resident_bytes=facts.resident_bytes,
            memory_limit_bytes=line.memory_bytes,
            limits=facts.cgroups.limits,
            cgroup=facts.cgroups.cgroup,
            throttling=self._throttling(kept, facts.cgroups),
            taps=facts.taps,
            network_namespace=facts.network_namespace,
            disks=disks.read(self._files, facts.cgroups.folder, facts.disks) if facts.disks else (),
            standing=facts.standing,
            started=monitor.start,
            served_seconds=counters.served_ticks / TICKS,
            counted_guest_seconds=process.counted_guest / TICKS,
            wait_seconds=kept.clocks.waited(vcpus),
        )

    def _facts(self, kept: _Kept, now: float) -> _Facts:
        """Return a guest's rarely changing values, re-read if due."""
        facts, pid, line = kept.facts, kept.monitor.pid, kept.monitor.command_line
        if facts is None or now >= kept.facts_due or self._every_time:
            kept.facts_due = now + FACTS * (_share(kept) if facts is None else 1)
            held = [int(kib) * 1024 for _, kib in MEMORY.findall(self._files.content(f"proc/{pid}/status") or b"")]
            if kept.opened is None or self._every_time:
                with contextlib.suppress(Blocked):
                    kept.opened = opened(self._files, pid, line.tap_descriptors)
            cgroups = self.cgroups.find(pid)
            facts = kept.facts = _Facts(
                resident_bytes=sum(held) if held else None,
                cgroups=cgroups,
                disks=self._disks(cgroups, line),
                taps=tuple(dict.fromkeys([*line.taps, *(kept.opened or ())])),
                network_namespace=self._files.namespace(f"proc/{pid}/net/dev"),
                standing=_standing(self._files.content(f"proc/{pid}/cgroup") or b"", line),
            )
        return facts

    def _disks(self, cgroups: Found, line: CommandLine) -> dict[str, str]:
        """Return the names of a guest's devices on the host; of libvirt's guests none, as libvirt counts theirs."""
        if not cgroups.folder or line.manager == "libvirt":
            return {}
        return disks.uppermost(self._files, disks.parse(self._files.content(f"{cgroups.folder}/io.stat") or b""))

    def _counters(self, kept: _Kept, threads: Threads, used: int) -> _Counters:
        """Return the other counters of a guest whose process has used `ticks`."""
        roles: dict[str, int] = {}
        if threads.vcpus:  # known by their names
            kept.worker_ticks = max(kept.worker_ticks, threads.worker_ticks(used))
            roles = {**threads.role_ticks, WORKER: kept.worker_ticks}
        served = self._served(kept)
        for role, ticks in served.items():
            roles[role] = roles.get(role, 0) + ticks
        return _Counters(
            accelerator=threads.accelerator,
            unnamed_vcpus=threads.unnamed_vcpus,
            role_seconds={role: ticks / TICKS for role, ticks in sorted(roles.items())},
            served_ticks=sum(served.values()),
        )

    def _served(self, kept: _Kept) -> dict[str, int]:
        """Return the ticks of a guest's kernel threads by role, ended ones included."""
        now = {
            process.start: (
                role if (role := kind(process.comm).role) in {VHOST, KVM} else KVM,
                process.user + process.system,
            )
            for process in self.processes.serving(kept.monitor)
        }
        for start, (role, ticks) in kept.serving.items():
            if start not in now:
                kept.served[role] = kept.served.get(role, 0) + ticks
        kept.serving = now
        ticks_by_role = dict(kept.served)
        for role, ticks in now.values():
            ticks_by_role[role] = ticks_by_role.get(role, 0) + ticks
        return ticks_by_role

    def _throttling(self, kept: _Kept, cgroups: Found) -> tuple[Throttling, ...]:
        """Return throttled time; if a vCPU's cgroup has gone with its vCPU, the previous value."""
        for now in self.cgroups.throttling(cgroups.throttles):
            was = kept.throttled.get(now.part)
            if was is None or now.throttled_seconds >= was.throttled_seconds:
                kept.throttled[now.part] = now
        return tuple(kept.throttled.values())

    def _absent(self, accelerator: str) -> str:
        """Return why a guest's guest time is invalid; "" if valid."""
        if accelerator != "kvm":
            return accelerator or "accelerator not known"
        return "" if self._tells_guest_time else "kernel"


def _standing(cgroup: bytes, line: CommandLine) -> int:
    """Return how far a guest's /proc/PID/cgroup confirms the name and id of its command line."""
    parts = {part for path in cgroup.decode("utf-8", "replace").split("\n") for part in path.split("/")}
    if "user.slice" in parts:
        return A_USERS
    if line.manager == "libvirt":
        of_its_own = any(part.startswith((f"machine-qemu\\x2d{line.id}\\x2d", f"qemu-{line.id}-")) for part in parts)
    else:
        of_its_own = line.manager == "proxmox" and f"{line.id}.scope" in parts and "qemu.slice" in parts
    return VOUCHED_FOR if of_its_own and line.id else UNKNOWN


def _with_own_ids(guests: Sequence[Guest]) -> tuple[Guest, ...]:
    """Drop ids that aren't certain: each libvirt daemon counts its own domains from 1."""
    vmids = owners((guest.id, guest) for guest in guests if guest.manager == "proxmox")

    def has_its_own(guest: Guest) -> bool:
        return guest.standing == VOUCHED_FOR or vmids.get(guest.id) == guest.pid

    return tuple([guest if not guest.id or has_its_own(guest) else guest._replace(id="") for guest in guests])


def _guest_time_is_told(guests: Iterable[Guest]) -> bool:
    kvm = [guest for guest in guests if guest.accelerator == "kvm"]
    guest_time = sum(guest.guest_seconds for guest in kvm)
    return guest_time > 0 and guest_time >= _MIN_GUEST_TIME * sum(guest.cpu_seconds for guest in kvm)


def _share(kept: _Kept) -> float:
    """Return the part of the interval to wait first; spreads guests found at the same time."""
    return (kept.monitor.pid % _PORTIONS + 1) / _PORTIONS
