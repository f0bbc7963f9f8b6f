"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def within_a_minute(happens: Callable[[], object]) -> None:
    """Return once it is true; AssertionError if it isn't in time."""
    deadline = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.005)
