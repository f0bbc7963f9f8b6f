"""A shell on another host, over the user's own ssh, in which commands run one after the other.

When it ends for any reason (the lab's end, Ctrl-C, `kill -9`, a broken connection), the host itself runs the commands
that undo the changes: it reads lines, and the end of input is the signal. If the connection is lost silently, the
host's sshd has to notice (ClientAliveInterval, or TCP keepalives after two hours).
"""

import contextlib
import secrets
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from lab import LabError
from lab.processes import Process, and_said, over_ssh

COMMAND_SECONDS = 60.0
UNDO_SECONDS = 30.0
_LOOP = Path(__file__).with_suffix(".sh").read_text()


class Shell:
    def __init__(self, destination: str) -> None:
        self.destination = destination
        self._mark = secrets.token_hex(8)
        self._said = b""
        self._undo: Sequence[str] = ()
        self._process: Process

    def __enter__(self) -> Self:
        """Connect; raises `LabError` if that fails."""
        loop = shlex.join(["sh", "-c", _LOOP.replace("MARK", self._mark)])
        self._process = Process(self.destination, over_ssh(self.destination, loop), talks=True)
        try:
            self.run("true")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let the host undo the changes, and wait for it; raises `LabError` without its confirmation."""
        self._process.end_input()
        try:
            failed, _status = self._answer("undo", UNDO_SECONDS)
        except LabError as error:
            failed = str(error)
        self._end()
        if self._undo and failed.strip():
            by_hand = "".join(f"\n  {command}" for command in self._undo)
            problem = f"{failed.strip()}\n{self.destination} may not be as it was; if so, run there:{by_hand}"
            if kind is None:
                raise LabError(problem)
            print(f"error: {problem}", file=sys.stderr)  # the earlier error is reported too

    def _end(self) -> None:
        """End the connection; the host undoes the changes, even if it is slow."""
        self._process.end_input()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.popen.wait(1)
        self._process.stop(0)

    def run(self, command: str) -> str:
        """Return the output of a command of one line; raises `LabError` if it fails, or takes over a minute."""
        assert "\n" not in command
        self._process.send(f"{command}\n")
        said, status = self._answer(command, COMMAND_SECONDS)
        if status:
            raise LabError(f"{self.destination}: {command} ended with status {status}{and_said(said)}")
        return said

    def undo(self, commands: Sequence[str]) -> None:
        """Set commands that the host runs at the end, all of them even if some fail; they replace earlier ones."""
        each = (f"{command} >/dev/null || echo {shlex.quote(command)} failed; " for command in commands or [":"])
        self.run(f"undo() {{ {''.join(each)}}}")
        self._undo = tuple(commands)

    def _answer(self, command: str, seconds: float) -> tuple[str, int]:
        mark = f" {self._mark}\n".encode()
        self._said = self._process.read_until(mark, seconds, self._said)
        before, found, after = self._said.partition(mark)
        if not found:
            reason = f"{before.decode(errors='replace')}{self._process.logged()}".strip() or "the connection has ended"
            raise LabError(f"{self.destination}: no answer to {command}: {reason}")
        self._said = after
        said, _, status = before.rpartition(b"\n")
        return said.decode(errors="replace"), int(status)
