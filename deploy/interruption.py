"""Interruptions end a program like Ctrl-C, and never its cleanup."""

import signal
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interruptible() -> None:
    """From now on the first signal to end raises `KeyboardInterrupt`.

    Later ones are ignored: users press Ctrl-C twice, and make may pass on a SIGTERM that this process got as well.
    SIGINT interrupts also in the background, where the shell has programs ignore it; SIGHUP does not under nohup.
    """
    for number in _SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def uninterruptible() -> None:
    """From now on signals to end are ignored."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    uninterruptible()
    raise KeyboardInterrupt
