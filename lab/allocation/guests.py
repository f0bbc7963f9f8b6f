"""Guests of another host whose caps are switched, by commands on the host and a load in each guest, over ssh."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Self

from lab import LabError, wait_until
from lab.allocation import platforms
from lab.allocation.platforms import SCHEDULERS, CpuTimes, Platform
from lab.allocation.results import Sample
from lab.allocation.scenario import Elsewhere, Guest
from lab.processes import Process, over_ssh
from lab.shell import Shell

START_SECONDS = 60.0  # until each load has finished a task
# The computational load with awk only: about 20 ms of CPU per printed line. It ends when nobody reads its output any
# more.
LOAD = "awk 'BEGIN { for (;;) { for (i = 0; i < 200000; i++) x += i * i; print; fflush() } }'"


class Guests:
    """Like `Containers`. The host itself restores the caps when the connection ends for any reason."""

    def __init__(self, elsewhere: Elsewhere, log: Path) -> None:
        """Nothing is connected yet; `log` gets the loads' error output."""
        self._elsewhere = elsewhere
        self._log = log
        self._shell = Shell(elsewhere.host)
        self._platform: Platform
        self._loads: list[_Load] = []
        self._ending = contextlib.ExitStack()
        self._before: CpuTimes | None = None
        self._machine = 0.0

    def __enter__(self) -> Self:
        """Connect, and start the loads; raises `LabError`, leaving nothing behind."""
        with contextlib.ExitStack() as ending:
            shell = ending.enter_context(self._shell)
            names = [guest.name for guest in self._elsewhere.guests]
            xl_info = shell.run("xl info") if self._elsewhere.platform == "xen" else None
            self._platform = platforms.of(self._elsewhere.platform, names, xl_info)
            shell.undo(self._platform.undo(shell.run(self._platform.look)))
            self._platform.times(shell.run(self._platform.sample))  # raises if the output isn't understood
            for guest in self._elsewhere.guests:
                if guest.ssh:
                    self._loads.append(load := _Load(guest.name, guest.ssh, self._log))
                    ending.callback(load.stop)
            if not wait_until(self._all_work, START_SECONDS):
                raise LabError(f"a load has not finished a task within {START_SECONDS:g} s; see {self._log}")
            self._ending = ending.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def cap(self, container: int, cpus: float) -> None:
        """Set one guest's cap and nothing else; guests count from 0. Raises `LabError`."""
        self._shell.run(self._platform.cap(self._elsewhere.guests[container].name, cpus))

    def sample(self) -> Sample:
        """Totals now, by the host's clock; the host's other guests count as outside the containers.

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
        return Sample(times.clock, self._machine, times.guests, sum(load.tasks for load in self._loads))

    def check(self) -> None:
        for load in self._loads:
            load.check()

    def _all_work(self) -> bool:
        self.check()
        return all(load.tasks for load in self._loads)


def commands(elsewhere: Elsewhere, caps: list[float]) -> list[str]:
    """Commands and where they run, as lines to read; `caps` are all caps of a scenario."""
    names = [guest.name for guest in elsewhere.guests]
    of = platforms.of(elsewhere.platform, names)
    scheduler = [f"xl info  (its scheduler: {SCHEDULERS[0]}, as below, or {SCHEDULERS[1]})"]
    asked = [*(scheduler if elsewhere.platform == "xen" else []), of.look]
    return [
        f"On {elsewhere.host}, over ssh:",
        *(f"  {command}" for command in asked),
        f"  {of.sample}  (each second)",
        *(f"  {of.cap(name, cpus)}" for name in names for cpus in caps),
        "  and at the end, however it ends, the caps as they were",
        *(_in_guest(guest) for guest in elsewhere.guests),
    ]


def _in_guest(guest: Guest) -> str:
    if guest.ssh is None:
        return f"In {guest.name}: nothing, so its own load must keep it busy"
    return f"In {guest.name}, over ssh to {guest.ssh}:\n  {LOAD}"


class _Load(Process):
    """A load in a guest, which prints a line for each finished task."""

    def __init__(self, guest: str, destination: str, log: Path) -> None:
        super().__init__(f"the load in {guest}", over_ssh(destination, LOAD), log, talks=True)
        self._tasks = 0
        assert self.popen.stdout is not None
        os.set_blocking(self.popen.stdout.fileno(), False)

    @property
    def tasks(self) -> int:
        assert self.popen.stdout is not None
        with contextlib.suppress(BlockingIOError):  # no more yet
            while more := os.read(self.popen.stdout.fileno(), 65_536):
                self._tasks += more.count(b"\n")
        return self._tasks
