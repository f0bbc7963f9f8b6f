"""Guests of another host whose caps are switched, by commands on the host and a load in each guest, over ssh."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from pathlib import Path
from typing import Self

from lab import LabError, ssh
from lab.allocation import platforms
from lab.allocation.platforms import SCHEDULERS, CpuTimes, Platform
from lab.allocation.results import Sample
from lab.allocation.scenario import Elsewhere, Guest
from lab.shell import Shell

START_SECONDS = 60.0  # until each load has finished a task
# The computational load where nothing but awk can be counted on: about 20 ms of CPU, and a line when it is done. It
# ends when nobody reads its lines any more.
LOAD = "awk 'BEGIN { for (;;) { for (i = 0; i < 200000; i++) x += i * i; print; fflush() } }'"


class Guests:
    """As `Containers`. The host itself takes the caps back when the connection ends, whatever ends it."""

    def __init__(self, elsewhere: Elsewhere, log: Path) -> None:
        """Nothing is connected yet; `log` gets what the loads have to complain about."""
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
            xl_info = shell.run("xl info") if self._elsewhere.platform == "xen" else ""
            self._platform = platforms.of(self._elsewhere.platform, names, xl_info)
            shell.undo(self._platform.undo(shell.run(self._platform.look)))
            self._platform.times(shell.run(self._platform.sample))  # raises if it isn't understood
            with self._log.open("ab") as log:
                for guest in self._elsewhere.guests:
                    if guest.ssh:
                        self._loads.append(load := _Load(guest.name, guest.ssh, log.fileno()))
                        ending.callback(load.stop)
            deadline = time.monotonic() + START_SECONDS
            while not all(load.tasks for load in self._loads):
                self.check()
                if time.monotonic() > deadline:
                    raise LabError(f"a load has not finished a task within {START_SECONDS:g} s; see {self._log}")
                time.sleep(0.05)
            self._ending = ending.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def cap(self, container: int, cpus: float) -> None:
        """Change the cap of one, from 0, and nothing else; raises `LabError`."""
        self._shell.run(self._platform.cap(self._elsewhere.guests[container].name, cpus))

    def sample(self) -> Sample:
        """Totals now, by the host's clock; its host's other guests are outside of the containers.

        Raises `LabError` if a guest has restarted.
        """
        times = self._platform.times(self._shell.run(self._platform.sample))
        before, self._before = self._before or times, times
        for guest, was, now in zip(self._elsewhere.guests, before.guests, times.guests, strict=True):
            if now < was:
                raise LabError(f"{guest.name} has restarted while it was measured: its CPU time is {now:g} s now")
        # What came has a history elsewhere, what went takes its own along.
        both = before.machine.keys() & times.machine.keys()
        self._machine += sum(times.machine[part] - before.machine[part] for part in both)
        return Sample(times.clock, self._machine, times.guests, sum(load.tasks for load in self._loads))

    def check(self) -> None:
        """Raise `LabError` if a load has ended."""
        for load in self._loads:
            if load.has_ended:
                raise LabError(f"the load in {load.guest} has ended; see {self._log}")


def commands(elsewhere: Elsewhere, caps: list[float]) -> list[str]:
    """What runs where, as lines to read; `caps` are all those that a scenario has."""
    names = [guest.name for guest in elsewhere.guests]
    of: Platform = platforms.Xen(names) if elsewhere.platform == "xen" else platforms.of(elsewhere.platform, names)
    asked = [of.look]
    if elsewhere.platform == "xen":
        asked = [f"xl info  (its scheduler: {SCHEDULERS[0]}, as below, or {SCHEDULERS[1]})", *asked]
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


class _Load:
    """A load in a guest, and how many tasks it has finished."""

    def __init__(self, guest: str, destination: str, log: int) -> None:
        self.guest = guest
        self.tasks = 0
        self._process = subprocess.Popen(
            ssh.command(destination, LOAD),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._count, daemon=True)
        self._reader.start()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _count(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for _ in lines:
                self.tasks += 1
