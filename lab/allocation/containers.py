"""The containers with switched caps: cgroups with a load each, or guests of another host, over ssh."""

import contextlib
import os
import socket
import sys
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from lab import LabError, guard, machine, wait_until
from lab.allocation import platforms
from lab.allocation.loads import Count
from lab.allocation.platforms import SCHEDULERS, CpuTimes, Platform
from lab.allocation.results import Sample
from lab.allocation.scenario import TRANSACTIONAL, Elsewhere
from lab.cgroups import Cgroup, TierLimits, mounted
from lab.processes import LOOPBACK, Process, over_ssh
from lab.shell import Shell

WEIGHT = 10_000  # the maximum, so that other load hardly disturbs the containers
START_SECONDS = 60.0  # until each has finished a task, with the smallest caps and on a busy machine
# The computational load with awk only: about 20 ms of CPU per printed line. It ends when nobody reads its output any
# more.
LOAD = "awk 'BEGIN { for (;;) { for (i = 0; i < 200000; i++) x += i * i; print; fflush() } }'"


class Containers:
    """A number of running containers, initially with equal caps."""

    def __init__(self, log: Path) -> None:
        """Nothing runs yet; `log` gets the loads' error output."""
        self._log = log
        self._loads: list[Process] = []

    @contextlib.contextmanager
    def ready(self) -> Iterator[Self]:
        """They run while the block lasts, which begins once each has finished a task. Raises `LabError`."""
        with contextlib.ExitStack() as ending:
            self._start(ending)
            if not wait_until(self._all_work, START_SECONDS):
                raise LabError(f"a load has not finished a task within {START_SECONDS:g} s; see {self._log}")
            yield self

    def check(self) -> None:
        for load in self._loads:
            load.check()

    def _all_work(self) -> bool:
        self.check()
        return all(self._tasks())

    @abstractmethod
    def cap(self, container: int, cpus: float) -> None:
        """Set one container's cap and nothing else; containers count from 0. Raises `LabError`."""

    @abstractmethod
    def sample(self) -> Sample:
        """Totals now; raises `LabError`."""

    @abstractmethod
    def _start(self, ending: contextlib.ExitStack) -> None:
        """Start loads, which end with the stack."""

    @abstractmethod
    def _tasks(self) -> Sequence[int]:
        """The number of finished tasks of each load."""


class Cgroups(Containers):
    """Cgroups of this machine with a computational load each, or a server and clients outside."""

    def __init__(self, number: int, cpus: str | None, load: str, folder: Path, log: Path) -> None:
        """
        cpus: allowed CPUs, as a list for cpuset; None for all.
        load: one of `LOADS`; the clients of a transactional one have their own cgroup.
        folder: for these containers only, and removed with them, by a guard if the lab is killed.
        """
        super().__init__(log)
        self._folder = folder
        self._limits = TierLimits(WEIGHT, 1 / number, cpus)
        self._cgroups = [Cgroup(f"allocation-{each + 1}", mounted()) for each in range(number)]
        self._clients = Cgroup("allocation-clients", mounted()) if load == TRANSACTIONAL else None
        self._counts: list[Count] = []

    def cap(self, container: int, cpus: float) -> None:
        self._cgroups[container].cap(cpus)

    def sample(self) -> Sample:
        """The machine's CPU excludes the clients: they represent other machines."""
        used = [cgroup.cpu_seconds() for cgroup in self._cgroups]
        of_all = machine.cpu_seconds() - (self._clients.cpu_seconds() if self._clients else 0.0)
        return Sample(time.monotonic(), of_all, used, sum(self._tasks()))

    def _start(self, ending: contextlib.ExitStack) -> None:
        cgroups = [(cgroup, self._limits) for cgroup in self._cgroups]
        # Clients end first: they would report missing servers.
        clients = [(self._clients, TierLimits(WEIGHT))] if self._clients else []
        self._loads = ending.enter_context(guard.guarded(self._folder, [*cgroups, *clients]))
        if self._clients:
            ports = []
            for cgroup in self._cgroups:
                with socket.create_server((LOOPBACK, 0)) as listening:
                    self._run(cgroup, "serve", listening.fileno())
                    ports.append(str(listening.getsockname()[1]))
            self._run(self._clients, "visit", self._count(ending), *ports)
        else:
            for cgroup in self._cgroups:
                self._run(cgroup, "compute", self._count(ending))

    def _tasks(self) -> Sequence[int]:
        return [count.read() for count in self._counts]

    def _count(self, ending: contextlib.ExitStack) -> int:
        self._counts.append(count := Count())
        ending.callback(count.close)
        return count.descriptor

    def _run(self, cgroup: Cgroup, what: str, descriptor: int, *ports: str) -> None:
        command = cgroup.joining([sys.executable, "-m", "lab.allocation.loads", what, str(descriptor), *ports])
        self._loads.append(Process(f"the load in {cgroup.path}", command, self._log, pass_fds=[descriptor]))


