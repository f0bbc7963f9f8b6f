"""Removes an instance once the process that started it has ended without doing so, by `kill -9` for example.

    python3 -m lab.servers.guard PID FOLDER CGROUP...

Not PR_SET_PDEATHSIG: that ends children with the thread that started them, and only Apache's first process.
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
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
