"""An ssh child process, which runs host.sh; reads its output with limits, as the host isn't trusted.

Limited are each answer and its header, output before the first one, standard error, and the bytes being received from
all hosts.
"""

import contextlib
import os
import re
import selectors
import subprocess
import threading
import time
from collections.abc import Sequence

from virtscope.toolkit.bounded import Finished, kill_group, last_line, reap, start_program
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceTimeout

MAX_ANSWER = 8 << 20  # bytes; an OpenVZ host of 2,000 containers, or `xl list -l` of 2,000 domains
MAX_TOGETHER = 128 << 20  # bytes being received from all hosts
MAX_BEFORE_GREETING = 64 << 10  # bytes before host.sh runs, such as output of ~/.bashrc
MAX_COMPLAINTS = 1 << 20  # bytes on standard error, of ssh or of a request

_CHUNK = 1 << 16
_GREETING = b"virtscope 1"
_HEADER = re.compile(rb"([!-~][ -~]{0,99}) ([0-9]{1,9})")
_NUMBER = re.compile(rb"[0-9]{1,9}")
_MAX_HEADER = 120
_UNKNOWN = "unknown"


class Ended(SourceError):
    """The child has exited; the message is its last output."""


class Room:
    """The limit on bytes held by all children."""

    def __init__(self, size: int = MAX_TOGETHER) -> None:
        self._left = size
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Reserve bytes; raises SourceError over the limit."""
        with self._lock:
            if size > self._left:
                raise SourceError(f"all hosts together send more than {MAX_TOGETHER >> 20} MiB at a time")
            self._left -= size

    def give_back(self, size: int) -> None:
        """Release reserved bytes."""
        with self._lock:
            self._left += size


class Child:
    """Starts ssh and sends requests to host.sh. For one thread at a time, except kill()."""

    def __init__(self, command: Sequence[str], room: Room) -> None:
        """Raises OSError if ssh can't be started."""
        self.begun_at = time.monotonic()
        self.greeted = False  # host.sh is running
        self.received_bytes = 0
        self._room = room
        self._taken = 0  # reserved bytes
        self._received = bytearray()  # but not yet parsed
        self._complaints = b""  # the last ones
        self._complained = 0  # bytes since the last request
        self._lock = threading.Lock()  # guards its end: kill() must not hit a reused pid
        self._process = start_program(command, stdin=subprocess.PIPE)
        self.pid = self._process.pid
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._requests, self._answers, self._errors = self._process.stdin, self._process.stdout, self._process.stderr
        self._pipes = selectors.DefaultSelector()
        self._pipes.register(self._answers, selectors.EVENT_READ)
        self._pipes.register(self._errors, selectors.EVENT_READ)

    def kill(self) -> None:
        """Kill it, from any thread."""
        with self._lock:
            if self._process.returncode is None:
                kill_group(self._process)

    def end(self) -> float:
        """Kill and reap it; returns its CPU seconds."""
        with self._lock:
            kill_group(self._process)
            seconds = reap(self._process)
        self._pipes.close()
        for pipe in (self._requests, self._answers, self._errors):
            pipe.close()
        self._give_back()
        return seconds

    def greet(self, deadline: float) -> None:
        """Wait for host.sh; raises Ended, SourceTimeout, and SourceMalformed if something else answers."""
        skipped = 0
        while (line := self._line(MAX_BEFORE_GREETING, deadline)) != _GREETING:
            skipped += len(line) + 1
            if skipped > MAX_BEFORE_GREETING:
                raise SourceMalformed(f"the host does not run host.sh, but prints {line[:80]!r}")
        self.greeted = True
        self._give_back()

    def answer(self, request: str, deadline: float) -> Finished:
        """Return host.sh's answer to a request; raises Ended, SourceTimeout, SourceMalformed, SourceError."""
        with contextlib.suppress(SourceTimeout):
            self._read(time.monotonic())
        if self._received:
            raise SourceMalformed(f"the host sends unrequested data: {bytes(self._received[:80])!r}")
        self._complained = 0
        try:
            os.write(self._requests.fileno(), f"{request}\n".encode())
        except OSError as error:
            raise Ended(self._last_words()) from error
        try:
            return self._answer(request, deadline)
        except SourceTimeout as error:
            raise SourceTimeout(f"no answer to {request!r} in time") from error
        finally:
            self._give_back()

    def _answer(self, request: str, deadline: float) -> Finished:
        header = self._line(_MAX_HEADER, deadline)
        parts = _HEADER.fullmatch(header)
        if parts and parts[1].decode() == _UNKNOWN:
            raise SourceError(
                f"the host's line in authorized_keys is of another version, which knows no {request!r}; "
                "replace it by that of ssh-exporter authorized-key"
            )
        if not parts or parts[1].decode() != request:
            raise SourceMalformed(f"the host answers {request!r} by {header[:80]!r}")
        output = self._content(int(parts[2]), MAX_ANSWER, deadline)
        complaints = self._content(self._number(deadline), MAX_COMPLAINTS, deadline)
        return Finished(self._number(deadline), output, complaints)

    def _number(self, deadline: float) -> int:
        line = self._line(_MAX_HEADER, deadline)
        if not _NUMBER.fullmatch(line):
            raise SourceMalformed(f"the host sends {line[:80]!r} for a number")
        return int(line)

    def _content(self, size: int, most: int, deadline: float) -> bytes:
        """Return `size` bytes; consumes the line break after them."""
        if size > most:
            raise SourceMalformed(f"the host announces {size} bytes, more than {most}")
        while len(self._received) <= size:
            self._read(deadline)
        content = bytes(memoryview(self._received)[:size])
        if self._received[size] != ord("\n"):
            raise SourceMalformed(f"the host sends more than it announced, or less: {bytes(self._received[:80])!r}")
        del self._received[: size + 1]
        return content

    def _line(self, most: int, deadline: float) -> bytes:
        """Return the next line without its break; raises SourceMalformed if longer than `most` bytes."""
        searched = 0
        while (end := self._received.find(b"\n", searched, most + 1)) < 0:
            searched = len(self._received)
            if searched > most:
                raise SourceMalformed(f"the host sends a line without end: {bytes(self._received[:80])!r}")
            self._read(deadline)
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _read(self, deadline: float) -> None:
        """Receive some bytes; raises Ended at the end, SourceTimeout at the deadline."""
        while True:
            left = deadline - time.monotonic()
            ready = {key.fileobj for key, _ in self._pipes.select(max(left, 0))}
            if self._errors in ready:
                self._hear()
            if self._answers in ready:
                break
            if left <= 0:
                raise SourceTimeout("no answer in time")
        chunk = os.read(self._answers.fileno(), _CHUNK)
        if not chunk:
            raise Ended(self._last_words())
        self.received_bytes += len(chunk)
        self._room.take(len(chunk))
        self._taken += len(chunk)
        self._received += chunk

    def _hear(self) -> None:
        """Read standard error of ssh or the host's shell."""
        complaint = os.read(self._errors.fileno(), _CHUNK)
        if not complaint:
            self._pipes.unregister(self._errors)
        self.received_bytes += len(complaint)
        self._complained += len(complaint)
        self._complaints = (self._complaints + complaint)[-4096:]
        if self._complained > MAX_COMPLAINTS:
            raise SourceMalformed(f"the host's standard error has no end: {complaint[:80]!r}")

    def _last_words(self) -> str:
        """Return ssh's last message, the reason for its exit."""
        # It may follow the end of output. A shared ControlMaster keeps the pipe open.
        deadline = time.monotonic() + 1
        while self._errors in self._pipes.get_map() and (left := deadline - time.monotonic()) > 0:
            if any(key.fileobj is self._errors for key, _ in self._pipes.select(left)):
                self._hear()
            elif os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
        return last_line(self._complaints.replace(b"\r", b"")) or "ssh exited without a message"

    def _give_back(self) -> None:
        self._room.give_back(self._taken)
        self._taken = 0
