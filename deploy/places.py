"""Folders of programs and downloads, and their locks."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


class ProgramsError(Exception):
    """A program is unavailable. The message is one line for the user: the problem and the remedy."""


class UnavailableError(ProgramsError):
    """A program is unavailable from this source; another may have it."""


def cache(kind: str) -> Path:
    """Folder for downloads of one kind."""
    return Path(os.environ.get("VIRTSCOPE_CACHE") or CHECKOUT / ".stack" / "cache").absolute() / kind


@contextlib.contextmanager
def exclusively(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on `folder`; other processes wait."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
