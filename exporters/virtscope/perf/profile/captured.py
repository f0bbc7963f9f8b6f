"""Text as it was captured: with what terminals, mail programs and web pages put into it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from virtscope.toolkit.sources import SourceRubbish

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[()][0-9A-Z]|[=>78])|\x0f")
_BLANKS = {ord(blank): " " for blank in "\u00a0\u2007\u202f"} | {ord(nothing): None for nothing in "\u200b\ufeff"}
_QUOTE = re.compile(r"(?:> ?)+")
_SHOWN = 120  # characters of a line


def clean(text: str) -> str:
    """Return the text without colours and other escapes of a terminal, and with plain blanks."""
    if "\x1b" in text or "\x0f" in text:
        text = _ESCAPE.sub("", text)
    return text if text.isascii() else text.translate(_BLANKS)


def unquoted(lines: Sequence[str]) -> list[str]:
    """Return the lines of a mail without the marks of a quotation, if most of them have one."""
    written = [line for line in lines if line.strip()]
    if 2 * sum(line.startswith(">") for line in written) <= len(written):
        return list(lines)
    return [_QUOTE.sub("", line, count=1) if line.startswith(">") else line for line in lines]


def malformed(program: str, number: int, line: str, problem: str, advice: str) -> SourceRubbish:
    """Return the error for a line, counted from 1: which, what is wrong with it, and what to do."""
    shown = line.strip()
    shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
    return SourceRubbish(f"line {number} of {program} {problem}: {shown!r}; {advice}")
