"""Removes what the lab has made once the lab has ended without doing so, by `kill -9` for example.

    python3 -m lab.guard PID GROUP PATH CGROUP...

GROUP is a process group to kill, PATH a file or folder to remove; either may be "-". Not PR_SET_PDEATHSIG: that ends
children with the thread that started them, and only Apache's first process.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.programs import CHECKOUT
from lab.cgroups import Cgroup, TierLimits, mounted

CLEANUP_SECONDS = 20.0
POLL_SECONDS = 0.2
_NONE = "-"


def start(path: Path | None, cgroups: Sequence[Cgroup] = (), group: int | None = None) -> subprocess.Popen[bytes]:
    """Start a guard of this process for a folder or a file, for cgroups and for a process group that it has made."""
    what = (_NONE if group is None else str(group), str(path or _NONE), *(cgroup.name for cgroup in cgroups))
    return subprocess.Popen(
        [sys.executable, "-m", "lab.guard", str(os.getpid()), *what],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # The names stay locked until it has cleaned up.
        pass_fds=[cgroup.lock for cgroup in cgroups if cgroup.lock is not None],
        start_new_session=True,
    )


def stop(watching: subprocess.Popen[bytes]) -> None:
    """End a guard: what it guards is gone."""
    watching.kill()
    watching.wait()


@contextlib.contextmanager
def guarded(folder: Path, cgroups: Sequence[tuple[Cgroup, TierLimits]] = ()) -> Iterator[None]:
    """A new folder, and cgroups with limits, while the block lasts. Raises `CgroupError`, leaving nothing behind."""
    with contextlib.ExitStack() as at_last, contextlib.ExitStack() as ending:  # until all is gone it is guarded
        shutil.rmtree(folder, ignore_errors=True)  # after a crash of the machine
        folder.mkdir(parents=True)
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        for cgroup, limits in cgroups:
            cgroup.make(limits)
            ending.callback(cgroup.remove)
        at_last.callback(stop, start(folder, [cgroup for cgroup, _ in cgroups]))
        yield


def await_all(folders: Path) -> None:
    """Wait until the guards of a killed lab have removed all in here; after a crash of the machine there are none."""
    deadline = time.monotonic() + CLEANUP_SECONDS
    while any(folders.glob("*")) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def main() -> None:
    parent, group, given, *names = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGHUP):  # for the parent, which then stops by itself
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        ended = os.pidfd_open(int(parent))
        if os.getppid() == int(parent):  # otherwise the parent ended before, and its pid may have been reused
            select.select([ended], [], [])
    if group != _NONE:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(group), signal.SIGKILL)
    for name in names:
        Cgroup(name, mounted()).remove()
    path, deadline = Path(given), time.monotonic() + CLEANUP_SECONDS
    while given != _NONE and path.exists() and time.monotonic() < deadline:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)  # in vain where a program that another guard kills still writes
        else:
            path.unlink(missing_ok=True)
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main()
