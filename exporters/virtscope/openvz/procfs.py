"""Files below procfs: of a live host, at any mount point, or of a recorded reading."""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Union

from virtscope.toolkit import bounded
from virtscope.toolkit.collect import SourceError, SourceUnavailable

log = logging.getLogger(__name__)

NO_HOST = "this is no OpenVZ host, or its kernel lacks that file; run this on the host itself"
# The kernel requires both for beancounters, whatever the files' modes.
BC_CAPABILITIES = "CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH"

# An ended container with memory not yet freed: its id and its kernel address (bc_readdir() in kernel/bc/proc.c of
# 2.6.32). It is skipped, because a new container may have the same id.
_LEFT_BEHIND = re.compile(r"[0-9]+-[0-9a-f]+")


class Unread(NamedTuple):
    """The error of a file or folder that could not be read."""

    errno: str  # "EACCES"


# Contents of files, by path below procfs.
Files = Mapping[str, Union[bytes, Unread]]


def is_number(word: str) -> bool:
    """Whether this is a number as the kernel prints it: of at most 64 bits, in ASCII digits."""
    return word.isascii() and word.isdigit() and len(word) <= 20


class RecordedProcfs:
    """A path in a recorded procfs, used like a pathlib.Path. show() sets the files."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._files: Files = {}

    def show(self, files: Files) -> None:
        """Set the files."""
        self._files = files

    def __truediv__(self, name: str) -> RecordedProcfs:
        below = RecordedProcfs(f"{self._path}/{name}".lstrip("/"))
        below.show(self._files)
        return below

    def __str__(self) -> str:
        return f"/proc/{self._path}"

    def read_bytes(self) -> bytes:
        """Return the file's content; raises OSError as on the host, FileNotFoundError if absent."""
        content = self._files.get(self._path, Unread("ENOENT"))
        if isinstance(content, Unread):
            raise self._error(content)
        return content

    def folders(self) -> list[str]:
        """Return the sorted names of the subfolders; raises like read_bytes()."""
        content = self._files.get(self._path)
        if isinstance(content, Unread):
            raise self._error(content)
        below = [path[len(self._path) + 1 :] for path in self._files if path.startswith(f"{self._path}/")]
        if not below and content is None:
            raise self._error(Unread("ENOENT"))
        return sorted({path.partition("/")[0] for path in below if "/" in path})

    def _error(self, unread: Unread) -> OSError:
        number = next((number for number, name in errno.errorcode.items() if name == unread.errno), errno.EIO)
        return OSError(number, os.strerror(number), str(self))


Procfs = Union[Path, RecordedProcfs]


def read_text(procfs: Procfs, name: str, capabilities: str = "CAP_DAC_READ_SEARCH", absence: str = NO_HOST) -> str:
    """Return the text of the file `name`, such as "vz/vestat"; bytes that aren't UTF-8 as \\xNN.

    Raises SourceUnavailable if it is absent (`absence` explains that) or not permitted (`capabilities` are an
    alternative to root), SourceError if reading fails.
    """
    path = procfs / name
    with _named_failures(path, capabilities, absence):
        content = path.read_bytes() if isinstance(path, RecordedProcfs) else bounded.read_bytes(path)
        return content.decode(errors="backslashreplace")


def read_optional(procfs: Procfs, name: str, capabilities: str = "CAP_DAC_READ_SEARCH") -> str | None:
    """Return the text of an optional file, None if it is absent; raises like read_text()."""
    try:
        return read_text(procfs, name, capabilities)
    except SourceUnavailable as error:
        if isinstance(error.__cause__, PermissionError):
            raise
        return None


def read_each_bc(procfs: Procfs, file: str, absence: str) -> Iterator[tuple[str, str]]:
    """Yield ctid and text of /proc/bc/<id>/`file` for every container and the host (ctid "0").

    Skips containers without the file, because they have ended or the kernel lacks it. Sub-beancounters of early kernels
    are folders within their container's, and part of its values. Raises like read_text(); `absence` explains a missing
    /proc/bc.
    """
    for ctid in list_folders(procfs, "bc", BC_CAPABILITIES, absence):
        if not _LEFT_BEHIND.fullmatch(ctid):
            text = read_optional(procfs, f"bc/{ctid}/{file}", BC_CAPABILITIES)
            if text is not None:
                yield ctid, text


def list_folders(
    procfs: Procfs, name: str, capabilities: str = "CAP_DAC_READ_SEARCH", absence: str = NO_HOST
) -> list[str]:
    """Return the sorted names of the folders in `name`, such as "bc"; raises like read_text()."""
    path = procfs / name
    with _named_failures(path, capabilities, absence):
        if isinstance(path, RecordedProcfs):
            return path.folders()
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())


@contextmanager
def _named_failures(path: Procfs, capabilities: str, absence: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SourceUnavailable(f"{path} is absent: {absence}") from error
    except PermissionError as error:
        raise SourceUnavailable(f"{path} must not be read: run this as root, or give it {capabilities}") from error
    except OSError as error:
        raise SourceError(f"{path} can't be read: {error.strerror}") from error


class SecondaryFiles:
    """Reads a source's additional files: an unreadable one loses only its own values, and is logged once."""

    def __init__(self, procfs: Procfs) -> None:
        self._procfs = procfs
        self._failures: dict[str, str] = {}  # error of each file at its last read

    @property
    def unread(self) -> int:
        """The number of existing files that could not be read."""
        return len(self._failures)

    def read(self, name: str) -> str | None:
        """Return the text of the file; None if it is absent or unreadable."""
        try:
            text = read_optional(self._procfs, name)
        except SourceError as error:
            if self._failures.get(name) != str(error):
                log.warning("file can't be read, its metrics are missing", extra={"fields": {"err": error}})
            self._failures[name] = str(error)
            return None
        self._failures.pop(name, None)
        return text
