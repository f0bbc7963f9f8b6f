"""Virtual servers side by side: cgroups with one benchmark each, started together."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deploy import privileges, programs
from lab import guard
from lab.cgroups import Cgroup, TierLimits, mounted
from lab.factors.scenario import WEIGHT, Case
from lab.processes import LOOPBACK, Process, free_ports
from lab.servers import enclosure

START_SECONDS = 10.0  # for a peer to listen, and for benchmarks to begin and end
_TOGETHER = 'read -r _; exec "$@"'  # a benchmark waits here for all others, so that none runs alone at first

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
    limited = [
        (
            Cgroup(f"factors-{server + 1}", mounted()),
            TierLimits(case.weights[server] if case.weights else WEIGHT, case.cap, place),
        )
        for server, place in enumerate(case.places(cpus))
    ]
    with guard.guarded(folder, limited) as running:

        def check() -> None:
            for process in running:
                if process.popen.poll():
                    process.wait(0)

        for number, ((cgroup, _), command) in enumerate(zip(limited, commands, strict=True), 1):
            privileges.hand_over(state := folder / str(number))
            together = cgroup.joining(["sh", "-c", _TOGETHER, "together", *enclosed(state, command)])
            running.append(Process(f"{command[0]} in virtual server {number}", together, fed=True))
        for process in running:
            process.end_input()
        pass_time(seconds, check)
        return [process.wait(seconds + START_SECONDS) for process in running]


@contextlib.contextmanager
def own_folder(folder: Path) -> Iterator[Path]:
    """A writable folder for a benchmark outside cgroups; a killed lab's guard removes it too."""
    with guard.guarded(folder):
        privileges.hand_over(folder / "state")
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
    with guard.guarded(folder, [(cgroup, TierLimits(min(WEIGHT * number, 10_000), None, cpus))]) as started:
        privileges.hand_over(folder / "state")
        ports = free_ports(number)
        for port in ports:
            command = ["iperf3", "--server", f"--bind={LOOPBACK}", f"--port={port}", "--forceflush"]
            started.append(Process("iperf3 --server", cgroup.joining(enclosed(folder / "state", command))))
        for peer in started:  # without connecting: iperf3 would serve that as its test
            peer.await_log("Server listening on", START_SECONDS)
        yield ports
