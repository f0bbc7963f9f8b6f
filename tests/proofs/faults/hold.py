"""Stops a process like a deadlock until it is killed: `python -m tests.proofs.faults.hold PID`.

It uses ptrace(2), so that no signal stops it and it can still be killed. The process state is t.
"""

import contextlib
import ctypes
import os
import sys
from pathlib import Path

PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207  # include/uapi/linux/ptrace.h
WALL = 0x40000000  # __WALL: threads too


def hold(pid: int) -> None:
    """Stop all threads of the process; return once it has ended. Raises OSError if it may not be traced."""
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for thread in [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]:
        for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
            if ptrace(request, thread, None, None) != 0 and Path(f"/proc/{pid}/task/{thread}").exists():
                raise OSError(ctypes.get_errno(), f"ptrace of {thread}")
    print("held", flush=True)
    with contextlib.suppress(ChildProcessError):  # no child left
        while True:
            os.waitpid(-1, WALL)


if __name__ == "__main__":
    hold(int(sys.argv[1]))
