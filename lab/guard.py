"""Programs, folders and cgroups that end with the lab, also if it is killed by `kill -9`: a guard cleans up.

    python3 -m lab.guard PID GROUP PATH CGROUP...

GROUP is a process group to kill, PATH a file or folder to remove; either may be "-". PR_SET_PDEATHSIG isn't enough: it
ends children when the thread that started them ends, and only Apache's first process.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab import wait_until
from lab.cgroups import Cgroup, TierLimits, mounted
from lab.processes import Process, ProgramError

CLEANUP_SECONDS = 20.0
POLL_SECONDS = 0.2
_NONE = "-"
_TIMED_OUT = 124  # exit status of timeout(1)
# A program waits here for its guard: if the lab is killed before, only a shell remains, which reads end of input.
_ONCE_GUARDED = 'read -r _ && exec "$@"'


@contextlib.contextmanager
def watching(path: Path | None = None, cgroups: Sequence[Cgroup] = (), group: int | None = None) -> Iterator[None]:
    """A guard, until the block ends, for a file or folder, cgroups or a process group made by this process."""
    what = (_NONE if group is None else str(group), str(path or _NONE), *(cgroup.name for cgroup in cgroups))
    command = [sys.executable, "-m", "lab.guard", str(os.getpid()), *what]
    # The names stay locked until it has cleaned up.
    locks = [cgroup.lock for cgroup in cgroups if cgroup.lock is not None]
    process = Process("a guard", command, Path(os.devnull), pass_fds=locks).popen
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def guarded(folder: Path, cgroups: Sequence[tuple[Cgroup, TierLimits]] = ()) -> Iterator[list[Process]]:
    """A new folder, and cgroups with limits, while the block lasts. Raises `CgroupError`, leaving nothing behind.

    The block may add programs of the cgroups to the list: they have ended afterwards.
    """
    running: list[Process] = []
    # Cgroups end before the folder that their programs use; both are guarded until removed.
    with contextlib.ExitStack() as at_last, contextlib.ExitStack() as ending, contextlib.ExitStack() as made:
        made.callback(_stop, running)
        for cgroup, limits in cgroups:  # also ends programs left by a killed run
            cgroup.make(limits)
            made.callback(cgroup.remove)
        shutil.rmtree(folder, ignore_errors=True)  # after a crash of the machine
        folder.mkdir(parents=True)
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        at_last.enter_context(watching(folder, [cgroup for cgroup, _ in cgroups]))
        yield running


def _stop(running: Sequence[Process]) -> None:
    for process in running:
        process.stop()


@contextlib.contextmanager
def running(name: str, command: Sequence[str], *, holds_input: bool = False) -> Iterator[Process]:
    """A program while the block lasts. It and its descendants end with the block, and after kill -9 of the lab.

    holds_input: its standard input is a pipe that ends with the block or the lab, otherwise empty.
    """
    waiting = _ONCE_GUARDED if holds_input else f"{_ONCE_GUARDED} </dev/null"
    process = Process(name, ["sh", "-c", waiting, "waiting", *command], None, talks=True)
    with contextlib.ExitStack() as ending:
        ending.callback(process.end_input)
        ending.callback(process.popen.wait)
        ending.enter_context(watching(group=process.popen.pid))
        ending.callback(_kill_group, process.popen.pid)
        process.send("\n")
        yield process


def output(name: str, command: Sequence[str], timeout: float, *, holds_input: bool = False) -> str:
    """A program's output; at the end, it and all processes it started have ended. Raises `ProgramError`."""
    with running(name, command, holds_input=holds_input) as process:
        held, process.popen.stdin = process.popen.stdin, None  # communicate() would close it
        try:
            said, how = process.popen.communicate(timeout=timeout)[0], ""
        except subprocess.TimeoutExpired as error:
            said, how = error.output or b"", f"wasn't done after {timeout:g} s"
        process.popen.stdin = held
    if not how and (status := process.popen.returncode):
        how = "wasn't done in time" if status == _TIMED_OUT else f"ended with status {status}"
    if how:
        raise ProgramError(name, how, said.decode(errors="replace"))
    return str(said.decode(errors="replace"))


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def main() -> None:
    parent, group, given, *names = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGHUP):  # for the parent, which then stops by itself
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        ended = os.pidfd_open(int(parent))
        if os.getppid() == int(parent):  # otherwise the parent ended before, and its pid may have been reused
            select.select([ended], [], [])
    if group != _NONE:
        _kill_group(int(group))
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
