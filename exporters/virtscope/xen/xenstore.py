"""Reads XenStore through its daemon's socket in Dom0: one connection for any number of values.

Wire protocol: xen/include/public/io/xs_wire.h and docs/misc/xenstore.txt in Xen's source. If the daemon runs in a
domain of its own, there is no socket.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence

from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceTimeout, SourceUnavailable

TIMEOUT = 5.0  # seconds for each answer

_SOCKETS = ("/run/xenstored/socket", "/var/run/xenstored/socket")
_HEADER = struct.Struct("=IIII")  # type, request id, transaction id, length of the payload
_READ, _ERROR = 2, 16
_MAX_BYTES = 4096  # XENSTORE_PAYLOAD_MAX


def read_values(paths: Sequence[str]) -> list[bytes | None]:
    """Return the value at each path, None if missing.

    Raises SourceUnavailable without a XenStore socket, SourceTimeout, SourceMalformed, and SourceError with the
    daemon's error (EACCES) if it refuses.
    """
    place = os.environ.get("XENSTORED_PATH") or next(filter(os.path.exists, _SOCKETS), "")
    if not place:
        raise SourceUnavailable(f"no XenStore: there is none of {', '.join(_SOCKETS)}")
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT)
            connection.connect(place)
            return [_read(connection, request, path) for request, path in enumerate(paths, 1)]
    except socket.timeout as error:
        raise SourceTimeout(f"{place} does not answer for {TIMEOUT:.0f} s") from error
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise SourceUnavailable(f"no XenStore at {place}: {error.strerror}") from error
    except OSError as error:
        raise SourceError(f"{place}: {error.strerror}") from error


def _read(connection: socket.socket, request: int, path: str) -> bytes | None:
    body = path.encode() + b"\0"
    connection.sendall(_HEADER.pack(_READ, request, 0, len(body)) + body)
    kind, answered, _, length = _HEADER.unpack(_exactly(connection, _HEADER.size))
    if answered != request or length > _MAX_BYTES or kind not in {_READ, _ERROR}:
        raise SourceMalformed(f"XenStore answers {path} by type {kind}, request {answered}, {length} bytes")
    value = _exactly(connection, length)
    if kind == _READ:
        return value
    word = value.rstrip(b"\0").decode("ascii", "backslashreplace")
    if word == "ENOENT":
        return None
    raise SourceError(f"XenStore refuses {path}: {word}")


def _exactly(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        chunk = connection.recv(length - len(received))
        if not chunk:
            raise SourceError("XenStore closed the connection")
        received += chunk
    return received
