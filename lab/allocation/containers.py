"""The containers with switched caps: cgroups with a computational load each, or a server and clients outside."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from pathlib import Path
from typing import Self

from lab import LabError, guard, machine, wait_until
from lab.allocation.loads import Count
from lab.allocation.results import Sample
from lab.allocation.scenario import TRANSACTIONAL
from lab.cgroups import Cgroup, TierLimits, mounted
from lab.processes import LOOPBACK, Process

WEIGHT = 10_000  # the maximum, so that other load hardly disturbs the containers
START_SECONDS = 30.0  # until each has finished a task, with the smallest caps and on a busy machine


class Containers:
    """A number of running containers, initially with equal caps. They end with the process that created them."""

    def __init__(self, number: int, cpus: str | None, load: str, folder: Path, log: Path) -> None:
        """Nothing runs yet.

        cpus: allowed CPUs, as a list for cpuset; None for all.
        load: one of `LOADS`; the clients of a transactional one have their own cgroup.
        folder: for these containers only, and removed with them, by a guard if the lab is killed.
        log: the loads' error output.
        """
        self._folder, self._log = folder, log
        self._limits = TierLimits(WEIGHT, 1 / number, cpus)
        self._cgroups = [Cgroup(f"allocation-{each + 1}", mounted()) for each in range(number)]
        self._clients = Cgroup("allocation-clients", mounted()) if load == TRANSACTIONAL else None
        self._counts: list[Count] = []
        self._programs: list[Process] = []
        self._ending = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Start them, and return once each has finished a task; raises `LabError`, leaving nothing behind."""
        with contextlib.ExitStack() as ending:
            ending.callback(self._wait)
            cgroups = [(cgroup, self._limits) for cgroup in self._cgroups]
            # Clients end first: they would report missing servers.
            clients = [(self._clients, TierLimits(WEIGHT))] if self._clients else []
            ending.enter_context(guard.guarded(self._folder, [*cgroups, *clients]))
            if self._clients:
                ports = []
                for cgroup in self._cgroups:
                    with socket.create_server((LOOPBACK, 0)) as listening:
                        self._run(cgroup, "serve", listening.fileno())
                        ports.append(str(listening.getsockname()[1]))
                self._run(self._clients, "visit", self._count(), *ports)
            else:
                for cgroup in self._cgroups:
                    self._run(cgroup, "compute", self._count())
            if not wait_until(self._all_work, START_SECONDS):
                raise LabError(f"a container has not finished a task within {START_SECONDS:g} s; see {self._log}")
            self._ending = ending.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def cap(self, container: int, cpus: float) -> None:
        """Set one container's cap and nothing else; containers count from 0. Raises `CgroupError`."""
        self._cgroups[container].cap(cpus)

    def sample(self) -> Sample:
        """Totals now. The machine's CPU excludes the clients: they represent other machines."""
        used = [cgroup.cpu_seconds() for cgroup in self._cgroups]
        of_all = machine.cpu_seconds() - (self._clients.cpu_seconds() if self._clients else 0.0)
        return Sample(time.monotonic(), of_all, used, sum(count.read() for count in self._counts))

    def check(self) -> None:
        for program in self._programs:
            program.check()

    def _all_work(self) -> bool:
        self.check()
        return all(count.read() for count in self._counts)

    def _count(self) -> int:
        self._counts.append(count := Count())
        return count.descriptor

    def _wait(self) -> None:
        for program in self._programs:
            program.popen.wait()
        for count in self._counts:
            count.close()

    def _run(self, cgroup: Cgroup, what: str, descriptor: int, *ports: str) -> None:
        command = cgroup.joining([sys.executable, "-m", "lab.allocation.loads", what, str(descriptor), *ports])
        self._programs.append(Process(f"the load in {cgroup.path}", command, self._log, pass_fds=[descriptor]))
