"""The persistent connection to a host by an ssh child: requests, failures and retries, and parsing of answers.

It uses the system's ssh with the user's configuration: names, keys, jump hosts, multiplexing. Requests are sequential,
each with a deadline.

- A host that hangs or answers incorrectly is disconnected, which ends host.sh and its children.
- Failures back off exponentially, from a second to a minute: per connection, or per request if the connection works, so
  that a hanging `xl` doesn't block other requests.
- The child ends with the exporter: close() kills it; if the exporter is killed, its pipe closes, which ends host.sh and
  ssh.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import threading
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Callable, TypeVar

from virtscope.openvz.procfs import Files, Unread
from virtscope.ssh.child import Child, Ended, Room
from virtscope.toolkit.bounded import Finished
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceTimeout, SourceUnavailable, reason_of

log = logging.getLogger(__name__)

CONNECTING = 30.0  # seconds from ssh's start to host.sh's greeting, before the child is killed
MAX_PAUSE = 60.0  # seconds after a failure
MAX_WAITING = 4.0  # seconds that a scrape waits for a background request: less than half of Prometheus's timeout

T = TypeVar("T")

NOT_FOUND = 127  # a shell's exit status for a missing program

_TICKS = os.sysconf("SC_CLK_TCK")

# Options here override the configuration. Left to the user: the host's name, port, user and key, ProxyJump,
# ControlMaster. Unknown or changed host keys are always refused, and nothing is forwarded to the host.
_OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "ConnectTimeout=10",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "EscapeChar=none",
)
# Ignored if the key has a forced command. Otherwise a shell would run the requests.
_WITHOUT_FORCED_COMMAND = "echo 'this key has no forced command: see ssh-exporter authorized-key' >&2; exit 1"


class Unreachable(SourceError):
    """There is no connection to the host; the message is ssh's."""


def fetched(fetch: Callable[[], T]) -> T | SourceError:
    """Return what this fetches, or why not, for the sources to raise; raises Unreachable."""
    try:
        return fetch()
    except Unreachable:
        raise
    except SourceError as error:
        return error


class Connecting(Unreachable):
    """There is no connection to the host yet; the next request continues waiting."""

    reason = "timeout"


class Failure:
    """A failure and the pause before the next attempt."""

    def __init__(self, error: SourceError, before: Failure | None) -> None:
        self._error = error
        self._pause: float = min(before._pause * 2, MAX_PAUSE) if before else 1.0
        self._until = time.monotonic() + self._pause

    def check(self) -> None:
        """Raise the error during the pause; a new object, as raising the same one accumulates tracebacks."""
        if time.monotonic() < self._until:
            raise type(self._error)(str(self._error))


