"""Finds the host's processes that are guests, and the kernel threads that serve them.

Guests are identified by the kernel's information: the executable or, without the rights to read that, the process's
name. For programs other than QEMU, guest time, open files or thread names count, too. The command line, which can be
forged, gives only the guest's name.

New processes are checked at once, and again after their age has doubled, because they may exec() a guest later. Old
ones are checked sometimes, because pids are reused.

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

# Before Linux 6.4, vhost threads are kernel threads instead of QEMU's; KVM has both. Their names contain the pid of
# their process.
_SERVES = re.compile(rb"(?:vhost-|kvm-pit/|kvm-nx-lpage-recovery-)([0-9]{1,10})")

_AGAIN = 60.0  # seconds until a process that is no guest is checked again, if it is that old
_MAX_LISTED = 256  # open files and threads to check: a monitor opens KVM's first


class Monitor(NamedTuple):
    """A guest's process, a virtual machine monitor."""

    pid: int
    start: int  # ticks since boot; pid and start identify a process
    ppid: int
    fingerprint: int  # of its command line
    command_line: CommandLine


class _Other(NamedTuple):
    first_seen: float
    looked_at: float


class Processes:
    """Finds the guests at each scrape; remembers known processes."""

    def __init__(self, files: Files, *, every_time: bool = False) -> None:
        """`every_time`: check all processes at each scrape, as a recording may jump in time."""
        self._files = files
        self._every_time = every_time
        self._monitors: dict[str, Monitor] = {}
        self._unread: set[str] = set()  # with a blocking command line
        self._serving: dict[str, tuple[int, int]] = {}  # kernel threads: the pid they serve, and their start
        self._others: dict[str, _Other] = {}
        self._first = True  # of the scrapes: existing processes aren't new

    def find(self, now: float) -> list[Monitor]:
        """Return the guests, oldest first; `now` is in seconds, of any clock."""
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
            # Older processes are checked less often.
            if seen and now - seen.looked_at < min(seen.looked_at - seen.first_seen, _AGAIN):
                continue
            first_seen = seen.first_seen if seen else now - _AGAIN * self._first
            self._others[pid] = _Other(first_seen, now)
            self._look_at(pid)
        self._first = False
        # Skip the parent that QEMU -daemonize, used by libvirt, leaves for a moment.
        waiting = {each.ppid: each.fingerprint for each in self._monitors.values()}
        found = [each for each in self._monitors.values() if waiting.get(each.pid) != each.fingerprint]
        return sorted(found, key=lambda each: (each.start, each.pid))

    def serving(self, monitor: Monitor) -> list[Process]:
        """Return the kernel threads that serve only this guest."""
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
        """Return the pids of all such kernel threads."""
        return list(self._serving)

    def forget(self, monitor: Monitor) -> None:
        """Check this process again at the next scrape: its pid was reused, or it has called exec()."""
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
        """Whether a process has a KVM virtual machine open, or is a known monitor with a vCPU thread."""
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
    """Return the guests' files among those read; other processes' files stay private."""
    theirs = {*map(str, guests), *serving}

    def is_kept(path: str) -> bool:
        root, pid, *_ = [*path.split("/"), ""]
        return root != "proc" or not pid.isdigit() or pid in theirs or path == "proc/1/net/dev"

    return [path for path in paths if path not in {"proc/self/mountinfo", "proc/self/cgroup"} and is_kept(path)]
