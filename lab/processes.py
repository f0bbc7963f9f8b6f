"""Programs that the lab runs, on this machine and over the user's own ssh(1), which must not prompt."""

import contextlib
import os
import select
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from deploy.programs import CHECKOUT
from lab import LabError

LOOPBACK = "127.0.0.1"
# Below the kernel's range of ephemeral ports, which the clients' connections use.
PORTS = range(21_000, 31_000)
CONNECT_SECONDS = 15
STOP_SECONDS = 10.0
LINES = 5  # of a program's output, in an error


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
        log: Path | None,
        *,
        environment: Mapping[str, str] | None = None,
        talks: bool = False,
        pass_fds: Sequence[int] = (),
        open_log: Callable[[Path], BinaryIO] = lambda log: log.open("ab"),
    ) -> None:
        """Start it in the checkout.

        name: for errors, such as "Telegraf".
        log: gets its output; of a program that `talks`, only its standard error. Without, both are in a pipe.
        environment: its complete environment; the lab's own if None.
        """
        self.name, self.log = name, log
        with open_log(log) if log else contextlib.nullcontext() as file:
            self.popen = subprocess.Popen(
                list(map(str, command)),
                cwd=CHECKOUT,
                env=environment,
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks or not file else file,
                stderr=file or subprocess.STDOUT,
                pass_fds=pass_fds,
                start_new_session=True,
            )

    def check(self) -> None:
        if (status := self.popen.poll()) is not None:
            raise self.failure(f"has ended with status {status}")

    def logged(self) -> str:
        return self.log.read_text(errors="replace") if self.log else ""

    def failure(self, what: str) -> LabError:
        end = ""
        # If the log is a link or a pipe, a server has replaced it.
        with contextlib.suppress(OSError), open(self.log or "", errors="replace", opener=_open_no_link) as log:
            end = "".join(f"\n  {line}" for line in log.read().splitlines()[-LINES:])
        return LabError(f"{self.name} {what}{end and '; its log ends:'}{end}")

    def send(self, text: str) -> None:
        """Write to its input; if it has ended, its output has the reason."""
        assert self.popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.popen.stdin.write(text.encode())
            self.popen.stdin.flush()

    def end_input(self) -> None:
        if self.popen.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.popen.stdin.close()

    def read_until(self, text: bytes, seconds: float, said: bytes = b"") -> bytes:
        """Its output, starting with `said`, until this text, the end of output, or the end of the time."""
        assert self.popen.stdout is not None
        deadline = time.monotonic() + seconds
        while text not in said:
            waiting, _, _ = select.select([self.popen.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not (more := os.read(self.popen.stdout.fileno(), 65_536) if waiting else b""):
                break
            said += more
        return said

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        self.popen.terminate()
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        self.end_input()
        if self.popen.stdout is not None:
            self.popen.stdout.close()


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


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
