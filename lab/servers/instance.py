"""An application: a web server and a database server, each in a cgroup of its own."""

from __future__ import annotations

import contextlib
import http.client
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from deploy import privileges, programs
from deploy.programs import ProgramsError
from lab import LabError, guard
from lab.cgroups import Cgroup, TierLimits, mounted
from lab.servers import database, enclosure

WEB, DB = TIERS = ("web", "db")
PHP_OPTIONS = ["-c", "/srv/config/php.ini", "-y", "/srv/config/php-fpm.conf"]
APACHE = ["/usr/sbin/apache2", "-f", "/srv/config/apache.conf", "-DFOREGROUND"]
START_SECONDS = 60.0  # until a server answers, on a busy machine
STOP_SECONDS = 5.0  # to end by itself, then it is killed
LOG_LINES = 5
LOOPBACK = "127.0.0.1"


class ServerError(LabError):
    """A server can't be started, or has ended. Holds the end of its log."""


class Instance:
    """One two-tier application, such as "auction-1", whose tiers are the cgroups /virtscope/auction-1-web and -db.

    It ends with the process that created it, however that ends. Needs root.
    """

    def __init__(
        self, name: str, folder: Path, *, web_port: int, db_port: int, web: TierLimits, db: TierLimits
    ) -> None:
        """`folder` is for its files; `start` creates it, replacing what a killed run left there."""
        self.name = name
        self.folder = folder.absolute()
        self.url = f"http://{LOOPBACK}:{web_port}"
        self.status_url = f"{self.url}/server-status?auto"
        self.web_log = self.folder / WEB / "access.log"
        self.ports = {WEB: web_port, DB: db_port}
        self._limits = {WEB: web, DB: db}
        hierarchies = mounted()
        self._cgroups = {tier: Cgroup(f"{name}-{tier}", hierarchies) for tier in TIERS}
        self._processes: dict[str, list[subprocess.Popen[bytes]]] = {tier: [] for tier in TIERS}
        self._guard: subprocess.Popen[bytes] | None = None
        # The databases can be reached by all users of this machine.
        self._passwords = {user: secrets.token_urlsafe() for user in ("site", "sensor")}

    @property
    def db_dsn(self) -> str:
        """The data source name of a sensor's login to the database, as for Telegraf's inputs.mysql."""
        return f"sensor:{self._passwords['sensor']}@tcp({LOOPBACK}:{self.ports[DB]})/"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start both tiers and return once pages are served; raises `LabError`, leaving nothing behind."""
        if os.geteuid() != 0:
            raise LabError("the lab creates cgroups, which needs root: use sudo")
        try:
            for tier in TIERS:
                self._cgroups[tier].make(self._limits[tier])  # and processes left by a killed run are ended
            for tier, port in self.ports.items():
                _require_free(port, f"{self.name}'s {tier} tier")
            self._guard = guard.start(self.folder, [*self._cgroups.values()])
            self._prepare_folder()
            for tier in (DB, WEB):
                self.restart(tier)
        except (ProgramsError, OSError) as error:
            self.stop()
            raise LabError(f"{self.name} can't be started: {error}") from None
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop both tiers, and remove their cgroups and files; does nothing if it isn't running."""
        for tier in TIERS:
            self._end(tier)
        if self._guard is not None:  # otherwise only cgroups were created
            shutil.rmtree(self.folder, ignore_errors=True)
            guard.stop(self._guard)
            self._guard = None
        for cgroup in self._cgroups.values():
            if cgroup.is_ours:
                cgroup.remove()

    def limit(self, tier: str, limits: TierLimits) -> None:
        """Change what a running tier may use; raises `CgroupError`."""
        self._cgroups[tier].limit(limits)
        self._limits[tier] = limits

    def kill(self, tier: str) -> None:
        """Kill a tier's processes, as the kernel does when it runs out of memory."""
        self._cgroups[tier].kill()
        for process in self._processes[tier]:
            process.wait()
        self._processes[tier].clear()

    def restart(self, tier: str) -> None:
        """Restart a tier, and return once it answers; raises `ServerError`."""
        self._end(tier)
        if tier == DB:
            self._start_database()
        else:
            self._start_web()

    def reopen_log(self) -> None:
        """Have the web tier write to a new access log, after the old one was renamed; as Debian's logrotate does."""
        self._processes[WEB][-1].send_signal(signal.SIGUSR1)

    def check(self) -> None:
        """Raise `ServerError` if a tier has ended unexpectedly."""
        for tier, processes in self._processes.items():
            if any(process.poll() is not None for process in processes):
                raise ServerError(f"{self.name}'s {tier} tier has ended{self._log_end(tier)}")

    def cpu_seconds(self, tier: str) -> float:
        """CPU time that a tier has used since `start`."""
        return self._cgroups[tier].cpu_seconds()

    def memory_bytes(self, tier: str) -> int:
        """Memory that a tier uses, page cache included."""
        return self._cgroups[tier].memory_bytes()

    def _prepare_folder(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        enclosure.prepare(self.folder)
        enclosure.make_state(self.folder / WEB)
        enclosure.make_state(self.folder / DB, fill=lambda folder: database.copy_to(folder / "data"))
        users = self.folder / "config" / "users.sql"
        users.touch(0o600)
        users.write_text(
            "".join(
                f"CREATE OR REPLACE USER {user}@'{LOOPBACK}' IDENTIFIED BY '{password}';\n"
                for user, password in self._passwords.items()
            )
            + f"GRANT SELECT ON auction.* TO site@'{LOOPBACK}';\n"
        )
        os.chown(users, privileges.NOBODY, privileges.NOBODY)

    def _start_database(self) -> None:
        flags = [f"--bind-address={LOOPBACK}", f"--port={self.ports[DB]}", "--init-file=/srv/config/users.sql"]
        self._start(DB, [*database.MARIADBD, *flags], {})
        self._wait(DB, self._database_answers)

    def _start_web(self) -> None:
        database_address = {
            "DB_HOST": LOOPBACK,
            "DB_PORT": str(self.ports[DB]),
            "DB_PASSWORD": self._passwords["site"],
        }
        self._start(WEB, _php(), database_address)
        self._start(WEB, APACHE, {"WEB_LISTEN": f"{LOOPBACK}:{self.ports[WEB]}"})
        self._wait(WEB, self._page_answers)

    def _start(self, tier: str, command: list[str], environment: dict[str, str]) -> None:
        with privileges.append_to(self.folder / tier / "error.log") as log:  # owned by nobody: Apache opens it itself
            process = subprocess.Popen(
                self._cgroups[tier].joining(enclosure.enclosed(self.folder / tier, command)),
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the parent process; this one stops its servers
            )
        self._processes[tier].append(process)

    def _wait(self, tier: str, answers: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self.check()
            with contextlib.suppress(OSError, http.client.HTTPException):
                if answers():
                    return
            time.sleep(0.05)
        raise ServerError(f"{self.name}'s {tier} tier did not answer within {START_SECONDS:g} s{self._log_end(tier)}")

    def _database_answers(self) -> bool:
        with socket.create_connection((LOOPBACK, self.ports[DB]), timeout=2) as connection:
            return connection.recv(5) != b""  # the start of its greeting

    def _page_answers(self) -> bool:
        connection = http.client.HTTPConnection(LOOPBACK, self.ports[WEB], timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", "/health")
            return connection.getresponse().status == http.HTTPStatus.OK

    def _end(self, tier: str) -> None:
        for process in self._processes[tier]:
            process.terminate()
        for process in self._processes[tier]:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
        if self._processes[tier]:
            self.kill(tier)

    def _log_end(self, tier: str) -> str:
        lines: list[str] = []
        # If it is a link or a pipe, the server has replaced its log.
        with (
            contextlib.suppress(OSError),
            open(self.folder / tier / "error.log", errors="replace", opener=_open_nothing_else) as log,
        ):
            lines = log.read().splitlines()[-LOG_LINES:]
        return "; its log ends:\n" + "\n".join(f"  {line}" for line in lines)


def _open_nothing_else(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _require_free(port: int, whose: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise LabError(f"port {port}, wanted for {whose}, can't be used: {error.strerror}") from None


def _php() -> list[str]:
    """The command of PHP's process manager, whose name has the distribution's version of PHP."""
    [program] = programs.root(programs.LAB).glob("usr/sbin/php-fpm[0-9]*")
    return [f"/usr/sbin/{program.name}", *PHP_OPTIONS]
