"""Output of commands: escaped text, tables and progress."""

import contextlib
import fcntl
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy import StackError


def printable(text: str) -> str:
    """Untrusted text, safe for a terminal: escapes characters that could move the cursor or hide text."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns; each row is one line, whatever its cells contain."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """Print a step and its duration."""
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
    """Hold the lock of the folder `run` for commands that start and stop its programs; `StackError` if it is taken."""
    run.mkdir(parents=True, exist_ok=True)
    with (run / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(f"another {commands} is running in this checkout: wait for it") from None
        yield
