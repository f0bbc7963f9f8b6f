"""An application: a web server and a database server, each in its own cgroup."""

import contextlib
import http.client
import os
import secrets
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from deploy import privileges, programs
from deploy.programs import ProgramsError
from lab import LabError, guard, slow_disk, wait_until
from lab.cgroups import Cgroup, TierLimits, mounted
from lab.processes import LOOPBACK, Process
from lab.prometheus import DIRECT
from lab.servers import database, enclosure

WEB, DB = TIERS = ("web", "db")
PHP_OPTIONS = ["-c", "/srv/config/php.ini", "-y", "/srv/config/php-fpm.conf"]
APACHE = ["/usr/sbin/apache2", "-f", "/srv/config/apache.conf", "-DFOREGROUND"]
START_SECONDS = 60.0  # until a server answers, on a busy machine
STOP_SECONDS = 5.0  # to end by itself before it is killed


class Instance:
    """One two-tier application, such as "auction-1", whose tiers are the cgroups /virtscope/auction-1-web and -db.

    It ends with the process that created it, for any reason. Needs root.
    """

    def __init__(self, name: str, folder: Path, ports: Mapping[str, int], disk: Path | None = None) -> None:
        """Ports, and limits, are by tier. `folder` is for its files; `start` creates it, replacing a killed run's.

        disk: a folder of another disk for the database, which then keeps little in memory.
        """
        self.name = name
        self.folder = folder.absolute()
        self.url = f"http://{LOOPBACK}:{ports[WEB]}"
        self.status_url = f"{self.url}/server-status?auto"
        self.web_log = self.folder / WEB / "access.log"
        self.ports = dict(ports)
        self._disk = disk
        self._cgroups = {tier: Cgroup(f"{name}-{tier}", mounted()) for tier in TIERS}
        self._processes: dict[str, list[Process]] = {tier: [] for tier in TIERS}
        self._ending = contextlib.ExitStack()
        # All users of this machine can reach the databases.
        self._passwords = {user: secrets.token_urlsafe() for user in ("site", "sensor")}

    @property
    def db_dsn(self) -> str:
        """The data source name of a sensor's database login, for Telegraf's inputs.mysql."""
        return f"sensor:{self._passwords['sensor']}@tcp({LOOPBACK}:{self.ports[DB]})/"

    def start(self, limits: Mapping[str, TierLimits]) -> None:
        """Start both tiers and return once pages are served; raises `LabError`, leaving nothing behind."""
        limited = [(self._cgroups[tier], limits[tier]) for tier in TIERS]
        try:
            with contextlib.ExitStack() as ending:
                ending.enter_context(guard.guarded(self.folder, limited))
                for tier in TIERS:
                    ending.callback(self._end, tier)
                self._prepare_folder()
                for tier in (DB, WEB):
                    self.restart(tier)
                self._ending = ending.pop_all()
        except (ProgramsError, OSError) as error:
            raise LabError(f"{self.name} can't be started: {error}") from None

    def stop(self) -> None:
        self._ending.close()

    def limit(self, limits: Mapping[str, TierLimits]) -> None:
        for tier in TIERS:
            self._cgroups[tier].limit(limits[tier])

    def kill(self, tier: str) -> None:
        self._cgroups[tier].kill()
        for process in self._processes[tier]:
            process.popen.wait()
        self._processes[tier].clear()

    def restart(self, tier: str) -> None:
        """Restart a tier, and return once it answers; raises `LabError`."""
        self._end(tier)
        port = str(self.ports[DB])
        if tier == DB:
            flags = [f"--bind-address={LOOPBACK}", f"--port={port}", "--init-file=/srv/config/users.sql"]
            if self._disk:
                flags.append(database.KEEPING_LITTLE)
            self._start(DB, [*database.MARIADBD, *flags], {})
        else:
            [manager] = programs.root(programs.LAB).glob("usr/sbin/php-fpm[0-9]*")  # the version is in its name
            php = [f"/usr/sbin/{manager.name}", *PHP_OPTIONS]
            self._start(WEB, php, {"DB_HOST": LOOPBACK, "DB_PORT": port, "DB_PASSWORD": self._passwords["site"]})
            self._start(WEB, APACHE, {"WEB_LISTEN": f"{LOOPBACK}:{self.ports[WEB]}"})

        def answered() -> bool:
            self.check()
            if tier == WEB:
                with DIRECT.open(f"{self.url}/health", timeout=5):
                    return True
            with socket.create_connection((LOOPBACK, self.ports[DB]), timeout=2) as connection:
                return connection.recv(5) != b""  # the start of its greeting

        if not wait_until(answered, START_SECONDS, not_yet=(OSError, http.client.HTTPException)):
            raise self._processes[tier][-1].failure(f"did not answer within {START_SECONDS:g} s")

    def check(self) -> None:
        for processes in self._processes.values():
            for process in processes:
                process.check()

    def cap(self, caps: Mapping[str, float | None]) -> None:
        """Change only the caps, in CPUs; None: no cap."""
        for tier, cap in caps.items():
            self._cgroups[tier].cap(cap)

    def cpu_seconds(self) -> float:
        return sum(self.cpu_by_tier().values())

    def cpu_by_tier(self) -> dict[str, float]:
        return {tier: cgroup.cpu_seconds() for tier, cgroup in self._cgroups.items()}

    def _prepare_folder(self) -> None:
        enclosure.prepare(self.folder)
        if self._disk:
            of_db = self._disk / self.name
            shutil.rmtree(of_db, ignore_errors=True)  # of an earlier start
            of_db.mkdir()
            (self.folder / DB).symlink_to(of_db)
        else:
            (self.folder / DB).mkdir()
        database.copy_to(self.folder / DB / "data")
        for tier in TIERS:
            privileges.hand_over(self.folder / tier)
        if self._disk:
            slow_disk.write_back(self._disk)
        users = self.folder / "config" / "users.sql"
        users.touch(0o600)
        create = "CREATE OR REPLACE USER {}@'{}' IDENTIFIED BY '{}'"
        statements = [create.format(user, LOOPBACK, its) for user, its in self._passwords.items()]
        statements.append(f"GRANT SELECT ON auction.* TO site@'{LOOPBACK}'")
        users.write_text("".join(f"{statement};\n" for statement in statements))
        os.chown(users, privileges.NOBODY, privileges.NOBODY)

    def _start(self, tier: str, command: list[str], environment: dict[str, str]) -> None:
        process = Process(
            f"{self.name}'s {tier} tier",
            self._cgroups[tier].joining(enclosure.enclosed(self.folder / tier, command)),
            privileges.append_to(self.folder / tier / "error.log"),  # owned by nobody: Apache opens it itself
            environment={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", **environment},
        )
        self._processes[tier].append(process)

    def _end(self, tier: str) -> None:
        for process in self._processes[tier]:
            process.stop(STOP_SECONDS)
        if self._processes[tier]:
            self.kill(tier)
