"""Kills a program that the lab runs, and what it has started, once the lab has ended without doing so.

    python3 -m lab.reaper PID GROUP

As lab.servers.guard, for programs outside of the lab's cgroups: GROUP is a process group.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys

from tools.programs import CHECKOUT


def start(group: int) -> subprocess.Popen[bytes]:
    """Start one for a group that this process has made; it is to be killed and waited for once that has ended."""
    return subprocess.Popen(
        [sys.executable, "-m", "lab.reaper", str(os.getpid()), str(group)],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main() -> None:
    parent, group = map(int, sys.argv[1:])
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        ended = os.pidfd_open(parent)
        if os.getppid() == parent:  # otherwise its pid may have been reused
            select.select([ended], [], [])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
