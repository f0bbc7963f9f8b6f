"""The batch job next to the sites: it computes on the web tiers' CPU, or is a backup of the databases' disk."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from lab import guard
from lab.cgroups import Cgroup, TierLimits, mounted
from lab.processes import Process
from lab.scenario import RUNNING, THROTTLED

COMPUTING, BACKUP = "batch", "backup"  # cgroups
WEIGHT = 1_000  # of the CPU, as that of the sites
READERS = 16  # each with one request at a time
COMPUTES = "sha256sum /dev/zero"
READS = "dd iflag=direct bs=64k"
THROTTLED_SHARE = 0.1  # of the disk's time


@dataclass(frozen=True)
class Disk:
    device: Path
    request_seconds: float


class Batch:
    """A cgroup with a job that never ends by itself. Its methods raise `LabError`."""

    def __init__(self, folder: Path, disk: Disk | None) -> None:
        """`folder` is its own; with a disk it is a backup of that. Nothing runs yet."""
        self._folder, self._disk = folder, disk
        self._cgroup = Cgroup(BACKUP if disk else COMPUTING, mounted())
        self._processes: list[Process] = []
        self._throttled = False
        self._ending = contextlib.ExitStack()

    def set_up(self, state: str, cpus: str) -> None:
        """Start, throttle or stop it; `cpus` are those on which it runs."""
        if state not in (RUNNING, THROTTLED):
            self.stop()
            return
        if not self._processes:
            guarded = guard.guarded(self._folder, [(self._cgroup, TierLimits(WEIGHT, None, cpus))])
            self._processes = self._ending.enter_context(guarded)
            for command in self._commands():
                self._processes.append(Process("the batch job", self._cgroup.joining(command)))
        if self._disk and state == THROTTLED:
            reads = max(1, round(THROTTLED_SHARE / self._disk.request_seconds))
            self._cgroup.throttle(self._disk.device, reads)
            self._throttled = True
        else:
            self._release()

    def check(self) -> None:
        for process in self._processes:
            process.check()

    def stop(self) -> None:
        self._release()  # a process whose request is throttled can't be killed
        self._ending.close()
        self._processes = []

    def _release(self) -> None:
        if self._disk and self._throttled:
            self._cgroup.throttle(self._disk.device, None)
            self._throttled = False

    def _commands(self) -> list[list[str]]:
        if not self._disk:
            return [COMPUTES.split()]
        again = f'while {READS} if="$1" of=/dev/null status=none; do :; done'
        return [["sh", "-c", again, "backup", str(self._disk.device)]] * READERS
