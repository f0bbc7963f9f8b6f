"""Programs that the lab runs, on this machine and over the user's own ssh(1), which must not prompt."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Self

from deploy.programs import CHECKOUT
from lab import LabError, wait_until

LOOPBACK = "127.0.0.1"
# Below the kernel's range of ephemeral ports, which the clients' connections use.
PORTS = range(21_000, 31_000)
CONNECT_SECONDS = 15
STOP_SECONDS = 10.0
LINES = 5  # of a program's output, in an error
_TIMED_OUT = 124  # exit status of timeout(1)


def over_ssh(destination: str, there: str) -> list[str]:
    return ["ssh", "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}", "--", destination, there]


def beside(cpus: str, command: Sequence[str | Path]) -> list[str | Path]:
    """A command that runs on these CPUs (such as "0-2"), and is terminated if the lab is killed."""
    return ["setpriv", "--pdeathsig", "TERM", "taskset", "--cpu-list", cpus, *command]


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
        log: Path | BinaryIO | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        fed: bool = False,
        talks: bool = False,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Start it in the checkout.

        name: for errors, such as "Telegraf".
        log: gets its output; if None, an unnamed file.
        environment: its complete environment; the lab's own if None.
        fed: its standard input is a pipe, otherwise empty.
        talks: its standard output is a pipe too; the log only gets its standard error.
        """
        self.name = name
        self._log = log.open("ab") if isinstance(log, Path) else log or tempfile.TemporaryFile()  # noqa: SIM115
        self.popen = subprocess.Popen(
            list(map(str, command)),
            cwd=CHECKOUT,
            env=environment,
            stdin=subprocess.PIPE if fed or talks else subprocess.DEVNULL,
            stdout=subprocess.PIPE if talks else self._log,
            stderr=self._log,
            pass_fds=pass_fds,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(0)

    def check(self) -> None:
        if (status := self.popen.poll()) is not None:
            raise self.failure(f"has ended with status {status}")

    def logged(self) -> str:
        """The text of its log, even if a server has replaced the file."""
        return Path(f"/proc/self/fd/{self._log.fileno()}").read_text(errors="replace")

    def failure(self, how: str) -> ProgramError:
        return ProgramError(self.name, how, self.logged())

    def wait(self, seconds: float) -> str:
        """Its log once it is done; raises `ProgramError` if it fails, or isn't done in this time."""
        try:
            status = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise self.failure(f"wasn't done after {seconds:g} s") from None
        if status:
            raise self.failure("wasn't done in time" if status == _TIMED_OUT else f"ended with status {status}")
        return self.logged()

    def await_log(self, text: str, seconds: float) -> None:
        """Return once its log has this text; raises `ProgramError` if it ends before that, or after this time."""

        def there() -> bool:
            self.check()
            return text in self.logged()

        if not wait_until(there, seconds):
            raise self.failure(f"hasn't said {text!r} within {seconds:g} s")

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
        """End it, and after this time kill it; what it has started is killed."""
        self.popen.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
        self.end_input()
        for file in (self.popen.stdout, self._log):
            if file is not None:
                file.close()


def output(name: str, command: Sequence[str | Path], timeout: float, *, fed: bool = False) -> str:
    """A program's output; at the end, it and all processes of its group have ended. Raises `ProgramError`."""
    with Process(name, command, fed=fed) as process:
        return process.wait(timeout)


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
