"""What commands print: text that moves no cursor, tables, and how far they are."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy import StackError


def printable(text: str) -> str:
    """Text from elsewhere, safe for a terminal: what could move the cursor or hide text is written out."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns; each row is a line, whatever its cells hold."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """Show what is being done and how long it took."""
    print(f"{what} ...", end=" ", flush=True)
    start = time.monotonic()
    try:
        yield
    except BaseException:
        print("failed", flush=True)
        raise
    print(f"{time.monotonic() - start:.1f} s", flush=True)


@contextlib.contextmanager
def alone(run: Path, commands: str) -> Iterator[None]:
    """One of the commands that start and stop what is in the folder `run` at a time; `StackError` for the second."""
    run.mkdir(parents=True, exist_ok=True)
    with (run / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(f"another {commands} is running in this checkout: wait for it") from None
        yield
