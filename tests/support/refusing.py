"""What is to be refused, in tables of cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def refusal(kind: type[E], take: Callable[..., object], *given: object) -> E:
    """The exception with which `take` refuses this; AssertionError, which names what was given, if it doesn't."""
    try:
        taken = take(*given)
    except kind as error:
        return error
    raise AssertionError(f"{given!r} is taken, for {taken!r}")
