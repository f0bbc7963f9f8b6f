"""TLS on a non-blocking socket, of which no peer can take more than a turn.

`ssl.SSLSocket` reads until it has something for the application. A peer of TLS 1.3 that changes its key again and again
(a message that is for TLS alone) faster than OpenSSL follows so keeps the thread that serves all others, for as long as
it likes and before any password is asked for. Here each call reads once from the socket, and a peer that sends much of
nothing is cut off.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Mapping
from typing import Any, Callable, TypeVar

MOST_OF_NOTHING = 64 << 10  # bytes that a peer may send for TLS alone, in its handshake or between two bytes for us

_READ_AT_ONCE = 4 << 10  # the requests of scrapers are smaller

T = TypeVar("T")


class EncryptedSocket:
    """The server's end of a TLS connection.

    Its methods are those of ssl.SSLSocket, which say by ssl.SSLWantReadError and ssl.SSLWantWriteError what to wait for
    before the same call is made again, but for `send`, which must be called with the same data then.
    """

    def __init__(self, context: ssl.SSLContext, sock: socket.socket) -> None:
        """`sock` must not block."""
        self._socket = sock
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._encrypted = memoryview(b"")  # taken from _outgoing, not sent yet
        self._accepted = 0  # bytes of the application's that are in it
        self._of_nothing = 0
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
        """Return what has come, b"" at the end."""
        if self._shut:
            return self._socket.recv(most)
        self._flush()
        try:
            return self._take_for(lambda: self._tls.read(most))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def send(self, data: memoryview) -> int:
        """Send all of `data` or nothing, and return how much that was."""
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
        """Return what `step` gives; where it wants to read, give it once what the socket has, and let it try again."""
        try:
            try:
                done = step()
            except ssl.SSLWantReadError:
                self._take()
                done = step()
        finally:
            with contextlib.suppress(OSError):  # an alert, or answers to what was for TLS alone; else at the next call
                self._flush()
        self._of_nothing = 0
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
        self._of_nothing += len(taken)
        if self._of_nothing > MOST_OF_NOTHING:
            raise ConnectionAbortedError("the client sends much that is for TLS alone")

    def _flush(self) -> None:
        while self._encrypted or self._outgoing.pending:
            if not self._encrypted:
                self._encrypted = memoryview(self._outgoing.read())
            try:
                sent = self._socket.send(self._encrypted)
            except BlockingIOError:
                raise ssl.SSLWantWriteError from None
            self._encrypted = self._encrypted[sent:]
