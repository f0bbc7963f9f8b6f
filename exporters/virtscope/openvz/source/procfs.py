"""Files below procfs, wherever that is mounted: a folder is a machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Union

from virtscope.openvz.source.recorded import RecordedProcfs
from virtscope.toolkit import files
from virtscope.toolkit.sources import SourceError, SourceUnavailable

Procfs = Union[Path, RecordedProcfs]

NO_HOST = "this is no OpenVZ host, or its kernel lacks that file; run this on the host itself"


def read_text(procfs: Procfs, name: str, capabilities: str = "CAP_DAC_READ_SEARCH", absence: str = NO_HOST) -> str:
    """Return the text of the file `name`, such as "vz/vestat"; bytes that aren't UTF-8 as \\xNN.

    Raises SourceUnavailable where it is absent (`absence` says what that means) or must not be read (`capabilities`
    says what it takes besides root), SourceError where reading fails.
    """
    path = procfs / name
    with _named_failures(path, capabilities, absence):
        content = path.read_bytes() if isinstance(path, RecordedProcfs) else files.read_bytes(path)
        return content.decode(errors="backslashreplace")


def list_folders(
    procfs: Procfs, name: str, capabilities: str = "CAP_DAC_READ_SEARCH", absence: str = NO_HOST
) -> list[str]:
    """Return the names of the folders in the folder `name`, such as "bc", sorted; fails as read_text() does."""
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


def read_optional(procfs: Procfs, name: str, capabilities: str = "CAP_DAC_READ_SEARCH") -> str | None:
    """Return the text of a file that not every kernel has, None where it is absent; fails as read_text() does."""
    try:
        return read_text(procfs, name, capabilities)
    except SourceUnavailable as error:
        if isinstance(error.__cause__, PermissionError):
            raise
        return None
