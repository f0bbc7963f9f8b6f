"""Removes an instance once the process that started it has ended without doing so, by `kill -9` for example.

    python3 -m lab.servers.guard PID PATH CGROUP...

Not PR_SET_PDEATHSIG: that ends children with the thread that started them, and only Apache's first process.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lab.cgroups import Cgroup, mounted
from tools.programs import CHECKOUT

CLEANUP_SECONDS = 20.0
POLL_SECONDS = 0.2


def start(path: Path, cgroups: Sequence[Cgroup]) -> subprocess.Popen[bytes]:
    """Start a guard of this process for a folder or a file, and for cgroups that this process has made."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "lab.servers.guard", str(os.getpid()), str(path)),
            *(cgroup.name for cgroup in cgroups),
        ],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # The names stay locked until it has cleaned up.
        pass_fds=[cgroup.lock for cgroup in cgroups if cgroup.lock is not None],
        start_new_session=True,
    )


def await_all(folders: Path) -> None:
    """Wait until the guards of a killed lab have removed all in here; after a crash of the machine there are none."""
    deadline = time.monotonic() + CLEANUP_SECONDS
    while any(folders.glob("*")) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def main() -> None:
    parent, given, *names = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGHUP):  # for the parent, which then stops by itself
        signal.signal(number, signal.SIG_IGN)
    try:
        ended = os.pidfd_open(int(parent))
    except ProcessLookupError:
        pass
    else:
        if os.getppid() == int(parent):  # otherwise the parent ended before, and its pid may have been reused
            select.select([ended], [], [])
    for name in names:
        Cgroup(name, mounted()).remove()
    path, deadline = Path(given), time.monotonic() + CLEANUP_SECONDS
    while path.exists() and time.monotonic() < deadline:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)  # in vain where a program that another guard kills still writes
        else:
            path.unlink(missing_ok=True)
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main()
