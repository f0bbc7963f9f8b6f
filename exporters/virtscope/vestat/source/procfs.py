"""Files below procfs, wherever that is mounted: a folder is a machine."""

from __future__ import annotations

from pathlib import Path

from virtscope.shell.sources import SourceError, SourceUnavailable


def read_text(procfs: Path, name: str, capabilities: str = "CAP_DAC_READ_SEARCH") -> str:
    """Return the text of the file `name`, such as "vz/vestat"; bytes that aren't UTF-8 as \\xNN.

    Raises SourceUnavailable where it is absent or must not be read (`capabilities` says what it takes besides root),
    SourceError where reading fails.
    """
    path = procfs / name
    try:
        return path.read_bytes().decode(errors="backslashreplace")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SourceUnavailable(
            f"{path} is absent: this is no OpenVZ host, or its kernel lacks that file; run this on the host itself"
        ) from error
    except PermissionError as error:
        raise SourceUnavailable(f"{path} must not be read: run this as root, or give it {capabilities}") from error
    except OSError as error:
        raise SourceError(f"{path} can't be read: {error.strerror}") from error


def read_optional(procfs: Path, name: str) -> str | None:
    """Return the text of a file that not every kernel has, None where it is absent; fails as read_text() does."""
    try:
        return read_text(procfs, name)
    except SourceUnavailable as error:
        if isinstance(error.__cause__, PermissionError):
            raise
        return None