class Connection:
    """Sends requests to one host, one at a time, for any number of threads."""

    def __init__(self, host: str, ssh: Sequence[str], room: Room) -> None:
        """`host` is a valid host name for ssh; `ssh` is the program and its first options."""
        self.host = host
        options = [f"-o{option}" for option in _OPTIONS]
        self._command = [*ssh, "-T", *options, "--", host, _WITHOUT_FORCED_COMMAND]
        self._room = room
        self._next = threading.Lock()  # held by the waiter for the other lock
        self._lock = threading.Lock()  # guards everything below; others only read it
        self._child: Child | None = None
        self._closed = False
        self._pauses: dict[str, Failure] = {}  # by request; "" is the connection
        self._gives_way: Child | None = None  # the child with an unfinished answer
        self._logged = ""  # the last state: why there is no connection, without numbers, or "connected"
        self.connections = 0
        self.requests = 0
        self.failures = {"timeout": 0, "error": 0, "malformed": 0}  # by reason
        self._bytes = 0  # of ended children, here and below
        self._cpu_seconds = 0.0

    def ask(self, request: str, deadline: float, *, gives_way: bool = False) -> Finished:
        """Return the answer to one of host.sh's requests, by `deadline` (a time.monotonic() value).

        `gives_way`: a background request, which is aborted if another one has waited for a few seconds.

        Raises Unreachable if there is no connection, SourceTimeout without an answer, SourceMalformed for a wrong
        answer, SourceError if the host sends too much.
        """
        if not self._acquire(deadline, gives_way):
            if self.connected:
                raise SourceTimeout("the host is still answering another request")
            raise Connecting("another request is still waiting for the connection")
        try:
            for name in ("", request):
                if failure := self._pauses.get(name):
                    failure.check()
            self.requests += 1
            return self._ask(request, deadline, gives_way)
        finally:
            self._lock.release()

    def files(self, request: str, deadline: float) -> Files:
        """Return the files of a request's answer; raises like ask() and files_of()."""
        return files_of(self.ask(request, deadline))

    @property
    def connected(self) -> bool:
        """Whether host.sh is running."""
        child = self._child
        return child is not None and child.greeted

    def received_bytes(self) -> int:
        """Return the bytes received so far, at once."""
        child = self._child
        return self._bytes + (child.received_bytes if child else 0)

    def cpu_seconds(self) -> float:
        """Return the CPU time of the ssh children so far."""
        child = self._child
        return self._cpu_seconds + (_cpu_seconds(child.pid) if child else 0)

    def kill(self) -> None:
        """Kill the child for good; a running request fails."""
        self._closed = True
        if child := self._child:
            child.kill()

    def close(self) -> None:
        """End the child, for good."""
        self.kill()
        with self._lock:
            self._drop()

    def _acquire(self, deadline: float, gives_way: bool) -> bool:
        if self._wait(deadline if gives_way else min(time.monotonic() + MAX_WAITING, deadline)):
            return True
        if not gives_way and (child := self._gives_way):
            self._gives_way = None
            child.kill()  # if it has just answered, the next request restarts it
        return self._wait(deadline)

    def _wait(self, until: float) -> bool:
        """Acquire the lock by then. The waiter is next; otherwise background requests could starve others."""
        if not self._next.acquire(timeout=max(until - time.monotonic(), 0)):
            return False
        try:
            return self._lock.acquire(timeout=max(until - time.monotonic(), 0))
        finally:
            self._next.release()

    def _ask(self, request: str, deadline: float, gives_way: bool) -> Finished:
        try:
            answer = self._answer(request, deadline, gives_way)
        except Connecting:
            self.failures["timeout"] += 1
            raise
        except Unreachable as error:
            self._fail("", error)
            log_key = re.sub("[0-9]+", "0", str(error))
            if self._logged != log_key:
                self._logged = log_key
                log.warning("host can't be reached", extra={"fields": {"target": self.host, "err": error}})
            raise
        except SourceError as error:
            self._fail(request, error)
            raise
        self._pauses.pop("", None)
        self._pauses.pop(request, None)
        return answer

    def _fail(self, name: str, error: SourceError) -> None:
        self._drop()
        self.failures[reason_of(error)] += 1
        self._pauses[name] = Failure(error, self._pauses.get(name))

    def _answer(self, request: str, deadline: float, gives_way: bool) -> Finished:
        """Return the answer; restarts the child if it has ended since the last request, as after a host's reboot."""
        again = self.connected
        while True:
            child: Child | None = None
            try:
                child = self._connected(deadline)
                self._gives_way = child if gives_way else None
                return child.answer(request, deadline)
            except SourceError as error:
                if child and gives_way and self._gives_way is None:
                    raise SourceTimeout(f"{request!r} gave way to a scrape that waited for it") from error
                if not isinstance(error, Ended):
                    raise
                if not again:
                    raise Unreachable(str(error)) from error
            finally:
                self._gives_way = None
            again = False
            self._drop()

    def _connected(self, deadline: float) -> Child:
        """Return the child after its greeting; may raise Ended."""
        if self._closed:
            raise Unreachable("closed")
        if self._child is None:
            try:
                self._child = Child(self._command, self._room)
            except OSError as error:
                raise Unreachable(f"{self._command[0]} can't be started: {error.strerror}") from error
        child = self._child
        if child.greeted:
            return child
        try:
            child.greet(min(deadline, child.begun_at + CONNECTING))
        except SourceTimeout as error:
            seconds = time.monotonic() - child.begun_at
            kind = Unreachable if seconds >= CONNECTING else Connecting
            raise kind(f"no connection for {seconds:.0f} s") from error
        except SourceMalformed as error:
            raise Unreachable(str(error)) from error
        self.connections += 1
        if self._logged != "connected":
            self._logged = "connected"
            log.info("host connected", extra={"fields": {"target": self.host}})
        return child

    def _drop(self) -> None:
        """End the child, if there is one."""
        if self._child:
            self._cpu_seconds += self._child.end()
            self._bytes += self._child.received_bytes
            self._child = None


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, 0 if it has just ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()  # proc(5), from its third field on
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / _TICKS


_LINE = re.compile(rb"(?m)^([^:\n]+):(.*\n?)")
_UNREAD = re.compile(r"grep: ([^:]+): (.+)")
_READ = {0, 2}  # grep's status; 2 if some files are unreadable. Others mean that it was interrupted
_NAMES = {os.strerror(number): name for number, name in errno.errorcode.items()}


def files_of(answer: Finished) -> Files:
    """Parse the files in the output of host.sh's `grep "" FILE...`, or their errors; omits absent files.

    Each line begins with its file's name; errors are on standard error.

        vz/version:042stab120.6
        bc/101/ioacct:         read                                 104857600
        grep: vz/latency: No such file or directory

    grep adds a missing line break at a file's end. Raises SourceMalformed if this isn't grep's output, SourceError if
    there is none.
    """
    if answer.status not in _READ:
        raise SourceError(f"the host's files can't be read: grep {answer.problem()}")
    found: dict[str, bytes | Unread] = {}
    for complaint in answer.complaints.decode("utf-8", "backslashreplace").splitlines():
        unread = _UNREAD.fullmatch(complaint)
        if unread and (name := _NAMES.get(unread[2], "EIO")) != "ENOENT":
            found[unread[1]] = Unread(name)
    lines = _LINE.findall(answer.output)
    if sum(len(path) + len(line) + 1 for path, line in lines) != len(answer.output):
        raise SourceMalformed(f"the host's files can't be distinguished in {answer.output[:200]!r}")
    for path, of_file in groupby(lines, lambda line: line[0]):
        found[path.decode("utf-8", "backslashreplace")] = b"".join([line for _, line in of_file])
    return found


class RemotePrograms:
    """Runs programs on a host, like Commands locally; host.sh defines programs and arguments."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self.cpu_seconds = 0.0  # unknown on the host
        self._connection = connection
        self._timeout = timeout
        self._closed = False

    def find(self, name: str, _folders: Sequence[str] = ()) -> str:
        """Return the name; host.sh finds the program."""
        return name

    def run(self, program: str, *arguments: str) -> Finished:
        """Run a program; raises like Connection.ask(), and SourceUnavailable if it is missing."""
        if self._closed:
            raise SourceError("closed")
        request = " ".join([program, *arguments])
        finished = self._connection.ask(request, time.monotonic() + self._timeout, gives_way=True)
        if finished.status == NOT_FOUND:
            raise SourceUnavailable(f"{program} is not there")
        return finished

    def close(self) -> None:
        """Do nothing: a running program ends with the connection."""
        self._closed = True
