"""The checkout, the folders of downloads, and their locks; errors of what can't be downloaded or built."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from deploy import StackError

CHECKOUT = Path(__file__).resolve().parents[1]


class ProgramsError(StackError):
    """A program is unavailable."""


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
