"""Wait for conditions instead of sleeping."""

import time
from collections.abc import Callable
from typing import TypeVar

import requests

T = TypeVar("T")


def wait_for(
    what: Callable[[], T],
    seconds: float = 120,
    *,
    every: float = 0.1,
    until: Callable[[T], object] = bool,
    explain: Callable[[], object] = str,
    not_yet: tuple[type[Exception], ...] = (requests.RequestException,),
) -> T:
    """The first value of `what` for which `until` is true; exceptions in `not_yet` are retried.

    AssertionError, with the last value or error and the text of `explain`, after this many seconds; `what` is called at
    least once.
    """
    deadline = time.monotonic() + seconds
    pause = min(0.005, every)  # growing to `every`: most conditions are true immediately
    while True:
        try:
            last: object = (value := what())
            if until(value):
                return value
        except not_yet as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s; the last was {last!r}\n{explain()}")
        time.sleep(pause)
        pause = min(2 * pause, every)
