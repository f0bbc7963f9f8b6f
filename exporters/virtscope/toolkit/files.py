"""Files of procfs and sysfs, read whole, but never without a bound: their size isn't known before."""

from __future__ import annotations

import errno
import os
from pathlib import Path

LARGEST = 64 << 20  # bytes; /proc/user_beancounters of 10,000 containers is about 26 MiB

_CHUNK = 1 << 16


def read_bytes(path: Path) -> bytes:
    """Return what the file holds; raises OSError as open() and read() do, and with EFBIG for more than LARGEST."""
    chunks: list[bytes] = []
    size = 0
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > LARGEST:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return b"".join(chunks)


def read_text(path: Path, errors: str = "strict") -> str:
    """Return the text of the file, with `errors` as bytes.decode() takes them; raises as read_bytes() does."""
    return read_bytes(path).decode(errors=errors)
