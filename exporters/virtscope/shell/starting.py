"""The very start of an exporter, in which a signal ends it without a word."""

from __future__ import annotations

import importlib
import signal
import sys
from types import FrameType


def run(command_line: str) -> None:
    """Run the main() of this module, such as "virtscope.xentop.cli".

    Until a server or a recording takes the signals over, SIGTERM and SIGINT end the program at once, with what it
    started, and with status 0. The module is imported after that is so: imports are the most part of a start.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    importlib.import_module(command_line).main()


def _end(_number: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # another one must not interrupt the end
        signal.signal(number, signal.SIG_IGN)
    sys.exit(0)
