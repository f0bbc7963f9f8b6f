"""The containers with switched caps: cgroups with a load each, or guests of another host, over ssh."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lab import LabError, guard, machine, wait_until
from lab.allocation import platforms
from lab.allocation.platforms import SCHEDULERS, CpuTimes
from lab.allocation.results import Sample
from lab.allocation.scenario import TRANSACTIONAL, Elsewhere
from lab.cgroups import Cgroup, TierLimits, mounted
from lab.processes import Process, over_ssh
from lab.shell import Shell

WEIGHT = 1_000  # other load hardly disturbs the containers
START_SECONDS = 60.0  # until each has finished a task, with the smallest caps and on a busy machine
# The computational load with awk only: about 20 ms of CPU per printed line. It ends when nobody reads its output any
# more.
LOAD = "awk 'BEGIN { for (;;) { for (i = 0; i < 200000; i++) x += i * i; print; fflush() } }'"


class Containers:
    """A number of running containers, initially with equal caps."""

    def __init__(
        self,
        names: Sequence[str],
        cap: Callable[[int, float], object],
        times: Callable[[], CpuTimes],
        loads: Sequence[Process],
    ) -> None:
        """Return once each load has finished a task, for each of which it prints a line; raises `LabError`.

        cap: sets one container's cap, counting from 0, and nothing else.
        """
        self.cap = cap
        self._names = names
        self._times = times
        self._done = dict.fromkeys(loads, 0)
        self._before: CpuTimes | None = None
        self._machine = 0.0
        if not wait_until(self._all_work, START_SECONDS):
            raise LabError(f"a load has not finished a task within {START_SECONDS:g} s")

    def check(self) -> None:
        """Raises `LabError` if a load has ended. Loads wait if nobody calls this for half a minute."""
        for load in self._done:
            load.check()
            self._done[load] += load.read_until(b"\0", 0).count(b"\n")  # all that it has printed

    def sample(self) -> Sample:
        """Totals now; raises `LabError`, also if a guest has restarted."""
        self.check()
        times = self._times()
        before, self._before = self._before or times, times
        for guest, was, now in zip(self._names, before.guests, times.guests, strict=True):
            if now < was:
                raise LabError(f"{guest} has restarted while it was measured: its CPU time is {now:g} s now")
        # A domain that came has earlier CPU time, and one that left takes its CPU time along.
        both = before.machine.keys() & times.machine.keys()
        self._machine += sum(times.machine[part] - before.machine[part] for part in both)
        return Sample(times.clock, self._machine, times.guests, sum(self._done.values()))

    def _all_work(self) -> bool:
        self.check()
        return all(self._done.values())


@contextlib.contextmanager
def cgroups(number: int, cpus: str | None, load: str, folder: Path) -> Iterator[Containers]:
    """Cgroups of this machine with a computational load each, or a server and clients outside. Raises `LabError`.

    cpus: allowed CPUs, as a list for cpuset; None for all.
    load: one of `LOADS`; the clients of a transactional one have their own cgroup, and are not part of the machine.
    folder: for these containers only, and removed with them, by a guard if the lab is killed.
    """
    containers = [Cgroup(f"allocation-{each + 1}", mounted()) for each in range(number)]
    clients = [Cgroup("allocation-clients", mounted())] if load == TRANSACTIONAL else []
    limited = [(cgroup, TierLimits(WEIGHT, 1 / number, cpus)) for cgroup in containers]
    limited += [(cgroup, TierLimits(WEIGHT)) for cgroup in clients]  # end first: they would report missing servers
    with guard.guarded(folder, limited) as running:

        def run(cgroup: Cgroup, *what: str) -> Process:
            command = cgroup.joining([sys.executable, "-m", "lab.allocation.loads", *what])
            running.append(Process(f"the load in {cgroup.path}", command, talks=True))
            return running[-1]

        def times() -> CpuTimes:
            used = tuple(cgroup.cpu_seconds() for cgroup in containers)
            others = sum(cgroup.cpu_seconds() for cgroup in clients)
            return CpuTimes(time.monotonic(), {"": machine.cpu_seconds() - others}, used)

        if clients:
            servers = [run(cgroup, "serve") for cgroup in containers]
            ports = [server.read_until(b"\n", START_SECONDS).decode().strip() for server in servers]
            loads = [run(cgroup, "visit", *ports) for cgroup in clients]
        else:
            loads = [run(cgroup, "compute") for cgroup in containers]
        names = [cgroup.path for cgroup in containers]
        yield Containers(names, lambda container, cpus: containers[container].cap(cpus), times, loads)


@contextlib.contextmanager
def guests(elsewhere: Elsewhere) -> Iterator[Containers]:
    """Guests of another host, which itself restores the caps when the connection ends for any reason.

    Times are by the host's clock; its other guests count as outside the containers. Raises `LabError`.
    """
    names = [guest.name for guest in elsewhere.guests]
    with contextlib.ExitStack() as ending:
        shell = ending.enter_context(Shell(elsewhere.host))
        xl_info = shell.run("xl info") if elsewhere.platform == "xen" else None
        platform = platforms.of(elsewhere.platform, names, xl_info)
        shell.undo(platform.undo(shell.run(platform.look)))
        loads = []
        for guest in elsewhere.guests:
            if guest.ssh:
                loads.append(Process(f"the load in {guest.name}", over_ssh(guest.ssh, LOAD), talks=True))
                ending.callback(loads[-1].stop)
        yield Containers(
            names,
            lambda container, cpus: shell.run(platform.cap(names[container], cpus)),
            lambda: platform.times(shell.run(platform.sample)),
            loads,
        )


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
