"""A machine with another release, as its ordinary user sees it: a debootstrapped root in its own namespaces.

All processes and mounts are in these namespaces, which end with their first process and so with pytest.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from tests.distributions.chroots import ENCLOSED, USER

READY = "ready"
END_SECONDS = 30
HOME = Path("/home/user")
CACHE = "/var/cache/virtscope"
# pivot_root, because a chroot can't create user namespaces. Arguments: root, home, cache, ro or rw.
_ENTER = """\
set -e
root=$1 home=$2 cache=$3
mount --bind "$root" "$root"
cd "$root"
mount --bind "$home" home/user
mount --bind "$cache" var/cache/virtscope
for file in etc/hosts etc/resolv.conf etc/pip.conf etc/ssl/certs/ca-certificates.crt; do
  [ ! -e "/$file" ] || mount --bind "/$file" "$file"
done
mount -t proc proc proc
mount --rbind /sys sys
mount -o remount,bind,ro sys
mount -t tmpfs -o mode=755 tmpfs dev
for device in full null random tty urandom zero; do touch dev/$device; mount --bind /dev/$device dev/$device; done
ln -s /proc/self/fd dev/fd
mkdir dev/shm
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -o remount,bind,$4 .
pivot_root . .
umount -l .
echo ready
exec chroot . sh -c 'while :; do sleep 1000; done'
"""


class Enclosed:
    """Processes in their own namespaces with their own root; the first one reports when it is ready."""

    namespaces: ClassVar = ["--mount", "--pid"]

    def __init__(self, command: Sequence[str]) -> None:
        self._outside = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        assert self._outside.stdout is not None
        said = self._outside.stdout.readline().decode().strip()
        if said != READY:
            self.__exit__()
            raise RuntimeError(f"the machine does not start: {said}")
        pid = self._outside.pid
        self._first = Path(f"/proc/{pid}/task/{pid}/children").read_text().strip()
        return self

    def __exit__(self, *_: object) -> None:
        self._outside.kill()
        self._outside.wait(END_SECONDS)

    @property
    def entering(self) -> list[str]:
        """The command prefix that runs a command on this machine."""
        return ["nsenter", f"--target={self._first}", *self.namespaces, "--root"]

    def run(
        self, command: Sequence[str], folder: Path = HOME, variables: Mapping[str, str] | None = None, user: int = USER
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on this machine with a clean environment; stdout and stderr in `stdout`."""
        environment = {name: value for name, value in os.environ.items() if re.match(r"PIP_|(?i:\w+_proxy)", name)}
        environment |= {"HOME": str(HOME), "LANG": "C.UTF-8", "VIRTSCOPE_CACHE": CACHE}
        environment |= {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **(variables or {})}
        enter = [*self.entering, f"--wdns={folder}", f"--setuid={user}", f"--setgid={user}"]
        return subprocess.run(
            [*enter, *command], env=environment, text=True, check=False, timeout=600,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def processes(self) -> Sequence[str]:
        """The command lines of all processes on this machine, except the one that keeps it alive."""
        listed = self.run(["sh", "-c", 'for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline; echo; done']).stdout
        return [line for line in listed.splitlines() if line and "sleep 1000" not in line and "/proc/[0-9]" not in line]


class Machine(Enclosed):
    """The user's writes go to `home` and `cache`; `root` is only changed if it is `writable`."""

    def __init__(self, root: Path, home: Path, cache: Path, *, writable: bool = False) -> None:
        for folder in (home, cache):
            folder.mkdir(parents=True, exist_ok=True)
            os.chown(folder, USER, USER)
            folder.chmod(0o755)  # readable for nobody too, who runs the lab's servers
        self.home = home
        enter = ["sh", "-c", _ENTER, "enter", str(root), str(home), str(cache), "rw" if writable else "ro"]
        super().__init__([*ENCLOSED, *enter])
