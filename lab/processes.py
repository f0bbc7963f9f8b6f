"""Programs that the lab runs, on this machine and over the user's own ssh(1), which must not prompt."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, BinaryIO

from deploy.programs import CHECKOUT
from lab import LabError, guard

LOOPBACK = "127.0.0.1"
# Below the kernel's range of ephemeral ports, which the clients' connections use.
PORTS = range(21_000, 31_000)
CONNECT_SECONDS = 15
STOP_SECONDS = 10.0
LINES = 5  # of a program's output, in an error
_TIMED_OUT = 124  # exit status of timeout(1)
# A program waits here for its guard: if the lab is killed before, only a shell remains, which reads end of input.
_ONCE_GUARDED = 'read -r _ && exec "$@"'


def over_ssh(destination: str, there: str) -> list[str]:
    return ["ssh", "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}", "--", destination, there]


def beside(cpus: str, command: Sequence[str | Path], niceness: int = 0) -> list[str | Path]:
    """A command that runs on these CPUs (such as "0-2"), and is terminated if the lab is killed."""
    where = ("taskset", "--cpu-list", cpus, "nice", "-n", str(niceness))
    return ["setpriv", "--pdeathsig", "TERM", *where, *command]


def and_said(said: str) -> str:
    lines = said.splitlines()[-LINES:]
    return "\n  ".join([" and said:", *lines]) if lines else ""


class ProgramError(LabError):
    """A program that failed, or timed out; the message ends with the last lines of its output.

    how: in words, such as "ended with status 1". said: its whole output.
    """

    def __init__(self, name: str, how: str, said: str) -> None:
        self.how, self.said = how, said
        super().__init__(f"{name} {how}{and_said(said)}")


class Process:
    """A running program in its own session: Ctrl-C is for the lab, which then ends it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        talks: bool = False,
        pass_fds: Sequence[int] = (),
        open_log: Callable[[Path], BinaryIO] = lambda log: log.open("ab"),
    ) -> None:
        """Start it in the checkout.

        name: for errors, such as "Telegraf".
        log: gets its output; of a program that `talks`, only its standard error.
        environment: its complete environment; the lab's own if None.
        """
        self.name, self.log = name, log
        with open_log(log) as file:
            self.popen = subprocess.Popen(
                list(map(str, command)),
                cwd=CHECKOUT,
                env=environment,
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks else file,
                stderr=file,
                pass_fds=pass_fds,
                start_new_session=True,
            )

    def check(self) -> None:
        if (status := self.popen.poll()) is not None:
            raise self.failure(f"has ended with status {status}")

    def failure(self, what: str) -> LabError:
        end = ""
        # If the log is a link or a pipe, a server has replaced it.
        with contextlib.suppress(OSError), open(self.log, errors="replace", opener=_open_no_link) as log:
            end = "".join(f"\n  {line}" for line in log.read().splitlines()[-LINES:])
        return LabError(f"{self.name} {what}{end and '; its log ends:'}{end}")

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        self.popen.terminate()
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


@contextlib.contextmanager
def running(command: Sequence[str], *, holds_input: bool = False) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A program while the block lasts. It and its descendants end with the block, and after kill -9 of the lab.

    holds_input: its standard input is a pipe that ends with the block or the lab, otherwise empty. The block gets the
        pipe's other end as the second value.
    """
    waiting = _ONCE_GUARDED if holds_input else f"{_ONCE_GUARDED} </dev/null"
    process = subprocess.Popen(
        ["sh", "-c", waiting, "waiting", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    held, process.stdin = process.stdin, None  # communicate() would close it
    assert held is not None
    with contextlib.ExitStack() as ending:
        ending.callback(held.close)
        ending.callback(process.wait)
        ending.enter_context(guard.watching(group=process.pid))
        ending.callback(_kill_group, process.pid)
        with contextlib.suppress(BrokenPipeError):  # it has ended
            os.write(held.fileno(), b"\n")
        yield process, held


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def output(name: str, command: Sequence[str], timeout: float, *, holds_input: bool = False) -> str:
    """A program's output; at the end, it and all processes it started have ended. Raises `ProgramError`."""
    with running(command, holds_input=holds_input) as (process, _):
        try:
            said, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            until_then: bytes = error.output or b""  # bytes even if Popen decodes
            raise ProgramError(name, f"wasn't done after {timeout:g} s", until_then.decode(errors="replace")) from None
    if process.returncode == _TIMED_OUT:
        raise ProgramError(name, "wasn't done in time", said)
    if process.returncode:
        raise ProgramError(name, f"ended with status {process.returncode}", said)
    return said


def read_until(text: bytes, pipe: IO[bytes] | IO[str] | None, seconds: float, said: bytes = b"") -> bytes:
    """The output, starting with `said`, until this text, the end of output, or the end of the time."""
    assert pipe is not None
    deadline = time.monotonic() + seconds
    while text not in said:
        waiting, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        if not (more := os.read(pipe.fileno(), 65_536) if waiting else b""):
            break
        said += more
    return said


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as taken:
        found: list[int] = []
        for port in PORTS:
            probe = taken.enter_context(socket.socket())
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((LOOPBACK, port))
                found.append(port)
            if len(found) == count:
                return found
    raise LabError(f"there are no {count} free ports from {PORTS[0]} to {PORTS[-1]}")
