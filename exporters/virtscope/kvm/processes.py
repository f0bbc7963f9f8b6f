"""Which processes are guests, found among all processes of the host, and the kernel's threads that serve them.

What a process is, the kernel says: the file that it runs or, where that takes more rights, its name; and the guest time
that it has, its open files or its threads' names where the program is another than QEMU. Its command line, which can
say anything, then says what it is called.

A process is looked at when it is new, and again after as long as it has been there by then, as it may run a guest only
then (exec); the others from time to time, as numbers are used again.

By hand: `pgrep -af 'qemu|kvm'`, `ls -l /proc/PID/exe`, `ls -l /proc/PID/fd | grep kvm-vm`, `ps --ppid 2 | grep vhost`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from virtscope.kvm import command_line
from virtscope.kvm.command_line import UNREAD, CommandLine
from virtscope.kvm.host_files import Blocked, Files
from virtscope.kvm.threads import Process, kind, parse_process, thread_name

# Before Linux 6.4 vhost's threads are the kernel's own and not among QEMU's; KVM's are here and there. Their names have
# the number of the process they work for.
_SERVES = re.compile(rb"(?:vhost-|kvm-pit/|kvm-nx-lpage-recovery-)([0-9]{1,10})")

_AGAIN = 60.0  # seconds until a process that is no guest is looked at again, if it has been there as long
_MAX_LISTED = 256  # open files and threads of a process: a monitor has KVM's among the first


class Monitor(NamedTuple):
    """A process that runs a guest, a virtual machine monitor."""

    pid: int
    start: int  # ticks since boot: with the number it identifies a process
    ppid: int
    fingerprint: int  # of its command line
    command_line: CommandLine


class _Other(NamedTuple):
    first_seen: float
    looked_at: float


class Processes:
    """Finds the guests at each look, remembering what the processes were at the last one."""

    def __init__(self, files: Files, *, every_time: bool = False) -> None:
        """`every_time`: look at each process at each look, as the files may be of another moment of a recording."""
        self._files = files
        self._every_time = every_time
        self._monitors: dict[str, Monitor] = {}
        self._unread: set[str] = set()  # those whose command line blocks
        self._serving: dict[str, tuple[int, int]] = {}  # the kernel's threads: whom they serve, and since when
        self._others: dict[str, _Other] = {}
        self._first = True  # of the looks: who is there already is not new

    def find(self, now: float) -> list[Monitor]:
        """Return the guests, the one that was started first first; `now` is a time of any clock, in seconds."""
        listed = {name for name in self._files.names("proc") if name.isdigit()}
        kept = set() if self._every_time else listed
        self._monitors = {pid: each for pid, each in self._monitors.items() if pid in kept}
        self._serving = {pid: served for pid, served in self._serving.items() if pid in kept}
        self._others = {pid: other for pid, other in self._others.items() if pid in kept}
        blocked, self._unread = self._unread & self._monitors.keys(), set()
        for pid in blocked:
            del self._monitors[pid]
        for pid in listed - self._monitors.keys() - self._serving.keys():
            seen = self._others.get(pid)
            # The older it is, the less often.
            if seen and now - seen.looked_at < min(seen.looked_at - seen.first_seen, _AGAIN):
                continue
            first_seen = seen.first_seen if seen else now - _AGAIN * self._first
            self._others[pid] = _Other(first_seen, now)
            self._look_at(pid)
        self._first = False
        # QEMU with -daemonize waits for the one it has become; libvirt starts it so.
        waiting = {each.ppid: each.fingerprint for each in self._monitors.values()}
        found = [each for each in self._monitors.values() if waiting.get(each.pid) != each.fingerprint]
        return sorted(found, key=lambda each: (each.start, each.pid))

    def serving(self, monitor: Monitor) -> list[Process]:
        """Return the kernel's threads that work for this guest alone."""
        found = []
        for pid, (served, start) in list(self._serving.items()):
            if served == monitor.pid:
                process = parse_process(self._files.line(f"proc/{pid}/stat") or b"")
                if process and process.start == start:
                    found.append(process)
                else:
                    del self._serving[pid]
        return found

    def serving_names(self) -> list[str]:
        """Return the numbers of all these threads of the kernel's."""
        return list(self._serving)

    def forget(self, monitor: Monitor) -> None:
        """Look at this process again at the next look: its number is another one's now, or it runs something else."""
        self._monitors.pop(str(monitor.pid), None)

    def _look_at(self, pid: str) -> None:
        process = parse_process(self._files.line(f"proc/{pid}/stat") or b"")
        if process is None or process.state in {"Z", "X"}:
            return
        if process.kernel_thread:
            served = _SERVES.fullmatch(process.comm)
            if served:
                self._serving[pid] = (int(served[1]), process.start)
                del self._others[pid]
            return
        exe = self._files.link(f"proc/{pid}/exe")
        name = process.comm.decode("utf-8", "backslashreplace")
        known = command_line.program(exe or name)
        runs_kvm = known != "qemu" and (process.guest > 0 or self._has_virtual_machine(pid, process, known))
        if known != "qemu" and not runs_kvm:
            return
        parsed: CommandLine | None = UNREAD._replace(manager=known)
        content = b""
        try:
            content = self._files.beginning(f"proc/{pid}/cmdline") or b""
            named = exe or (name if known else "")
            parsed = command_line.parse(content, named, runs_kvm=runs_kvm) if content else None
            if parsed and parsed.config:
                config = self._files.beginning(f"proc/{pid}/root{parsed.config}") or b""
                parsed = command_line.parse(content, named, runs_kvm=runs_kvm, config=config)
        except Blocked:
            self._unread.add(pid)
        if parsed:
            self._monitors[pid] = Monitor(int(pid), process.start, process.ppid, hash(content), parsed)
            del self._others[pid]

    def _has_virtual_machine(self, pid: str, process: Process, known: str) -> bool:
        """Whether a process has a virtual machine of KVM's open, or is known to run guests and has a vCPU's thread."""
        folder = f"proc/{pid}/task"
        if known and any(
            kind(thread_name(self._files.line(f"{folder}/{tid}/stat") or b"")).role == "vcpu"
            for tid in self._files.names(folder)[:_MAX_LISTED]
        ):
            return True
        folder = f"proc/{pid}/fd"
        return process.threads != 1 and any(
            self._files.link(f"{folder}/{number}").startswith("anon_inode:kvm-v")
            for number in self._files.names(folder)[:_MAX_LISTED]
        )


def recorded_paths(paths: Iterable[str], guests: Iterable[int], serving: Iterable[str]) -> list[str]:
    """Return which of the files that were read are guests'; those of other processes are nobody's business."""
    theirs = {*map(str, guests), *serving}
    kept = []
    for path in paths:
        root, _, rest = path.partition("/")
        pid = rest.partition("/")[0]
        if rest in {"self/mountinfo", "self/cgroup"}:
            continue
        if root != "proc" or not pid.isdigit() or pid in theirs or rest == "1/net/dev":
            kept.append(path)
    return kept
