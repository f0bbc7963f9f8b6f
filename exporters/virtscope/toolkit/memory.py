"""Files in memory, for what wants a path and has no business on a disk."""

from __future__ import annotations

import os
import tempfile

SHARED_MEMORY = "/dev/shm"  # noqa: S108  a file there is made without a name


def file_in_memory(name: str) -> int:
    """Return the descriptor of a new file that is on no disk, and ends with its last user; raises `OSError`.

    name: for those who look into /proc; nothing can be opened by it.
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
