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

    def error(self) -> OSError:
        """Return it as the host's."""
        number = next((number for number, name in errno.errorcode.items() if name == self.errno), errno.EIO)
        return OSError(number, os.strerror(number))


# Contents of files, by path below procfs.
Files = Mapping[str, Union[bytes, Unread]]


def is_number(word: str) -> bool:
    """Whether this is a number as the kernel prints it: of at most 64 bits, in ASCII digits."""
    return word.isascii() and word.isdigit() and len(word) <= 20


def with_end(rows: str, header: str) -> str:
    """Return a table's rows, the last one with its line break if only that is missing, as in a pasted text.

    A complete row ends where the header ends. A row that begins with its id has a wider one, which shifts the rest.
    """
    last = rows[rows.rfind("\n") + 1 :].rstrip()
    title = header.split(maxsplit=1)[0]
    shift = max(len(re.split(r"[\s:]", last, maxsplit=1)[0]) - header.index(title) - len(title), 0)
    return f"{rows}\n" if last and len(last) - shift == len(header.rstrip()) else rows


class RecordedProcfs:
    """A recorded procfs; show() sets its files."""

    def __init__(self) -> None:
        self._files: Files = {}

    def show(self, files: Files) -> None:
        """Set the files."""
        self._files = files

    def __str__(self) -> str:
        return "/proc"

    def read_bytes(self, name: str) -> bytes:
        """Return a file's content; raises OSError as on the host, FileNotFoundError if absent."""
        content = self._files.get(name, Unread("ENOENT"))
        if isinstance(content, Unread):
            raise content.error()
        return content

    def folders(self, name: str) -> list[str]:
        """Return the sorted names of a folder's subfolders; raises like read_bytes()."""
        below = [path[len(name) + 1 :] for path in self._files if path.startswith(f"{name}/")]
        if not below or name in self._files:
            self.read_bytes(name)  # raises
        return sorted({path.partition("/")[0] for path in below if "/" in path})


Procfs = Union[Path, RecordedProcfs]


def read_text(procfs: Procfs, name: str, capabilities: str = "CAP_DAC_READ_SEARCH", absence: str = NO_HOST) -> str:
    """Return the text of the file `name`, such as "vz/vestat"; bytes that aren't UTF-8 as \\xNN.

    Raises SourceUnavailable if it is absent (`absence` explains that) or not permitted (`capabilities` are an
    alternative to root), SourceError if reading fails.
    """
    with _named_failures(f"{procfs}/{name}", capabilities, absence):
        content = procfs.read_bytes(name) if isinstance(procfs, RecordedProcfs) else bounded.read_bytes(procfs / name)
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
    with _named_failures(f"{procfs}/{name}", capabilities, absence):
        if isinstance(procfs, RecordedProcfs):
            return procfs.folders(name)
        with os.scandir(procfs / name) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())


@contextmanager
def _named_failures(path: str, capabilities: str, absence: str) -> Iterator[None]:
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
