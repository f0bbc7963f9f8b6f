"""Lines of columns behind a name, as xl and xm print them: a name holds anything, so columns count from the right."""

from __future__ import annotations

import re

_DIGITS = re.compile(rb"[0-9]{1,20}")


def split(line: bytes, count: int) -> tuple[str, list[bytes]] | None:
    """Split a line into a name and `count` columns; None where it has too few.

    Blanks at the name's end can't be told from padding and are left out. "" is a domain that has no name.
    """
    fields = line.rsplit(None, count)
    if len(fields) == count + 1:
        return text(fields[0].rstrip(b" ")), fields[1:]
    return ("", fields) if len(fields) == count and line[:1].isspace() else None


def text(name: bytes) -> str:
    """Decode what anyone may have chosen freely; bytes that are no UTF-8 stay visible as \\x escapes."""
    return name.decode("utf-8", "backslashreplace")


def number(digits: bytes) -> int | None:
    """Return an unsigned 64 bit number, or None where these are not the digits of one."""
    value = int(digits) if _DIGITS.fullmatch(digits) else 1 << 64
    return value if value < 1 << 64 else None


def numbers(columns: list[bytes]) -> list[int] | None:
    """Return the numbers in all of these columns, or None where one isn't."""
    values = [value for value in map(number, columns) if value is not None]
    return values if len(values) == len(columns) else None
