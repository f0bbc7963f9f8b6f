"""Virtual servers side by side: cgroups with one benchmark each, started together."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deploy import programs
from lab import LabError, guard
from lab.cgroups import Cgroup, TierLimits, mounted
from lab.factors.cases import WEIGHT, Case
from lab.servers import enclosure

START_SECONDS = 10.0  # for a peer to listen, and for benchmarks to begin and end
LINES = 5  # of what a program says before it fails
# A benchmark waits here until all others do, so that none runs alone at first.
_TOGETHER = 'read -r _; exec "$@"'

Waiting = Callable[[float, Callable[[], None]], None]
"""Lets seconds pass, and calls the other all the time, which raises if something has failed; as Course.pass_time."""


@contextlib.contextmanager
def side_by_side(case: Case, cpus: list[int], folder: Path) -> Iterator[Servers]:
    """The virtual servers of a case on these CPUs, while the block lasts; a killed lab's guard removes them.

    folder: of their own, and there as long as they are. Raises `LabError`.
    """
    limits = [
        TierLimits(case.weights[server] if case.weights else WEIGHT, case.cap, place)
        for server, place in enumerate(case.places(cpus))
    ]
    cgroups = [Cgroup(f"factors-{server + 1}", mounted()) for server in range(case.servers)]
    with guard.guarded(folder, list(zip(cgroups, limits, strict=True))):
        yield Servers(cgroups, folder)


class Servers:
    """Running virtual servers; see `side_by_side`."""

    def __init__(self, cgroups: Sequence[Cgroup], folder: Path) -> None:
        self._cgroups = cgroups
        self._folder = folder

    def run(self, commands: Sequence[list[str]], seconds: float, pass_time: Waiting) -> list[str]:
        """Run a command in each, all started together, and return what each has printed.

        seconds: for which they are expected to run; they have as long again to end.
        Raises `LabError` with the end of what one printed if it fails.
        """
        with contextlib.ExitStack() as ending:
            running: list[subprocess.Popen[bytes]] = []
            ending.callback(lambda: [process.wait() for process in running])
            for cgroup in self._cgroups:
                ending.callback(cgroup.kill)
            for number, (cgroup, command) in enumerate(zip(self._cgroups, commands, strict=True), 1):
                running.append(self._start(number, cgroup, command))
            for process in running:
                assert process.stdin is not None  # a pipe
                with contextlib.suppress(BrokenPipeError):  # it has failed, and says so below
                    process.stdin.write(b"\n")
                    process.stdin.close()
            pass_time(seconds, lambda: self._check(running, commands))
            deadline = time.monotonic() + seconds + START_SECONDS
            for process, command in zip(running, commands, strict=True):
                try:
                    process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    raise LabError(f"{command[0]} doesn't end, {seconds + START_SECONDS:g} s after it should") from None
            self._check(running, commands)
            return [self._output(number).read_text(errors="replace") for number in range(1, len(running) + 1)]

    def _check(self, running: Sequence[subprocess.Popen[bytes]], commands: Sequence[list[str]]) -> None:
        """Raise `LabError` if one has failed."""
        for number, (process, command) in enumerate(zip(running, commands, strict=True), 1):
            if process.poll():
                raise LabError(
                    f"{command[0]} in virtual server {number} ended with status {process.returncode}: "
                    f"{_end(self._output(number))}"
                )

    def _start(self, number: int, cgroup: Cgroup, command: list[str]) -> subprocess.Popen[bytes]:
        state = self._folder / str(number)
        if not state.exists():
            enclosure.make_state(state)
        with self._output(number).open("wb") as output:
            return subprocess.Popen(
                cgroup.joining(["sh", "-c", _TOGETHER, "together", *enclosed(state, command)]),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the lab, which then stops them
            )

    def _output(self, number: int) -> Path:
        return self._folder / f"{number}.out"


@contextlib.contextmanager
def own_folder(folder: Path) -> Iterator[Path]:
    """A folder for a benchmark outside of cgroups to write to; a killed lab's guard removes it too."""
    with guard.guarded(folder):
        enclosure.make_state(folder / "state")
        yield folder / "state"


def enclosed(state: Path, command: Sequence[str]) -> list[str]:
    """A benchmark's command, as user nobody who sees the benchmarks' packages and may write to `state` alone."""
    return enclosure.enclosed(state, [f"/usr/bin/{command[0]}", *command[1:]], programs.BENCHMARKS, beside=())


@contextlib.contextmanager
def peers(number: int, cpus: str, folder: Path) -> Iterator[list[int]]:
    """The ports of so many `iperf3 --server` on loopback and on these CPUs, outside of all virtual servers.

    folder: of their own, and there as long as they are. Raises `LabError`.
    """
    cgroup = Cgroup("factors-peers", mounted())
    limits = TierLimits(min(WEIGHT * number, 10_000), None, cpus)
    with guard.guarded(folder, [(cgroup, limits)]), contextlib.ExitStack() as ending:
        enclosure.make_state(folder / "state")
        ports = _free_ports(number)
        started: list[subprocess.Popen[bytes]] = []
        ending.callback(lambda: [process.wait() for process in started])
        ending.callback(cgroup.kill)
        for port in ports:
            command = ["iperf3", "--server", "--bind=127.0.0.1", f"--port={port}", "--forceflush"]
            with (folder / f"{port}.out").open("wb") as output:
                process = subprocess.Popen(
                    cgroup.joining(enclosed(folder / "state", command)),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            started.append(process)
        for port, process in zip(ports, started, strict=True):
            _await_listening(process, folder / f"{port}.out")
        yield ports


def _await_listening(process: subprocess.Popen[bytes], output: Path) -> None:
    """Not by connecting: that would be the test that it serves."""
    deadline = time.monotonic() + START_SECONDS
    while "Server listening on" not in output.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise LabError(f"iperf3 --server does not listen: {_end(output)}")
        time.sleep(0.05)


def _end(output: Path) -> str:
    """The last lines that a program has printed, on one line."""
    return " / ".join(line.strip() for line in output.read_text(errors="replace").splitlines()[-LINES:] if line.strip())


def _free_ports(number: int) -> list[int]:
    """Unused ones on loopback, all different."""
    with contextlib.ExitStack() as open_ones:
        found = []
        for _ in range(number):
            probe = open_ones.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            found.append(int(probe.getsockname()[1]))
        return found
