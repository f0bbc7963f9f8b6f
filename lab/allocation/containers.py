"""The containers whose caps are switched: cgroups with one computational load each."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from lab import LabError
from lab.allocation.load import Count
from lab.cgroups import Cgroup, TierLimits, mounted
from lab.servers import guard
from tools.programs import CHECKOUT

WEIGHT = 10_000  # the maximum: nothing else on the machine gets in their way
START_SECONDS = 30.0  # until each has finished a task, with the least of caps and on a busy machine


class Containers:
    """A number of running containers with equal caps at first. They end with the process that created them."""

    def __init__(self, number: int, cpus: str | None, folder: Path, log: Path) -> None:
        """Nothing runs yet.

        cpus: those that they may run on, as a list for cpuset; all if None.
        folder: of their own, and there as long as they are; a killed lab's guard removes it with them.
        log: gets what the loads have to complain about.
        """
        self._folder = folder
        self._log = log
        self._limits = TierLimits(WEIGHT, 1 / number, cpus)
        self._cgroups = [Cgroup(f"allocation-{each + 1}", mounted()) for each in range(number)]
        self._counts: list[Count] = []
        self._loads: list[subprocess.Popen[bytes]] = []
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start them, and return once each has finished a task; raises `LabError`, leaving nothing behind."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for cgroup in self._cgroups:
                cgroup.make(self._limits)
            self._guard = guard.start(self._folder, self._cgroups)
            with self._log.open("ab") as log:
                for cgroup in self._cgroups:
                    self._counts.append(count := Count())
                    self._loads.append(_load(cgroup, count, log.fileno()))
            deadline = time.monotonic() + START_SECONDS
            while not all(count.read() for count in self._counts):
                self.check()
                if time.monotonic() > deadline:
                    raise LabError(f"a container has not finished a task within {START_SECONDS:g} s; see {self._log}")
                time.sleep(0.05)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for cgroup in self._cgroups:
            if cgroup.is_ours:
                cgroup.remove()
        for load in self._loads:
            load.wait()
        for count in self._counts:
            count.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()

    def cap(self, container: int, cpus: float) -> None:
        """Change the cap of one, from 0, and nothing else; raises `CgroupError`."""
        self._cgroups[container].cap(cpus)

    def cpu_seconds(self) -> list[float]:
        """CPU time that each has used so far."""
        return [cgroup.cpu_seconds() for cgroup in self._cgroups]

    def tasks(self) -> int:
        """Tasks that all together have finished so far."""
        return sum(count.read() for count in self._counts)

    def check(self) -> None:
        """Raise `LabError` if a load has ended."""
        for cgroup, load in zip(self._cgroups, self._loads, strict=True):
            if load.poll() is not None:
                raise LabError(f"the load in {cgroup.path} has ended with status {load.returncode}; see {self._log}")


def _load(cgroup: Cgroup, count: Count, log: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        cgroup.joining([sys.executable, "-m", "lab.allocation.load", str(count.descriptor)]),
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=[count.descriptor],
        start_new_session=True,  # Ctrl-C is for the lab, which then stops them
    )
