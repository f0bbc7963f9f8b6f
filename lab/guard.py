"""Programs, folders and cgroups that end with the lab, also if it is killed by `kill -9`: a guard cleans up.

    python3 -m lab.guard PID MARK PATH...

The guard waits for the end of the lab. Then it kills all programs with the mark in their environment, so all that the
lab has started; removes the cgroups below /virtscope that have no owner; and removes these files and folders,
after unmounting what is mounted in them.
PR_SET_PDEATHSIG isn't enough: it ends children when the thread that started them ends, and only Apache's first process.
"""

import contextlib
import os
import secrets
import select
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab import cgroups, wait_until
from lab.cgroups import Cgroup, CgroupError, TierLimits
from lab.processes import Process, ProgramError
from lab.slow_disk import release

CLEANUP_SECONDS = 20.0
POLL_SECONDS = 0.2
MARK = f"VIRTSCOPE_LAB_{secrets.token_hex(8)}"  # an environment variable of all that this process starts


@contextlib.contextmanager
def watching(*paths: Path, holding: Sequence[int] = ()) -> Iterator[None]:
    """These files and folders are removed at the end of the block, by a guard if this process is killed before.

    The guard also ends programs and removes cgroups. `holding`: descriptors that it keeps open, such as of a lock.
    """
    command = [sys.executable, "-m", "lab.guard", str(os.getpid()), MARK, *map(str, paths)]
    unmarked = {name: value for name, value in os.environ.items() if name != MARK}  # no guard ends another
    with Process("a guard", command, environment=unmarked, pass_fds=holding):
        os.environ[MARK] = ""
        try:
            yield
        finally:
            for path in paths:
                _remove(path)


@contextlib.contextmanager
def guarded(folder: Path, limited: Sequence[tuple[Cgroup, TierLimits]] = ()) -> Iterator[list[Process]]:
    """A new folder, and cgroups with limits, while the block lasts. Raises `CgroupError`, leaving nothing behind.

    The block may add programs of the cgroups to the list: they have ended afterwards.
    """
    running: list[Process] = []
    # Cgroups end before the folder that their programs use.
    with contextlib.ExitStack() as ending, contextlib.ExitStack() as made:

        @made.callback
        def _stop() -> None:
            for process in running:
                process.stop()

        for cgroup, limits in limited:  # also ends programs left by a killed run
            cgroup.make(limits)
            made.callback(cgroup.remove)
        shutil.rmtree(folder, ignore_errors=True)  # after a crash of the machine
        folder.mkdir(parents=True)
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        yield running


def main() -> None:
    parent, mark, *paths = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGHUP):  # for the parent, which then stops by itself
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        ended = os.pidfd_open(int(parent))
        if os.getppid() == int(parent):  # otherwise the parent ended before, and its pid may have been reused
            select.select([ended], [], [])
    wait_until(lambda: not _kill(f"{mark}=".encode()), CLEANUP_SECONDS, POLL_SECONDS)
    with contextlib.suppress(CgroupError):  # there may be none
        cgroups.remove_abandoned()
    wait_until(lambda: all(_remove(Path(path)) for path in paths), CLEANUP_SECONDS, POLL_SECONDS)


def _kill(mark: bytes) -> list[int]:
    """Kill all processes with this in their environment; returns them."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # ended, or another user's
            if mark in environment.read_bytes().split(b"\0"):
                found.append(int(environment.parent.name))
                os.kill(found[-1], signal.SIGKILL)
    return found


def _remove(path: Path) -> bool:
    """Whether it is gone: a program of a cgroup may still be writing to a folder."""
    if path.is_dir():
        try:
            release(path)
        except (ProgramError, OSError):
            return False  # files of another file system mustn't be removed through its mount
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return not path.exists()


if __name__ == "__main__":
    main()
