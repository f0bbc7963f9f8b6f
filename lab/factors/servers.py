"""Virtual servers side by side: cgroups with one benchmark each, started together."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deploy import programs
from lab import guard, wait_until
from lab.cgroups import Cgroup, TierLimits, mounted
from lab.factors.scenario import WEIGHT, Case
from lab.processes import LOOPBACK, Process, free_ports
from lab.servers import enclosure

START_SECONDS = 10.0  # for a peer to listen, and for benchmarks to begin and end
# A benchmark waits here for all others, so that none runs alone at first. Its output goes to one file.
_TOGETHER = 'read -r _; exec "$@" >&2'

Waiting = Callable[[float, Callable[[], None]], None]
"""Waits, and calls the function repeatedly, which raises if something has failed; see Course.pass_time."""


def side_by_side(
    case: Case, cpus: list[int], folder: Path, commands: Sequence[list[str]], *, seconds: float, pass_time: Waiting
) -> list[str]:
    """Run a command in each virtual server of a case on these CPUs, all started together; returns their outputs.

    folder: for these servers only, and removed with them, by a guard if the lab is killed.
    seconds: expected duration; the commands have as long again to end.
    If one fails, raises `LabError` with the end of its output.
    """
    limits = [
        TierLimits(case.weights[server] if case.weights else WEIGHT, case.cap, place)
        for server, place in enumerate(case.places(cpus))
    ]
    cgroups = [Cgroup(f"factors-{server + 1}", mounted()) for server in range(case.servers)]
    with guard.guarded(folder, list(zip(cgroups, limits, strict=True))) as running:

        def check() -> None:
            for process in running:
                if status := process.popen.poll():
                    raise process.failure(f"ended with status {status}")

        for number, (cgroup, command) in enumerate(zip(cgroups, commands, strict=True), 1):
            enclosure.make_state(state := folder / str(number))
            together = cgroup.joining(["sh", "-c", _TOGETHER, "together", *enclosed(state, command)])
            name, log = f"{command[0]} in virtual server {number}", folder / f"{number}.out"
            running.append(Process(name, together, log, talks=True))
        for process in running:
            process.send("\n")
            process.end_input()
        pass_time(seconds, check)
        deadline = time.monotonic() + seconds + START_SECONDS
        for process in running:
            try:
                process.popen.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise process.failure(f"doesn't end, {seconds + START_SECONDS:g} s after it should") from None
        check()
        return [process.logged() for process in running]


@contextlib.contextmanager
def own_folder(folder: Path) -> Iterator[Path]:
    """A writable folder for a benchmark outside cgroups; a killed lab's guard removes it too."""
    with guard.guarded(folder):
        enclosure.make_state(folder / "state")
        yield folder / "state"


def enclosed(state: Path, command: Sequence[str]) -> list[str]:
    """A benchmark's command, as user nobody; it can read the benchmarks' packages, and write only to `state`."""
    return enclosure.enclosed(state, [f"/usr/bin/{command[0]}", *command[1:]], programs.BENCHMARKS, beside=())


@contextlib.contextmanager
def peers(number: int, cpus: str, folder: Path) -> Iterator[list[int]]:
    """The ports of this many `iperf3 --server` on loopback and on these CPUs, outside all virtual servers.

    folder: for these servers only, and removed with them. Raises `LabError`.
    """
    cgroup = Cgroup("factors-peers", mounted())
    limits = TierLimits(min(WEIGHT * number, 10_000), None, cpus)
    with guard.guarded(folder, [(cgroup, limits)]) as started:
        enclosure.make_state(folder / "state")
        ports = free_ports(number)
        for port in ports:
            command = ["iperf3", "--server", f"--bind={LOOPBACK}", f"--port={port}", "--forceflush"]
            there = cgroup.joining(enclosed(folder / "state", command))
            started.append(Process("iperf3 --server", there, folder / f"{port}.out"))
        for peer in started:
            _await_listening(peer)
        yield ports


def _await_listening(peer: Process) -> None:
    """Without connecting: iperf3 would serve that as its test."""

    def listens() -> bool:
        peer.check()
        return "Server listening on" in peer.logged()

    if not wait_until(listens, START_SECONDS):
        raise peer.failure("does not listen")
