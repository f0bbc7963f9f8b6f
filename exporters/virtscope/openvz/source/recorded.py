"""procfs as a recording has it: the files of one reading, in the place of a folder."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import NamedTuple, Union


class Unread(NamedTuple):
    """In the place of a file or folder that could not be read."""

    errno: str  # "EACCES"


# What each file holds, by its path below procfs.
Files = Mapping[str, Union[bytes, Unread]]


class RecordedProcfs:
    """A path in a recorded procfs, used as a pathlib.Path is. show() sets what the files are now."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._files: Files = {}

    def show(self, files: Files) -> None:
        """Let these be the files."""
        self._files = files

    def __truediv__(self, name: str) -> RecordedProcfs:
        below = RecordedProcfs(f"{self._path}/{name}".lstrip("/"))
        below.show(self._files)
        return below

    def __str__(self) -> str:
        return f"/proc/{self._path}"

    def exists(self) -> bool:
        """Return whether there is such a file or folder."""
        return self._path in self._files or any(path.startswith(f"{self._path}/") for path in self._files)

    def read_bytes(self) -> bytes:
        """Return what the file holds; raises OSError as on the host, FileNotFoundError where there is no such file."""
        content = self._files.get(self._path, Unread("ENOENT"))
        if isinstance(content, Unread):
            raise self._error(content)
        return content

    def folders(self) -> list[str]:
        """Return the names of the folders below this one that hold files, sorted; raises as read_bytes() does."""
        unread = self._files.get(self._path)
        if isinstance(unread, Unread):
            raise self._error(unread)
        if not self.exists():
            raise self._error(Unread("ENOENT"))
        parts = [path[len(self._path) + 1 :].split("/") for path in self._files if path.startswith(f"{self._path}/")]
        return sorted({first for first, *rest in parts if rest})

    def _error(self, unread: Unread) -> OSError:
        number = next((number for number, name in errno.errorcode.items() if name == unread.errno), errno.EIO)
        return OSError(number, os.strerror(number), str(self))
