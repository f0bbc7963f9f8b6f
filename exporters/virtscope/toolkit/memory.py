"""Files in memory, for APIs that need a path and data that must not be written to a disk."""

from __future__ import annotations

import os
import tempfile

SHARED_MEMORY = "/dev/shm"  # noqa: S108  a file there is made without a name


def file_in_memory(name: str) -> int:
    """Return the descriptor of a new file in memory, deleted with its last descriptor; raises OSError.

    name: shown in /proc only; it can't be opened by name.
    """
    try:
        return os.memfd_create(name)
    except (AttributeError, OSError):  # a Python built for a glibc before 2.27, or Linux before 3.17
        try:
            with tempfile.TemporaryFile(dir=SHARED_MEMORY) as file:
                return os.dup(file.fileno())
        except OSError as error:
            problem = f"there is neither memfd_create nor a {SHARED_MEMORY} to write to: {error.strerror}"
            raise OSError(error.errno, problem) from None
