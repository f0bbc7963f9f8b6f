"""Starts, queries and stops supervisord."""

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

from deploy import StackError, privileges, python_packages
from deploy.programs import CHECKOUT

RUN = CHECKOUT / ".stack" / "run"
LOG = CHECKOUT / ".stack" / "log"
# The kernel's limit for a socket's path (sun_path, 108 with the final NUL), less the suffix of supervisord's temporary
# name.
LONGEST_SOCKET_PATH = 107 - len(".4194304")
STOP_SECONDS = 90  # longer than any stopwaitsecs of supervisord.conf
REQUEST_SECONDS = 10


class NoAnswerError(StackError):
    """supervisord isn't running in this checkout."""


@dataclass(frozen=True)
class Process:
    """A program in supervisord. `state` is supervisord's own in lower case, such as "running"."""

    name: str
    state: str
    since: datetime | None  # of the state; None if it was never started
    exit_status: int  # of its last end; 0 during its first run
    spawn_error: str  # reason of a failed start; otherwise empty
    pid: int  # 0 unless it runs


@dataclass(frozen=True)
class Supervisor:
    """A supervisord for the programs of one configuration file.

    `run` is the folder of its socket and its pid file, `log` the folder of its log, the same as in the configuration;
    `up` is the command that starts it.
    """

    configuration: Path
    run: Path
    log: Path
    python: Path  # of an environment with supervisor
    up: str

    @property
    def socket(self) -> Path:
        """The socket of its RPC interface."""
        return self.run / "supervisor.sock"

    @property
    def pid_file(self) -> Path:
        """Has its pid, until an orderly stop."""
        return self.run / "supervisord.pid"

    def require_short_path(self) -> None:
        """Raise `StackError` if the path of supervisord's socket is too long for the kernel."""
        if len(os.fsencode(self.socket)) > LONGEST_SOCKET_PATH:
            inside = os.path.relpath(self.socket, CHECKOUT)
            longest = LONGEST_SOCKET_PATH - len(os.fsencode(inside)) - 1
            raise StackError(
                f"the path of this checkout is too long for a Unix socket in it: at most {longest} characters"
            )

    def is_running(self) -> bool:
        """Whether this checkout's supervisord answers."""
        try:
            self._call("getState")
        except NoAnswerError:
            return False
        return True

    def pid(self) -> int:
        """The pid in this checkout's pid file; 0 after an orderly stop."""
        try:
            return int(self.pid_file.read_text())
        except (OSError, ValueError):
            return 0

    def was_killed(self) -> bool:
        """Whether supervisord has ended without an orderly stop, and nobody has started or stopped it since."""
        noted = self.pid()
        return noted != 0 and not runs(noted)

    def start(self, environment: Mapping[str, str]) -> None:
        """Start supervisord, which starts no program by itself, with `environment` added to the common variables."""
        self.log.mkdir(parents=True, exist_ok=True)
        self.run.mkdir(parents=True, exist_ok=True)
        command = [str(self.python), "-m", "supervisor.supervisord", "-c", str(self.configuration)]
        variables = {**privileges.environment(os.environ), **environment}
        supervisord = subprocess.run(
            command, cwd=CHECKOUT, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if supervisord.returncode != 0:
            raise StackError(f"supervisord did not start: {(supervisord.stderr or supervisord.stdout).strip()}")
        deadline = time.monotonic() + REQUEST_SECONDS
        while not self.is_running():  # it listens already, but answers only as a daemon
            if time.monotonic() > deadline:
                raise StackError(f"supervisord does not answer: see {self.log / 'supervisord.log'}")
            time.sleep(0.05)

    def start_program(self, name: str) -> None:
        """Start a program unless it is running; `processes` has its state."""
        try:
            self._call("startProcess", name, False)
        except xmlrpc.client.Fault as fault:
            if "ALREADY_STARTED" not in fault.faultString:
                raise StackError(f"supervisord can't start {name}: {fault.faultString}") from None

    def stop_program(self, name: str) -> None:
        """Stop a program if it is running, and wait for its end."""
        with contextlib.suppress(xmlrpc.client.Fault):  # it wasn't running
            self._call("stopProcess", name, True)

    def reload_program(self, name: str) -> None:
        """Make a running program reload its configuration (SIGHUP)."""
        with contextlib.suppress(xmlrpc.client.Fault):  # it wasn't running
            self._call("signalProcess", name, "HUP")

    def take_over_configuration(self) -> None:
        """Make a running supervisord reload its configuration: stops changed and removed programs, adds new ones."""
        ((added, changed, removed),) = self._call("reloadConfig")
        for name in (*changed, *removed):
            self._call("stopProcessGroup", name, True)
            self._call("removeProcessGroup", name)
        for name in (*changed, *added):
            self._call("addProcessGroup", name)

    def processes(self) -> dict[str, Process]:
        """All programs of supervisord.conf by name, running or not."""
        found = {}
        for info in self._call("getAllProcessInfo"):
            at = info["start"] if info["statename"] == "RUNNING" else max(info["start"], info["stop"])
            since = datetime.fromtimestamp(at, UTC) if at else None
            name, state = info["name"], info["statename"].lower()
            found[name] = Process(name, state, since, info["exitstatus"], info["spawnerr"], info["pid"])
        return found

    def stop(self) -> None:
        """Stop all programs and supervisord, and wait for their ends; does nothing if it isn't running."""
        if not self.is_running():
            self.pid_file.unlink(missing_ok=True)  # it was killed, and must not be restarted
            return
        running: int = self._call("getPID")
        self._call("shutdown")
        deadline = time.monotonic() + STOP_SECONDS
        while runs(running):
            if time.monotonic() > deadline:
                raise StackError(f"supervisord (pid {running}) does not stop: see {self.log / 'supervisord.log'}")
            time.sleep(0.05)

    def _call(self, method: str, *arguments: Any) -> Any:  # the type depends on the method
        """Call a method of supervisord's XML-RPC interface; `NoAnswerError` if supervisord isn't running.

        Raises another `StackError` if supervisord runs, but doesn't answer in time.
        """
        seconds = STOP_SECONDS if method.startswith("stopProcess") else REQUEST_SECONDS
        try:
            transport = _UnixTransport(self.socket, seconds)
            with xmlrpc.client.ServerProxy("http://supervisord", transport=transport) as server:
                return getattr(server.supervisor, method)(*arguments)
        except PermissionError:
            raise  # the socket is another user's supervisord's
        except TimeoutError:
            pid = self.pid_file.read_text().strip() if self.pid_file.exists() else "unknown"
            raise StackError(
                f"supervisord (pid {pid}) does not answer within {seconds} s: it may have been stopped "
                f"(kill -CONT {pid}); if that doesn't help, end it with all its programs (kill -KILL {pid}), "
                f"and then: {self.up}"
            ) from None
        except (OSError, http.client.HTTPException):
            raise NoAnswerError("the stack is not running, or has just been stopped") from None
        except xmlrpc.client.Fault as fault:
            if "SHUTDOWN_STATE" in fault.faultString:
                raise NoAnswerError("the stack is just being stopped") from None
            raise


def runs(pid: int) -> bool:
    """Whether a process runs. A zombie, which stays in many containers, has no command line."""
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes() != b""
    except OSError:
        return False


class _UnixTransport(xmlrpc.client.Transport):
    """XML-RPC over supervisord's Unix socket, with a timeout."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__()
        self._path = path
        self._seconds = seconds

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(str(host))
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(self._seconds)
        connection.sock.connect(str(self._path))
        return connection


STACK = Supervisor(Path("deploy/supervisord.conf"), RUN, LOG, python_packages.STACK.python, up="make up")

# The stack's supervisord, for all of deploy/ except the fleet.
require_short_path, is_running, pid = STACK.require_short_path, STACK.is_running, STACK.pid
start, stop, was_killed, processes = STACK.start, STACK.stop, STACK.was_killed, STACK.processes
start_program, stop_program, reload_program = STACK.start_program, STACK.stop_program, STACK.reload_program
