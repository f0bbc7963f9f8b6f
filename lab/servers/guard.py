"""Removes an instance once the process that started it has ended without doing so, by `kill -9` for example.

    python3 -m lab.servers.guard PID FOLDER CGROUP...

Not PR_SET_PDEATHSIG: that ends the children of a thread with the thread, and of Apache only the first process.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys

from lab.cgroups import Cgroup, mounted


def main() -> None:
    parent, folder, *names = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGHUP):  # meant for the parent, which then ends by itself
        signal.signal(number, signal.SIG_IGN)
    try:
        ended = os.pidfd_open(int(parent))
    except ProcessLookupError:
        pass
    else:
        if os.getppid() == int(parent):  # else it had ended before, and the pid may be another's by now
            select.select([ended], [], [])
    for name in names:
        Cgroup(name, mounted()).remove()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
