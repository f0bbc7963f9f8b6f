"""What a parser must not accept, many texts in one test."""

from __future__ import annotations

import re
from collections.abc import Callable


def assert_refused(kind: type[Exception], words: str, call: Callable[..., object], *arguments: object) -> str:
    """Fail, with the arguments, unless the call raises this kind with a message in which `words` is found.

    Returns the message.
    """
    try:
        call(*arguments)
    except kind as error:
        said = str(error)
        assert re.search(words, said), f"{arguments} were refused with {said!r}, without {words!r}"
        return said
    raise AssertionError(f"{arguments} were accepted")
