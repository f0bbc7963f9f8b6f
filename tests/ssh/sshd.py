"""A real sshd on loopback, whose hosts are folders: each has a key with a forced command that reads its folder."""

import contextlib
import getpass
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.support.needs import missing
from tests.support.ports import free_port
from tests.support.waiting import wait_for
from virtscope.ssh import authorized_key

SCRIPT = authorized_key.SCRIPT.read_text()
PATH_LINE = next(line for line in SCRIPT.splitlines() if line.startswith("PATH="))


def program() -> str:
    """sshd's path; skips if it isn't installed, except in CI."""
    found = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    return found or missing("no sshd: apt-get install openssh-server")


def script(proc: Path | str = "/proc", sys: Path | str = "/sys", programs: Path | None = None) -> str:
    """host.sh for a machine whose files are in these folders, with `programs` before the system's."""
    folders = f"{programs}:" if programs else ""
    line = PATH_LINE.replace("PATH=", f"PATH={folders}").replace("proc=/proc", f"proc={proc}")
    return SCRIPT.replace(PATH_LINE, line.replace("sys=/sys", f"sys={sys}"))


class Sshd:
    """Serves hosts until the `with` block ends; add_host() before or while it runs."""

    def __init__(self, folder: Path, address: str = "127.0.0.1", within: Sequence[str] = ()) -> None:
        """`within` is a prefix of its command, which runs it where it has the address."""
        self.folder = folder
        self._within = within
        self.port = free_port()
        # bash started by sshd reads ~/.bashrc before the forced command: not the one of the user who runs the tests.
        self.home = folder / "home"
        self.home.mkdir()
        self._program = program()
        self._authorized_keys = folder / "authorized_keys"
        self._authorized_keys.touch()
        self.new_host_key()
        (folder / "sshd_config").write_text(
            f"ListenAddress {address}:{self.port}\nHostKey {folder}/host_key\nPidFile none\nMaxStartups 1000\n"
            f"AuthorizedKeysFile {self._authorized_keys}\nPermitRootLogin forced-commands-only\nStrictModes no\n"
            f"UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nSetEnv HOME={self.home}\n"
        )
        self.config = folder / "ssh_config"
        self.config.write_text(
            f"Host *\n  HostName {address}\n  Port {self.port}\n  User {getpass.getuser()}\n"
            f"  HostKeyAlias fixture\n  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile none\n"
            f"  IdentitiesOnly yes\n  IdentityAgent none\n  IdentityFile {folder}/key-%n\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def new_host_key(self) -> None:
        """Give it another host key at its next start than the one clients know."""
        key = self.folder / "host_key"
        first = not key.exists()
        key.unlink(missing_ok=True)
        make_key(key)
        if first:
            public = Path(f"{key}.pub").read_text()
            (self.folder / "known_hosts").write_text(f"fixture {public}")

    def start(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # as Debian's unit does
        self._process = subprocess.Popen(
            [*self._within, self._program, "-D", "-e", "-f", self.folder / "sshd_config"],
            stderr=(self.folder / "sshd.log").open("ab"),
        )
        process = self._process
        wait_for(lambda: process.poll() is not None or "listening on" in self.log(), 30, every=0.02, explain=self.log)
        assert process.poll() is None, self.log()

    def stop(self) -> None:
        if self._process:
            below = descendants(self._process.pid)
            self._process.kill()
            self._process.wait(30)
            for pid in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            (self.folder / "sshd.log").unlink()
            self._process = None

    def log(self) -> str:
        return (self.folder / "sshd.log").read_text()

    def add_host(self, name: str, command: str | None = None) -> None:
        """Add a host with this forced command; None: the one in an authorized_keys line as printed for users."""
        key = self.folder / f"key-{name}"
        make_key(key)
        public = Path(f"{key}.pub").read_text()
        line = authorized_key.line(public)
        if command is not None:
            escaped = command.replace('"', r"\"")
            line = f'restrict,command="{escaped}" {public.strip()}'
        with self._authorized_keys.open("a") as keys:
            keys.write(f"{line}\n")

    def pids(self) -> list[int]:
        assert self._process
        return descendants(self._process.pid)


def make_key(file: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", file], check=True, timeout=30)


def descendants(pid: int) -> list[int]:
    """The processes below this one, started by any of its threads."""
    children: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may end meanwhile
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                children += map(int, (task / "children").read_text().split())
    return [each for child in children for each in (child, *descendants(child))]


def command_of(pid: int) -> str:
    """A process's command line; "" if it has ended."""
    try:
        return shlex.join(Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode().split("\0"))
    except OSError:
        return ""


def running(command: str) -> list[int]:
    pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    return [pid for pid in pids if command_of(pid) == command]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
