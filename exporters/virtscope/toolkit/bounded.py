"""Files that are read whole and programs that are run to their end, both within bounds, and what a program cost."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceTimeout, SourceUnavailable

LARGEST_FILE = 64 << 20  # bytes; /proc/user_beancounters of 10,000 containers is about 26 MiB
LARGEST_OUTPUT = 8 << 20  # bytes; `xl list -l` of a thousand domains is about 3 MiB

_CHUNK = 1 << 16
_POLL = 0.02  # seconds


def read_bytes(path: Path) -> bytes:
    """Return what the file holds; raises OSError as open() and read() do, and with EFBIG for more than LARGEST_FILE."""
    chunks: list[bytes] = []
    size = 0
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > LARGEST_FILE:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return b"".join(chunks)


def read_text(path: Path, errors: str = "strict") -> str:
    """Return the text of the file, with `errors` as bytes.decode() takes them; raises as read_bytes() does."""
    return read_bytes(path).decode(errors=errors)


class OutputTooLong(SourceMalformed):
    """A program wrote more than LARGEST_OUTPUT."""

    def __init__(self, message: str, output: bytes) -> None:
        super().__init__(message)
        self.output = output  # the beginning of it


class Finished(NamedTuple):
    """A program that ended by itself: its status and what it wrote."""

    status: int
    output: bytes
    complaints: bytes  # on standard error, the last 4 KiB of it

    def problem(self) -> str:
        """Return how it failed and its last words; "" where it ended with status 0."""
        if not self.status:
            return ""
        end = f"was ended by signal {-self.status}" if self.status < 0 else f"ended with status {self.status}"
        said = last_line(self.complaints)
        return f"{end}: {said}" if said else end


class Programs(Protocol):
    """What runs programs to their end, on this machine (Commands) or another."""

    cpu_seconds: float  # CPU time of all programs so far, as far as known

    def find(self, name: str, folders: Sequence[str] = ()) -> str: ...

    def run(self, program: str, *arguments: str) -> Finished: ...

    def close(self) -> None: ...


class Commands:
    """Runs programs one after the other, for one thread; any other may close()."""

    def __init__(self, timeout: float) -> None:
        """Give each program `timeout` seconds."""
        self.cpu_seconds = 0.0  # CPU time of all programs so far, and of those they waited for
        self._timeout = timeout
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._closed = False

    def find(self, name: str, folders: Sequence[str] = ()) -> str:
        """Return the path of a program, in PATH or else in these folders; "" where there is none."""
        return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])) or ""

    def run(self, program: str, *arguments: str) -> Finished:
        """Run a program to its end in the C locale; whatever its status, it is returned.

        Raises SourceTimeout when it takes too long and OutputTooLong when it writes too much, having killed it and
        all that it started; SourceUnavailable when there is no such program.
        """
        with self._lock:
            if self._closed:
                raise SourceError("closed")
            try:
                child = self._running = subprocess.Popen(
                    [program, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    env={**os.environ, "LC_ALL": "C"},
                    start_new_session=True,  # a process group of its own, to be killed as a whole
                )
            except FileNotFoundError as error:
                raise SourceUnavailable(f"{program} is not there") from error
            except OSError as error:
                raise SourceError(f"{program} can't be started: {error.strerror}") from error
        try:
            return self._finish(child, " ".join([program, *arguments]))
        finally:
            self._reap(child)

    def close(self) -> None:
        """Kill what is running, and run nothing any more."""
        with self._lock:
            self._closed = True
            if self._running:
                kill_group(self._running)

    def _finish(self, child: subprocess.Popen[bytes], command: str) -> Finished:
        assert child.stdout
        assert child.stderr
        deadline = time.monotonic() + self._timeout
        output, complaints = bytearray(), bytearray()
        with selectors.DefaultSelector() as pipes:
            pipes.register(child.stdout, selectors.EVENT_READ, output)
            pipes.register(child.stderr, selectors.EVENT_READ, complaints)
            while pipes.get_map() and (left := deadline - time.monotonic()) > 0:
                for key, _ in pipes.select(left):
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        pipes.unregister(key.fileobj)
                    key.data.extend(chunk)
                del complaints[:-4096]
                if len(output) > LARGEST_OUTPUT:
                    raise OutputTooLong(
                        f"{command} wrote more than {LARGEST_OUTPUT >> 20} MiB: {bytes(output[:200])!r}", bytes(output)
                    )
        # Both pipes may be closed by a program that goes on. Waiting without reaping leaves its usage to be asked for.
        while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() >= deadline:
                raise SourceTimeout(f"{command} did not end within {self._timeout:.0f} s and was killed")
            time.sleep(_POLL)
        return Finished(self._reap(child), bytes(output), bytes(complaints))

    def _reap(self, child: subprocess.Popen[bytes]) -> int:
        """Kill what is left of a program, wait for its end, add its cost, and return its status; once is enough."""
        if child.returncode is None:
            with self._lock:
                self._running = None  # close() must not kill what may soon be another process's id
                kill_group(child)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_seconds += usage.ru_utime + usage.ru_stime
            for pipe in filter(None, (child.stdout, child.stderr)):
                pipe.close()
        return child.returncode


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill a child that hasn't been reaped yet, and what it started; it leads a process group of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def last_line(complaints: bytes) -> str:
    """Return the last line that says something, at most 300 characters of it; "" where there is none."""
    lines = complaints.decode("utf-8", "backslashreplace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
