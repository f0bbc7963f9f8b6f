"""A batch job beside the sites, which takes as much of their CPU as it gets: the cgroup /virtscope/batch."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from lab import LabError
from lab.cgroups import Cgroup, TierLimits, mounted
from lab.servers import guard

NAME = "batch"
# The maximum: whose weight is less has as much less of the CPU.
WEIGHT = 10_000
COMMAND = ("sha256sum", "/dev/zero")  # computes without end


class BatchJob:
    """It ends with the process that started it, however that ends. Needs root."""

    def __init__(self, folder: Path) -> None:
        """`folder` is there as long as it runs; a killed lab's guard removes it, with the cgroup."""
        self._folder = folder
        self._cgroup = Cgroup(NAME, mounted())
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self, cpus: str) -> None:
        """Start it on these CPUs (such as "1"), unless it runs; raises `CgroupError`, leaving nothing behind."""
        if self._process is not None:
            return
        self._cgroup.make(TierLimits(WEIGHT, None, cpus))
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._guard = guard.start(self._folder, [self._cgroup])
            self._process = subprocess.Popen(
                self._cgroup.joining(COMMAND),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the lab, which then stops it
            )
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it, and remove its cgroup; does nothing if it doesn't run."""
        if self._cgroup.is_ours:
            self._cgroup.remove()
        if self._process is not None:
            self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            self._guard = None

    def check(self) -> None:
        """Raise `LabError` if it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise LabError(f"the batch job has ended with status {self._process.returncode}: {' '.join(COMMAND)}")
