"""Tables of inputs that must be refused."""

import re
from collections.abc import Callable
from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def assert_refused(kind: type[Exception], words: str, call: Callable[..., object], *arguments: object) -> str:
    """Fail, with the arguments, unless the call raises this exception with a message that matches `words`.

    Returns the message.
    """
    said = str(refusal(kind, call, *arguments))
    assert re.search(words, said), f"{arguments} were refused with {said!r}, without {words!r}"
    return said


def refusal(kind: type[E], take: Callable[..., object], *given: object) -> E:
    """The exception with which `take` refuses this input; AssertionError with the input if it doesn't."""
    try:
        taken = take(*given)
    except kind as error:
        return error
    raise AssertionError(f"{given!r} is taken, for {taken!r}")


def assert_one_line(error: Exception, *words: str) -> None:
    """Fail unless the message is one line that contains these words."""
    message = str(error)
    assert "\n" not in message
    assert [word for word in words if word not in message] == [], message
