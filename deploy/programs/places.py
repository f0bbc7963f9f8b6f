"""Where programs and what is downloaded of them are kept, and who may change it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


class ProgramsError(Exception):
    """A program can't be had. The message is one line for the user: what is wrong and what to do."""


class UnavailableError(ProgramsError):
    """A program can't be had in this way; another may do."""


def cache(kind: str) -> Path:
    """Folder for downloads of one kind."""
    return Path(os.environ.get("VIRTSCOPE_CACHE") or CHECKOUT / ".stack" / "cache").absolute() / kind


@contextlib.contextmanager
def exclusively(folder: Path) -> Iterator[None]:
    """Hold `folder` alone among processes; whoever comes second waits."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
