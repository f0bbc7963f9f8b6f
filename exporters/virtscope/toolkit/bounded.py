"""Read files and run programs with limits on size and time; measure the programs' CPU time; make files in memory."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Callable, NamedTuple, Protocol

from virtscope.toolkit.collect import Runs, SourceError, SourceMalformed, SourceTimeout, SourceUnavailable

LARGEST_FILE = 64 << 20  # bytes; /proc/user_beancounters of 10,000 containers is about 26 MiB
LARGEST_OUTPUT = 8 << 20  # bytes; `xl list -l` of a thousand domains is about 3 MiB
SHARED_MEMORY = "/dev/shm"  # noqa: S108  a file there is made without a name

_CHUNK = 1 << 16
_POLL = 0.02  # seconds


def read_bytes(path: Path) -> bytes:
    """Return the file's content; raises OSError like open() and read(), with EFBIG above LARGEST_FILE."""
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
    """Return the file's text; `errors` is that of bytes.decode(). Raises like read_bytes()."""
    return read_bytes(path).decode(errors=errors)


def first_line(path: Path) -> str:
    """Return the first line of a small file; "" if it can't be read."""
    try:
        return read_text(path, "replace").partition("\n")[0].strip()
    except OSError:
        return ""


def kernel_version(release: str) -> tuple[int, int]:
    """Return the first two numbers of "6.1.0-13-amd64"; (0, 0) if unknown."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def file_in_memory(name: str) -> int:
    """Return the descriptor of a new file in memory, deleted with its last descriptor; raises OSError.

    name: shown in /proc only; it can't be opened by name.
    """
    try:
        return os.memfd_create(name)
    except (AttributeError, OSError):  # a Python built for a glibc before 2.27, or Linux before 3.17
        try:
            with tempfile.TemporaryFile(dir=SHARED_MEMORY) as file:
                return os.dup(file.fileno())
        except OSError as error:
            problem = f"there is neither memfd_create nor a {SHARED_MEMORY} to write to: {error.strerror}"
            raise OSError(error.errno, problem) from None


class Finished(NamedTuple):
    """Exit status and output of a program."""

    status: int
    output: bytes
    complaints: bytes  # the last 4 KiB of standard error

    def problem(self) -> str:
        """Return the exit status or signal, and the last line of standard error; "" if it succeeded."""
        if not self.status:
            return ""
        end = f"was ended by signal {-self.status}" if self.status < 0 else f"ended with status {self.status}"
        said = last_line(self.complaints)
        return f"{end}: {said}" if said else end


class Programs(Runs, Protocol):
    """Runs programs, on this machine (Commands) or another."""

    def find(self, name: str, folders: Sequence[str] = ()) -> str: ...

    def run(self, program: str, *arguments: str) -> Finished: ...


class Commands:
    """Runs one program at a time. Only one thread may run(); any thread may close()."""

    def __init__(self, timeout: float, patience: float = 0.0) -> None:
        """Give each program `timeout` seconds.

        close() kills a running one, or asks it to end and kills it after `patience` seconds.
        """
        self.cpu_seconds = 0.0  # CPU time of all programs so far and their reaped children
        self._timeout = timeout
        self._patience = patience
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._closed = False

    def find(self, name: str, folders: Sequence[str] = ()) -> str:
        """Return a program's path, from PATH or these folders; "" if not found."""
        return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])) or ""

    def run(
        self, program: str, *arguments: str, pass_fds: Sequence[int] = (), enough: Callable[[], bool] | None = None
    ) -> Finished:
        """Run a program in the C locale, and return its output and status.

        If given, `enough` is called while it runs; the program is asked to end once that returns True.

        Kills its process group and raises SourceTimeout or SourceMalformed if it exceeds a limit. Raises
        SourceUnavailable if there is no such program.
        """
        with self._lock:
            if self._closed:
                raise SourceError("closed")
            try:
                child = self._running = start_program([program, *arguments], pass_fds=pass_fds)
                self._over.clear()
            except FileNotFoundError as error:
                raise SourceUnavailable(f"{program} is not there") from error
            except OSError as error:
                raise SourceError(f"{program} can't be started: {error.strerror}") from error
        try:
            return self._finish(child, " ".join([program, *arguments]), enough)
        finally:
            self._reap(child)

    def close(self) -> None:
        """End the running program; later calls fail."""
        with self._lock:
            self._closed = True
            if self._running and self._patience:
                kill_group(self._running, signal.SIGTERM)
            waits = self._running and self._patience
        if waits:
            self._over.wait(waits)
        with self._lock:
            if self._running:
                kill_group(self._running)

    def _finish(self, child: subprocess.Popen[bytes], command: str, enough: Callable[[], bool] | None) -> Finished:
        assert child.stdout
        assert child.stderr
        deadline = time.monotonic() + self._timeout
        output, complaints = bytearray(), bytearray()
        with selectors.DefaultSelector() as pipes:
            pipes.register(child.stdout, selectors.EVENT_READ, output)
            pipes.register(child.stderr, selectors.EVENT_READ, complaints)
            while pipes.get_map() and (left := deadline - time.monotonic()) > 0:
                if enough and enough():
                    enough = None
                    kill_group(child, signal.SIGTERM)
                for key, _ in pipes.select(min(left, _POLL) if enough else left):
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        pipes.unregister(key.fileobj)
                    key.data.extend(chunk)
                del complaints[:-4096]
                if len(output) > LARGEST_OUTPUT:
                    raise SourceMalformed(
                        f"{command} wrote more than {LARGEST_OUTPUT >> 20} MiB: {bytes(output[:200])!r}"
                    )
        # A program may close both pipes and go on. WNOWAIT leaves the process to wait4(), which returns its CPU time.
        while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() >= deadline:
                raise SourceTimeout(f"{command} did not end within {self._timeout:.0f} s and was killed")
            time.sleep(_POLL)
        return Finished(self._reap(child), bytes(output), bytes(complaints))

    def _reap(self, child: subprocess.Popen[bytes]) -> int:
        """Kill the program's group, reap it, add its CPU time and return its status. Idempotent."""
        if child.returncode is None:
            with self._lock:
                self._running = None  # close() must not kill a reused process id
                kill_group(child)
            self.cpu_seconds += reap(child)
            self._over.set()
            for pipe in filter(None, (child.stdout, child.stderr)):
                pipe.close()
        return child.returncode


def start_program(
    command: Sequence[str], *, stdin: int = subprocess.DEVNULL, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a program in the C locale, with pipes for its output and standard error; raises OSError.

    It leads a process group, so that kill_group() ends its children too, and a terminal's Ctrl-C is for the exporter.
    """
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        pass_fds=pass_fds,
        env={**os.environ, "LC_ALL": "C"},
        start_new_session=True,
    )


def kill_group(child: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
    """Send a signal to the process group that this child leads; it must not have been reaped."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, number)


def reap(child: subprocess.Popen[bytes]) -> float:
    """Wait for this killed child, set its return code, and return its CPU seconds."""
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def last_line(complaints: bytes) -> str:
    """Return the last non-blank line, at most 300 characters; "" if there is none."""
    lines = complaints.decode("utf-8", "backslashreplace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
