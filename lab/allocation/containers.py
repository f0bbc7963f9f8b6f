"""The containers whose caps are switched: cgroups with a computational load each, or a server and clients outside."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from deploy.programs import CHECKOUT
from lab import LabError, guard, machine
from lab.allocation.load import Count
from lab.allocation.results import Sample
from lab.allocation.scenario import TRANSACTIONAL
from lab.cgroups import Cgroup, TierLimits, mounted

WEIGHT = 10_000  # the maximum: nothing else on the machine gets in their way
TRANSACTIONS = "lab.allocation.transactions"
START_SECONDS = 30.0  # until each has finished a task, with the least of caps and on a busy machine


class Containers:
    """A number of running containers with equal caps at first. They end with the process that created them."""

    def __init__(self, number: int, cpus: str | None, load: str, folder: Path, log: Path) -> None:
        """Nothing runs yet.

        cpus: those that they may run on, as a list for cpuset; all if None.
        load: one of `LOADS`; the clients of a transactional one are in a cgroup of their own.
        folder: of their own, and there as long as they are; a killed lab's guard removes it with them.
        log: gets what the loads have to complain about.
        """
        self._folder = folder
        self._log = log
        self._load = load
        self._limits = TierLimits(WEIGHT, 1 / number, cpus)
        self._cgroups = [Cgroup(f"allocation-{each + 1}", mounted()) for each in range(number)]
        self._clients = Cgroup("allocation-clients", mounted()) if load == TRANSACTIONAL else None
        self._counts: list[Count] = []
        self._programs: list[tuple[Cgroup, subprocess.Popen[bytes]]] = []
        self._ending = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Start them, and return once each has finished a task; raises `LabError`, leaving nothing behind."""
        with contextlib.ExitStack() as ending:
            ending.callback(self._wait)
            cgroups = [(cgroup, self._limits) for cgroup in self._cgroups]
            # Clients end first: they would complain about servers that are gone.
            clients = [(self._clients, TierLimits(WEIGHT))] if self._clients else []
            ending.enter_context(guard.guarded(self._folder, [*cgroups, *clients]))
            with self._log.open("ab") as log:
                if self._clients:
                    self._serve_and_visit(self._clients, log.fileno())
                else:
                    self._compute(log.fileno())
            deadline = time.monotonic() + START_SECONDS
            while not all(count.read() for count in self._counts):
                self.check()
                if time.monotonic() > deadline:
                    raise LabError(f"a container has not finished a task within {START_SECONDS:g} s; see {self._log}")
                time.sleep(0.05)
            self._ending = ending.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def cap(self, container: int, cpus: float) -> None:
        """Change the cap of one, from 0, and nothing else; raises `CgroupError`."""
        self._cgroups[container].cap(cpus)

    def sample(self) -> Sample:
        """Totals now. The machine's CPU is without that of the clients: they stand for other machines."""
        used = [cgroup.cpu_seconds() for cgroup in self._cgroups]
        of_all = machine.cpu_seconds() - (self._clients.cpu_seconds() if self._clients else 0.0)
        return Sample(time.monotonic(), of_all, used, sum(count.read() for count in self._counts))

    def check(self) -> None:
        """Raise `LabError` if a load has ended."""
        for cgroup, program in self._programs:
            if program.poll() is not None:
                status = program.returncode
                raise LabError(f"the load in {cgroup.path} has ended with status {status}; see {self._log}")

    def _wait(self) -> None:
        for _cgroup, program in self._programs:
            program.wait()
        for count in self._counts:
            count.close()

    def _compute(self, log: int) -> None:
        for cgroup in self._cgroups:
            self._counts.append(count := Count())
            self._run(cgroup, "lab.allocation.load", [], count.descriptor, log)

    def _serve_and_visit(self, clients: Cgroup, log: int) -> None:
        ports = []
        for cgroup in self._cgroups:
            with socket.create_server(("127.0.0.1", 0)) as listening:
                self._run(cgroup, TRANSACTIONS, ["serve"], listening.fileno(), log)
                ports.append(str(listening.getsockname()[1]))
        self._counts.append(count := Count())
        self._run(clients, TRANSACTIONS, ["visit"], count.descriptor, log, *ports)

    def _run(self, cgroup: Cgroup, module: str, what: list[str], descriptor: int, log: int, *more: str) -> None:
        program = subprocess.Popen(
            cgroup.joining([sys.executable, "-m", module, *what, str(descriptor), *more]),
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[descriptor],
            start_new_session=True,  # Ctrl-C is for the lab, which then stops them
        )
        self._programs.append((cgroup, program))
