"""Detects a hanging deploy/liveness.py, which touches a file in each cycle. Runs in supervisord.

`watch` is an RPC interface without methods, as that is how supervisord.conf loads a plugin.
"""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

from supervisor import events

LIVENESS = "liveness"
FILE = Path(__file__).resolve().parents[1] / ".stack" / "run" / "liveness"
HUNG_SECONDS = 30.0  # longer than any step between two beats


def beat() -> None:
    """Touch the file."""
    with contextlib.suppress(OSError):  # such as a read-only disk
        FILE.touch()


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal: state T in /proc/PID/stat, see proc(5). A debugger's stop is t."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


class Heartbeat:
    """Kills liveness if it is stopped or silent for `HUNG_SECONDS`; supervisord restarts it."""

    def __init__(self, supervisord: Any) -> None:
        self._supervisord = supervisord
        self._seen: tuple[int, float] = (0, 0.0)  # pid, and the file's mtime
        self._since = 0.0  # of that, by time.monotonic(), which doesn't jump

    def tick(self, _event: object) -> None:
        """Check, every five seconds."""
        pid = self._supervisord.process_groups[LIVENESS].processes[LIVENESS].pid
        modified = 0.0
        with contextlib.suppress(OSError):
            modified = FILE.stat().st_mtime
        if not pid or (pid, modified) != self._seen:
            self._seen, self._since = (pid, modified), time.monotonic()
        if pid and (is_stopped(pid) or time.monotonic() - self._since > HUNG_SECONDS):
            self._supervisord.options.logger.critical(f"{LIVENESS} (pid {pid}) hangs and is killed")
            self._since = time.monotonic()
            os.kill(pid, signal.SIGKILL)


def watch(supervisord: Any, **_settings: str) -> object:
    """Entry point for `supervisor.rpcinterface_factory`."""
    events.subscribe(events.Tick5Event, Heartbeat(supervisord).tick)
    return object()
