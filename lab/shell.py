"""A shell on another host, over the user's own ssh, in which commands run one after the other.

Whatever ends it (the lab's end, Ctrl-C, `kill -9`, a connection that breaks), the host itself then runs the commands
that undo what was changed: it waits for its next line, and the end of them is its sign. If the connection is cut
without a word, that is when the host's sshd notices (ClientAliveInterval, or TCP keepalives after two hours).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Self

from lab import LabError, ssh

COMMAND_SECONDS = 60.0
UNDO_SECONDS = 30.0
_LINES = 5  # of what a command says before it fails
# What is written to a connection that is gone must not end it: hence the signals. The lock is kept until all is undone,
# so that no other lab takes what this one has changed for what there was.
_LOOP = """trap '' HUP PIPE
exec 9>"$HOME/.virtscope-lab.lock" && flock -n 9 || {
  echo 'another lab changes this host, or one that was killed is not yet undone: wait for it'; exit 1
}
undo() { :; }
while IFS= read -r line; do
  eval "$line" </dev/null 2>&1 9>&-
  printf '\\n%s %s\\n' MARK $?
done
undo 2>&1
printf '\\n%s 0\\n' MARK"""


class Shell:
    """A shell on a host; `destination` is as for ssh(1)."""

    def __init__(self, destination: str) -> None:
        self.destination = destination
        self._mark = secrets.token_hex(8)
        self._said = b""
        self._undo: Sequence[str] = ()
        self._process: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        """Connect; raises `LabError` if that isn't possible."""
        loop = shlex.join(["sh", "-c", _LOOP.replace("MARK", self._mark)])
        self._process = subprocess.Popen(
            ssh.command(self.destination, loop),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the lab, which then ends it
        )
        try:
            self.run("true")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let the host undo what was changed, and wait for it; raises `LabError` if it doesn't say that it has."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
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
            print(f"error: {problem}", file=sys.stderr)  # what has happened first is said too

    def _end(self) -> None:
        """End the connection; the host undoes what was changed, also if it is slow."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def run(self, command: str) -> str:
        """Return what a command prints; raises `LabError` if it fails, or isn't done within a minute."""
        assert self._process.stdin is not None
        if "\n" in command:
            raise ValueError(f"more than one line: {command!r}")
        with contextlib.suppress(BrokenPipeError):  # what it has said is the reason
            self._process.stdin.write(command.encode() + b"\n")
            self._process.stdin.flush()
        said, status = self._answer(command, COMMAND_SECONDS)
        if status:
            end = "".join(f"\n  {line}" for line in said.splitlines()[-_LINES:])
            raise LabError(f"{self.destination}: {command} ended with status {status}{end and ' and said:'}{end}")
        return said

    def undo(self, commands: Sequence[str]) -> None:
        """Commands that the host runs at the end, all of them, whatever the others do; they replace earlier ones."""
        each = (f"{command} >/dev/null || echo {shlex.quote(command)} failed; " for command in commands or [":"])
        self.run(f"undo() {{ {''.join(each)}}}")
        self._undo = tuple(commands)

    def _answer(self, command: str, seconds: float) -> tuple[str, int]:
        """What it has printed until its status, and that."""
        mark = b"\n" + self._mark.encode() + b" "
        deadline = time.monotonic() + seconds
        while True:
            before, found, after = self._said.partition(mark)
            if found and b"\n" in after:
                status, _, self._said = after.partition(b"\n")
                return before.decode(errors="replace"), int(status)
            if not self._more(deadline):
                reason = self._said.decode(errors="replace").strip() or "the connection has ended"
                raise LabError(f"{self.destination}: no answer to {command}: {reason}")

    def _more(self, deadline: float) -> bool:
        """Read more of what it says; False if there is none any more, or not in time."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        more = os.read(self._process.stdout.fileno(), 65536) if ready else b""
        self._said += more
        return more != b""
