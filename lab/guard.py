"""Cleans up after a lab that ended without doing so, for example by `kill -9`.

    python3 -m lab.guard PID GROUP PATH CGROUP...

GROUP is a process group to kill, PATH a file or folder to remove; either may be "-". PR_SET_PDEATHSIG isn't enough: it
ends children when the thread that started them ends, and only Apache's first process.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.programs import CHECKOUT
from lab import wait_until
from lab.cgroups import Cgroup, TierLimits, mounted

CLEANUP_SECONDS = 20.0
POLL_SECONDS = 0.2
_NONE = "-"


@contextlib.contextmanager
def watching(path: Path | None = None, cgroups: Sequence[Cgroup] = (), group: int | None = None) -> Iterator[None]:
    """A guard, until the block ends, for a file or folder, cgroups or a process group made by this process."""
    what = (_NONE if group is None else str(group), str(path or _NONE), *(cgroup.name for cgroup in cgroups))
    process = subprocess.Popen(
        [sys.executable, "-m", "lab.guard", str(os.getpid()), *what],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # The names stay locked until it has cleaned up.
        pass_fds=[cgroup.lock for cgroup in cgroups if cgroup.lock is not None],
        start_new_session=True,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def guarded(folder: Path, cgroups: Sequence[tuple[Cgroup, TierLimits]] = ()) -> Iterator[None]:
    """A new folder, and cgroups with limits, while the block lasts. Raises `CgroupError`, leaving nothing behind."""
    # Cgroups end before the folder that their programs use; both are guarded until removed.
    with contextlib.ExitStack() as at_last, contextlib.ExitStack() as ending, contextlib.ExitStack() as made:
        for cgroup, limits in cgroups:  # also ends programs left by a killed run
            cgroup.make(limits)
            made.callback(cgroup.remove)
        shutil.rmtree(folder, ignore_errors=True)  # after a crash of the machine
        folder.mkdir(parents=True)
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        at_last.enter_context(watching(folder, [cgroup for cgroup, _ in cgroups]))
        yield


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
    path = Path(given)

    def gone() -> bool:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)  # fails if a program that another guard kills is still writing
        else:
            path.unlink(missing_ok=True)
        return not path.exists()

    if given != _NONE:
        wait_until(gone, CLEANUP_SECONDS, POLL_SECONDS)


if __name__ == "__main__":
    main()
