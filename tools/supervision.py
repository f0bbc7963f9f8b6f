"""supervisord: starting it, asking it, stopping it."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import time
import xmlrpc.client
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools import StackError, privileges, python_packages
from tools.programs import CHECKOUT

RUN = CHECKOUT / ".stack" / "run"
LOG = CHECKOUT / ".stack" / "log"
SOCKET = RUN / "supervisor.sock"
PID_FILE = RUN / "supervisord.pid"
# The kernel's limit for a socket's path (sun_path, 108 with the final NUL), less the suffix supervisord binds under.
LONGEST_SOCKET_PATH = 107 - len(".4194304")
STOP_SECONDS = 90  # longer than any stopwaitsecs of supervisord.conf
REQUEST_SECONDS = 10


class NoAnswerError(StackError):
    """supervisord is not running in this checkout."""


@dataclass(frozen=True)
class Process:
    """A program as supervisord sees it. `state` is supervisord's own word in lower case, such as "running"."""

    name: str
    state: str
    since: datetime | None  # of the state; None if it was never started
    exit_status: int  # of its last end; 0 while it runs for the first time
    spawn_error: str  # why it couldn't be started at all; empty otherwise
    pid: int  # 0 unless it runs


def require_short_path() -> None:
    """Raise `StackError` if the kernel would not take the path of supervisord's socket."""
    if len(os.fsencode(SOCKET)) > LONGEST_SOCKET_PATH:
        longest = LONGEST_SOCKET_PATH - len(os.fsencode(SOCKET.relative_to(CHECKOUT))) - 1
        raise StackError(f"the path of this checkout is too long for a Unix socket in it: at most {longest} characters")


def is_running() -> bool:
    """Whether this checkout's supervisord answers."""
    try:
        _call("getState")
    except NoAnswerError:
        return False
    return True


def pid() -> int:
    """Of this checkout's supervisord, as it noted it; 0 if it has stopped in an orderly way."""
    try:
        return int(PID_FILE.read_text())
    except (OSError, ValueError):
        return 0


def was_killed() -> bool:
    """Whether supervisord has ended without stopping, and nobody has run `make up` or `make down` since."""
    noted = pid()
    return noted != 0 and not runs(noted)


def left_without_stopping() -> bool:
    """Whether supervisord was killed, or the machine stopped under it, so that its programs may just be ending."""
    return PID_FILE.exists() and not is_running()


def start(environment: Mapping[str, str]) -> None:
    """Start supervisord, which starts nothing by itself, with `environment` added to what of our own is for all."""
    LOG.mkdir(parents=True, exist_ok=True)
    RUN.mkdir(parents=True, exist_ok=True)
    command = [str(python_packages.STACK.python), "-m", "supervisor.supervisord", "-c", "tools/supervisord.conf"]
    supervisord = subprocess.run(
        command,
        cwd=CHECKOUT,
        env={**privileges.environment(os.environ), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if supervisord.returncode != 0:
        raise StackError(f"supervisord did not start: {(supervisord.stderr or supervisord.stdout).strip()}")
    deadline = time.monotonic() + REQUEST_SECONDS
    while not is_running():  # it listens already, but answers only after it has become a daemon
        if time.monotonic() > deadline:
            raise StackError(f"supervisord does not answer: see {LOG / 'supervisord.log'}")
        time.sleep(0.05)


def start_program(name: str) -> None:
    """Start a program unless it is running; its state is in `processes`."""
    try:
        _call("startProcess", name, False)
    except xmlrpc.client.Fault as fault:
        if "ALREADY_STARTED" not in fault.faultString:
            raise StackError(f"supervisord can't start {name}: {fault.faultString}") from None


def stop_program(name: str) -> None:
    """Stop a program if it is running, and wait for its end."""
    with contextlib.suppress(xmlrpc.client.Fault):  # it wasn't running
        _call("stopProcess", name, True)


def reload_program(name: str) -> None:
    """Make a running program read its configuration again (SIGHUP)."""
    with contextlib.suppress(xmlrpc.client.Fault):  # it wasn't running
        _call("signalProcess", name, "HUP")


def processes() -> dict[str, Process]:
    """Every program of supervisord.conf by name, running or not."""
    found = {}
    for info in _call("getAllProcessInfo"):
        at = info["start"] if info["statename"] == "RUNNING" else max(info["start"], info["stop"])
        since = datetime.fromtimestamp(at, UTC) if at else None
        name, state = info["name"], info["statename"].lower()
        found[name] = Process(name, state, since, info["exitstatus"], info["spawnerr"], info["pid"])
    return found


def stop() -> None:
    """Stop all programs and supervisord, and wait until they have ended; nothing if it isn't running."""
    if not is_running():
        PID_FILE.unlink(missing_ok=True)  # it was killed, and isn't to be started again
        return
    running: int = _call("getPID")
    _call("shutdown")
    deadline = time.monotonic() + STOP_SECONDS
    while runs(running):
        if time.monotonic() > deadline:
            raise StackError(f"supervisord (pid {running}) does not stop: see {LOG / 'supervisord.log'}")
        time.sleep(0.05)


def _call(method: str, *arguments: Any) -> Any:  # supervisord answers with whatever the method is made for
    """Call a method of supervisord's XML-RPC interface; `NoAnswerError` if nothing answers.

    Raises another `StackError` if supervisord is there and doesn't answer in time.
    """
    seconds = STOP_SECONDS if method == "stopProcess" else REQUEST_SECONDS
    try:
        with xmlrpc.client.ServerProxy("http://supervisord", transport=_UnixTransport(seconds)) as server:
            return getattr(server.supervisor, method)(*arguments)
    except PermissionError:
        raise  # another user's supervisord is there
    except TimeoutError:
        pid = PID_FILE.read_text().strip() if PID_FILE.exists() else "unknown"
        raise StackError(
            f"supervisord (pid {pid}) does not answer within {seconds} s: it may have been stopped (kill -CONT {pid}); "
            f"if that doesn't help, end it with all its programs (kill -KILL {pid}), and then: make up"
        ) from None
    except (OSError, http.client.HTTPException):
        raise NoAnswerError("the stack is not running, or has just been stopped") from None
    except xmlrpc.client.Fault as fault:
        if "SHUTDOWN_STATE" in fault.faultString:
            raise NoAnswerError("the stack is just being stopped") from None
        raise


def runs(pid: int) -> bool:
    """Whether a process has not ended. One whose status nobody asks for, as in many containers, has no command line."""
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes() != b""
    except OSError:
        return False


class _UnixTransport(xmlrpc.client.Transport):
    """XML-RPC over supervisord's Unix socket, whose answer is waited for so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        return _UnixConnection(str(host), timeout=self._seconds)


class _UnixConnection(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(SOCKET))
