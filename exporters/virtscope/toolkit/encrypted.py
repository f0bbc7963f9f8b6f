"""TLS on a non-blocking socket; no peer can occupy the server's thread.

`ssl.SSLSocket` reads until it has application data. A TLS 1.3 peer that sends key updates faster than OpenSSL handles
them would occupy the server's only thread, before any password check. Here each call reads once from the socket, and a
peer that sends too many bytes without application data is disconnected.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Mapping
from typing import Any, Callable, TypeVar

MAX_CONTROL_BYTES = 64 << 10  # of handshake and other TLS messages, without application data between them

_READ_AT_ONCE = 4 << 10  # scrapers' requests are smaller

T = TypeVar("T")


class EncryptedSocket:
    """The server's side of a TLS connection.

    The methods are those of ssl.SSLSocket: ssl.SSLWantReadError and ssl.SSLWantWriteError say what to wait for before
    repeating the call. `send` must be repeated with the same data.
    """

    def __init__(self, context: ssl.SSLContext, sock: socket.socket) -> None:
        """`sock` must not block."""
        self._socket = sock
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._encrypted = memoryview(b"")  # taken from _outgoing, not sent yet
        self._accepted = 0  # application bytes in it
        self._control_bytes = 0
        self._shut = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def do_handshake(self) -> None:
        self._flush()
        self._take_for(self._tls.do_handshake)
        self._flush()

    def getpeercert(self) -> Mapping[str, Any] | None:
        return self._tls.getpeercert()

    def recv(self, most: int) -> bytes:
        """Return the received bytes; b"" at the end."""
        if self._shut:
            return self._socket.recv(most)
        self._flush()
        try:
            return self._take_for(lambda: self._tls.read(most))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def send(self, data: memoryview) -> int:
        """Send all of `data` or nothing; returns the number of bytes sent."""
        if not self._accepted:
            self._accepted = self._tls.write(data)
        self._flush()
        sent, self._accepted = self._accepted, 0
        return sent

    def shutdown(self, how: int) -> None:
        self._shut = True
        self._socket.shutdown(how)

    def close(self) -> None:
        self._socket.close()

    def _take_for(self, step: Callable[[], T]) -> T:
        """Return the result of `step`; if it wants to read, read once from the socket and retry."""
        try:
            try:
                done = step()
            except ssl.SSLWantReadError:
                self._take()
                done = step()
        finally:
            with contextlib.suppress(OSError):  # alerts and TLS replies; otherwise at the next call
                self._flush()
        self._control_bytes = 0
        return done

    def _take(self) -> None:
        try:
            taken = self._socket.recv(_READ_AT_ONCE)
        except BlockingIOError:
            raise ssl.SSLWantReadError from None
        if taken:
            self._incoming.write(taken)
        else:
            self._incoming.write_eof()
        self._control_bytes += len(taken)
        if self._control_bytes > MAX_CONTROL_BYTES:
            raise ConnectionAbortedError("too many TLS messages without application data")

    def _flush(self) -> None:
        while self._encrypted or self._outgoing.pending:
            if not self._encrypted:
                self._encrypted = memoryview(self._outgoing.read())
            try:
                sent = self._socket.send(self._encrypted)
            except BlockingIOError:
                raise ssl.SSLWantWriteError from None
            self._encrypted = self._encrypted[sent:]
