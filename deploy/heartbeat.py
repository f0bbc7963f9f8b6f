"""Whether deploy/liveness.py hangs: it touches a file at each look, and supervisord, in which this runs, watches that.

`watch` is an RPC interface for supervisord.conf, which is how supervisord loads a plugin; it has no methods.
"""

from __future__ import annotations

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
    """Liveness lives."""
    with contextlib.suppress(OSError):  # a disk that is read-only
        FILE.touch()


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal: state T of /proc/PID/stat, see proc(5). A debugger's are t."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


class Heartbeat:
    """Kills liveness, which supervisord then starts again, if it is stopped or silent for `HUNG_SECONDS`."""

    def __init__(self, supervisord: Any) -> None:
        self._supervisord = supervisord
        self._seen: tuple[int, float] = (0, 0.0)  # process, and the file's time; by our clock, which doesn't jump:
        self._since = 0.0

    def tick(self, _event: object) -> None:
        """Every five seconds."""
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
    """For `supervisor.rpcinterface_factory`."""
    events.subscribe(events.Tick5Event, Heartbeat(supervisord).tick)
    return object()
