"""Which processes are guests: QEMUs, found among all processes of the host, and the kernel's threads that serve them.

A process is looked at when it is new, and again after as long as it has been there by then, as it may run QEMU only
then (exec); the others from time to time, as numbers are used again.

By hand: `pgrep -af 'qemu|kvm'`, `ps --ppid 2 | grep vhost`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from virtscope.kvm import command_line
from virtscope.kvm.command_line import CommandLine
from virtscope.kvm.host_files import Files
from virtscope.kvm.threads import Process, parse_process

# Before Linux 6.4 vhost's threads are the kernel's own and not among QEMU's; KVM's are here and there. Their names have
# the number of the process they work for.
_SERVES = re.compile(rb"(?:vhost-|kvm-pit/|kvm-nx-lpage-recovery-)([0-9]{1,10})")

_AGAIN = 60.0  # seconds until a process that is no guest is looked at again, if it has been there as long


class Qemu(NamedTuple):
    """A process that is a guest."""

    pid: int
    start: int  # ticks since boot: with the number it tells one process from a later one
    ppid: int
    content: bytes  # of its command line
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
        self._qemus: dict[str, Qemu] = {}
        self._serving: dict[str, tuple[int, int]] = {}  # the kernel's threads: whom they serve, and since when
        self._others: dict[str, _Other] = {}
        self._first = True  # of the looks: who is there already is not new

    def find(self, now: float) -> list[Qemu]:
        """Return the guests, the one that was started first first; `now` is a time of any clock, in seconds."""
        listed = {name for name in self._files.names("proc") if name.isdigit()}
        kept = set() if self._every_time else listed
        self._qemus = {pid: qemu for pid, qemu in self._qemus.items() if pid in kept}
        self._serving = {pid: served for pid, served in self._serving.items() if pid in kept}
        self._others = {pid: other for pid, other in self._others.items() if pid in kept}
        for pid in listed - self._qemus.keys() - self._serving.keys():
            seen = self._others.get(pid)
            # The older it is, the less often.
            if seen and now - seen.looked_at < min(seen.looked_at - seen.first_seen, _AGAIN):
                continue
            first_seen = seen.first_seen if seen else now - _AGAIN * self._first
            self._others[pid] = _Other(first_seen, now)
            self._look_at(pid)
        self._first = False
        # QEMU with -daemonize waits for the one it has become; libvirt starts it so.
        waiting = {qemu.ppid: qemu.content for qemu in self._qemus.values()}
        found = [qemu for qemu in self._qemus.values() if waiting.get(qemu.pid) != qemu.content]
        return sorted(found, key=lambda qemu: (qemu.start, qemu.pid))

    def serving(self, qemu: Qemu) -> list[Process]:
        """Return the kernel's threads that work for this guest alone."""
        found = []
        for pid, (served, start) in list(self._serving.items()):
            if served == qemu.pid:
                process = parse_process(self._files.line(f"proc/{pid}/stat") or b"")
                if process and process.start == start:
                    found.append(process)
                else:
                    del self._serving[pid]
        return found

    def serving_names(self) -> list[str]:
        """Return the numbers of all these threads of the kernel's."""
        return list(self._serving)

    def forget(self, qemu: Qemu) -> None:
        """Look at this process again at the next look: its number is another one's now, or it runs something else."""
        self._qemus.pop(str(qemu.pid), None)

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
        content = self._files.content(f"proc/{pid}/cmdline") or b""
        exe = self._files.link(f"proc/{pid}/exe")
        parsed = command_line.parse(content, exe)
        if parsed:
            self._qemus[pid] = Qemu(int(pid), process.start, process.ppid, content, parsed)
            del self._others[pid]


def recorded_paths(paths: Iterable[str], guests: Iterable[int], serving: Iterable[str]) -> list[str]:
    """Return which of the files that were read are guests'; those of other processes are nobody's business."""
    theirs = {*map(str, guests), *serving}
    kept = []
    for path in paths:
        root, _, rest = path.partition("/")
        pid = rest.partition("/")[0]
        if root != "proc" or not pid.isdigit() or pid in theirs or rest == "1/net/dev":
            kept.append(path)
    return kept
