"""The very start of an exporter, in which a signal ends it without a word."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from types import FrameType

INSIST_SECONDS = 0.2


def run(command_line: str) -> None:
    """Run the main() of this module, such as "virtscope.xen.cli".

    Until a server or a recording takes the signals over, SIGTERM and SIGINT end the program at once, with what it
    started, and with status 0. The module is imported after that is so: imports are the most part of a start.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    came, wake_up = os.pipe()
    os.set_blocking(wake_up, False)
    signal.set_wakeup_fd(wake_up, warn_on_full_buffer=False)
    threading.Thread(target=_insist, args=(came,), name="signals", daemon=True).start()
    importlib.import_module(command_line).main()


def _insist(came: int) -> None:
    """Send each signal again until it has been heard.

    Python runs a handler only once the main thread comes out of what it waits in, such as opening a file on a network
    disk that hangs. A signal that arrives just before it goes in, or in another thread, doesn't wake it.
    """
    while number := os.read(came, 1)[0]:
        while signal.getsignal(number) is _end:
            time.sleep(INSIST_SECONDS)
            signal.pthread_kill(threading.main_thread().ident or 0, number)


def _end(_number: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # another one must not interrupt the end
        signal.signal(number, signal.SIG_IGN)
    sys.exit(0)
