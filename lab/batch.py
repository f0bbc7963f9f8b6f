"""A batch job beside the sites, which takes as much of their CPU as it gets: the cgroup /virtscope/batch."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from lab import LabError, guard
from lab.cgroups import Cgroup, TierLimits, mounted

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
        self._ending = contextlib.ExitStack()

    def start(self, cpus: str) -> None:
        """Start it on these CPUs (such as "1"), unless it runs; raises `CgroupError`, leaving nothing behind."""
        if self._process is not None:
            return
        with contextlib.ExitStack() as ending:
            ending.callback(self._wait)
            ending.enter_context(guard.guarded(self._folder, [(self._cgroup, TierLimits(WEIGHT, None, cpus))]))
            self._process = subprocess.Popen(
                self._cgroup.joining(COMMAND),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the lab, which then stops it
            )
            self._ending = ending.pop_all()

    def stop(self) -> None:
        """Stop it, and remove its cgroup; does nothing if it doesn't run."""
        self._ending.close()

    def _wait(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None

    def check(self) -> None:
        """Raise `LabError` if it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise LabError(f"the batch job has ended with status {self._process.returncode}: {' '.join(COMMAND)}")
