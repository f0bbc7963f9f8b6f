"""The configuration file and those it names: read, and watched for changes."""

from __future__ import annotations

import errno
import os
from pathlib import Path


class WatchedFiles:
    """The files a configuration was read from, each as it was just before it was read."""

    def __init__(self) -> None:
        self._stamps: dict[Path, tuple[int, ...] | None] = {}

    def read(self, path: Path) -> bytes:
        """Return the content; raises OSError."""
        if "\0" in str(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))  # Python would raise a ValueError
        self._stamps[path] = _stamp(path)  # first: a change while it is read then shows at the next look
        return path.read_bytes()

    def unchanged(self) -> bool:
        """Say whether every file looks as it did; costs a stat each."""
        return all(_stamp(path) == stamp for path, stamp in self._stamps.items())


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    # Not the modification time: only the change time tells of repaired permissions, and no writer can set it back.
    return found.st_ino, found.st_size, found.st_ctime_ns