class Guests(Containers):
    """Guests of another host, which itself restores the caps when the connection ends for any reason."""

    def __init__(self, elsewhere: Elsewhere, log: Path) -> None:
        super().__init__(log)
        self._elsewhere = elsewhere
        self._shell = Shell(elsewhere.host)
        self._platform: Platform
        self._done: dict[Process, int] = {}  # tasks of each load
        self._before: CpuTimes | None = None
        self._machine = 0.0

    def cap(self, container: int, cpus: float) -> None:
        self._shell.run(self._platform.cap(self._elsewhere.guests[container].name, cpus))

    def sample(self) -> Sample:
        """By the host's clock; the host's other guests count as outside the containers.

        Raises `LabError` if a guest has restarted.
        """
        times = self._platform.times(self._shell.run(self._platform.sample))
        before, self._before = self._before or times, times
        for guest, was, now in zip(self._elsewhere.guests, before.guests, times.guests, strict=True):
            if now < was:
                raise LabError(f"{guest.name} has restarted while it was measured: its CPU time is {now:g} s now")
        # A domain that came has earlier CPU time, and one that left takes its CPU time along.
        both = before.machine.keys() & times.machine.keys()
        self._machine += sum(times.machine[part] - before.machine[part] for part in both)
        return Sample(times.clock, self._machine, times.guests, sum(self._tasks()))

    def _start(self, ending: contextlib.ExitStack) -> None:
        shell = ending.enter_context(self._shell)
        names = [guest.name for guest in self._elsewhere.guests]
        xl_info = shell.run("xl info") if self._elsewhere.platform == "xen" else None
        self._platform = platforms.of(self._elsewhere.platform, names, xl_info)
        shell.undo(self._platform.undo(shell.run(self._platform.look)))
        self._platform.times(shell.run(self._platform.sample))  # raises if the output isn't understood
        for guest in self._elsewhere.guests:
            if guest.ssh:
                load = Process(f"the load in {guest.name}", over_ssh(guest.ssh, LOAD), self._log, talks=True)
                ending.callback(load.stop)
                assert load.popen.stdout is not None
                os.set_blocking(load.popen.stdout.fileno(), False)
                self._loads.append(load)

    def _tasks(self) -> Sequence[int]:
        for load in self._loads:
            assert load.popen.stdout is not None
            with contextlib.suppress(BlockingIOError):  # no more yet
                while more := os.read(load.popen.stdout.fileno(), 65_536):
                    self._done[load] = self._done.get(load, 0) + more.count(b"\n")
        return [self._done.get(load, 0) for load in self._loads]


def commands(elsewhere: Elsewhere, caps: list[float]) -> list[str]:
    """Commands and where they run, as lines to read; `caps` are all caps of a scenario."""
    names = [guest.name for guest in elsewhere.guests]
    of = platforms.of(elsewhere.platform, names)
    scheduler = [f"xl info  (its scheduler: {SCHEDULERS[0]}, as below, or {SCHEDULERS[1]})"]
    asked = [*(scheduler if elsewhere.platform == "xen" else []), of.look, f"{of.sample}  (each second)"]
    asked += [of.cap(name, cpus) for name in names for cpus in caps]
    loads = [f"In {each.name}, over ssh to {each.ssh}:\n  {LOAD}" for each in elsewhere.guests if each.ssh]
    idle = [f"In {each.name}: nothing, so its own load must keep it busy" for each in elsewhere.guests if not each.ssh]
    restored = "  and at the end, however it ends, the caps as they were"
    return [f"On {elsewhere.host}, over ssh:", *(f"  {command}" for command in asked), restored, *loads, *idle]
