"""A machine that boots its own systemd, like a watched host.

It has its own namespaces, including a network namespace with only loopback. It lacks the capabilities and files with
which systemd would configure this machine's kernel.
"""

import os
import tempfile
from pathlib import Path
from typing import ClassVar, Self

from tests.distributions.chroots import ENCLOSED, MissingError
from tests.distributions.machine import Enclosed
from tests.support.waiting import wait_for

START_SECONDS = 120
UNIFIED_SINCE = 232  # first systemd that supports cgroup v2
NOT_ITS_OWN = "-sys_boot,-sys_module,-sys_rawio,-sys_time"  # would change the kernel that it shares with this machine
# Arguments: a cgroup, which becomes the root of the hierarchy for systemd, and the command.
_JOIN = 'echo $$ >"$0/cgroup.procs" && exec "$@"'
_BOOT = """\
set -e
mount --bind "$1" "$1"
cd "$1"
hostname host
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
if [ "$2" = old ]; then
  mount -t tmpfs tmpfs sys/fs/cgroup
  mkdir sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd,xattr cgroup sys/fs/cgroup/systemd
else
  mount -t cgroup2 cgroup2 sys/fs/cgroup
fi
mount -t tmpfs -o mode=755 tmpfs dev
cd dev
cp -a /dev/full /dev/null /dev/random /dev/tty /dev/urandom /dev/zero .
ln -s /proc/self/fd fd
mkdir pts shm
cd ..
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
pivot_root . .
umount -l .
echo ready
exec chroot . env -i container=other /lib/systemd/systemd >/dev/null 2>&1
"""


class BootedMachine(Enclosed):
    """A machine whose `root` has systemd installed; the root is written to.

    old: systemd is older than `UNIFIED_SINCE`.
    """

    namespaces: ClassVar = [*Enclosed.namespaces, "--cgroup", "--ipc", "--net", "--uts"]

    def __init__(self, root: Path, *, old: bool = False) -> None:
        for timer in ("apt-daily", "apt-daily-upgrade"):  # they would lock apt at any time
            mask = root / f"etc/systemd/system/{timer}.timer"
            mask.unlink(missing_ok=True)
            mask.symlink_to("/dev/null")
        self._cgroup = _new_cgroup(old=old)
        join = ["sh", "-c", _JOIN, str(self._cgroup)]
        boot = [*ENCLOSED, "--cgroup", "--ipc", "--net", "--uts", "setpriv", f"--bounding-set={NOT_ITS_OWN}"]
        boot += ["sh", "-c", _BOOT, "boot", str(root), "old" if old else ""]
        super().__init__([*join, *boot])

    def __enter__(self) -> Self:
        super().__enter__()

        def ask(*what: str) -> str:
            return self.run(["systemctl", "--no-pager", *what], Path("/"), user=0).stdout.strip()

        started = ("running", "degraded")
        state = wait_for(lambda: ask("is-system-running"), START_SECONDS, until=started.__contains__)
        if state == "degraded":
            failed = ask("--failed")
            self.__exit__()
            raise RuntimeError(f"systemd does not start:\n{failed}")
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()

        def remove() -> bool:
            for folder, _subfolders, _files in os.walk(self._cgroup, topdown=False):
                Path(folder).rmdir()
            return True

        wait_for(remove, START_SECONDS, not_yet=(OSError,))  # until its last process has gone


def _new_cgroup(*, old: bool) -> Path:
    """A new cgroup; raises `MissingError`."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    for _source, folder, kind, options, *_ in mounts:
        if (kind == "cgroup" and "name=systemd" in options.split(",")) if old else kind == "cgroup2":
            try:
                return Path(tempfile.mkdtemp(prefix="virtscope-", dir=folder))
            except OSError as error:
                raise MissingError(f"no cgroup can be made for a systemd: {error}") from None
    wanted = "-t cgroup -o none,name=systemd" if old else "-t cgroup2"
    raise MissingError(f"no cgroups for a systemd are mounted here: mount {wanted} cgroup FOLDER")
