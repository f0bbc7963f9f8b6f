"""TLS with clients that follow the protocol but not its conventions."""

import contextlib
import hashlib
import hmac
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import trustme
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from virtscope.toolkit.encrypted import MAX_CONTROL_BYTES, EncryptedSocket

T = TypeVar("T")
PAGE = bytes(range(256)) * 4096  # more than any socket buffer here
CA = trustme.CA()
ISSUED = CA.issue_cert("127.0.0.1")


@contextmanager
def connected(keys: Path) -> Iterator[tuple[EncryptedSocket, ssl.SSLSocket]]:
    """A server's and a client's end after the handshake; the client's secrets are written to a file."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ISSUED.configure_cert(server_context)
    client_context = ssl.create_default_context()
    CA.configure_trust(client_context)
    client_context.keylog_filename = str(keys)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(30)
    server = EncryptedSocket(server_context, ours)
    with ThreadPoolExecutor(1) as thread:
        shaking = thread.submit(client_context.wrap_socket, theirs, server_hostname="127.0.0.1")
        _until_it_can(server.do_handshake)
    with contextlib.closing(server), shaking.result() as client:
        yield server, client


def _until_it_can(step: Callable[..., T], *arguments: object) -> T:
    for _ in range(30_000):
        try:
            return step(*arguments)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            threading.Event().wait(0.001)
    raise AssertionError("it waits for ever")


def key_updates(keys: Path, count: int) -> bytes:
    """A client's first bytes after the handshake, with this many key changes.

    RFC 8446: 4.6.3, 5.2, 7.1 and 7.2, for the suite that OpenSSL prefers, TLS_AES_256_GCM_SHA384.
    """
    line = next(line for line in keys.read_text().splitlines() if line.startswith("CLIENT_TRAFFIC_SECRET_0 "))
    secret = bytes.fromhex(line.split()[2])

    def expand(label: bytes, length: int) -> bytes:
        info = length.to_bytes(2, "big") + bytes([6 + len(label)]) + b"tls13 " + label + b"\0"
        return hmac.digest(secret, info + b"\1", hashlib.sha384)[:length]

    sent = b""
    for _ in range(count):
        message = b"\x18\0\0\1\0" + b"\x16"  # key_update, its length, update_not_requested; it is a handshake's
        header = b"\x17\x03\x03" + (len(message) + 16).to_bytes(2, "big")
        sent += header + AESGCM(expand(b"key", 32)).encrypt(expand(b"iv", 12), message, header)
        secret = expand(b"traffic upd", 48)
    return sent


def test_a_client_that_changes_its_key_without_end_is_cut_off_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    with connected(tmp_path / "keys") as (server, client):
        raw = socket.socket(fileno=client.detach())
        flood = key_updates(tmp_path / "keys", 3 * MAX_CONTROL_BYTES // 27)

        def send() -> None:
            with contextlib.suppress(OSError):
                raw.sendall(flood)

        sending = threading.Thread(target=send)
        sending.start()
        turns = 0
        cut_off = False
        while not cut_off and turns < 60_000:
            turns += 1
            try:
                server.recv(100)
            except ssl.SSLWantReadError:
                threading.Event().wait(0.001)
            except ConnectionAbortedError:
                cut_off = True
        assert cut_off
        assert turns > MAX_CONTROL_BYTES // (4 << 10), "the others have had their turns meanwhile"
        server.close()
        sending.join(30)
        raw.close()


def test_a_page_arrives_whole_however_slowly_it_is_read(tmp_path: Path) -> None:
    def read(client: ssl.SSLSocket) -> bytes:
        received = bytearray()
        while len(received) < len(PAGE):
            received.extend(client.recv(10_000))
        return bytes(received)

    with connected(tmp_path / "keys") as (server, client), ThreadPoolExecutor(1) as thread:
        received = thread.submit(read, client)
        unsent = memoryview(PAGE)
        while unsent:
            sent = _until_it_can(server.send, unsent[:300_000])
            unsent = unsent[sent:]
        assert received.result(30) == PAGE
        client.sendall(b"more")
        assert _until_it_can(server.recv, 100) == b"more"


def test_what_comes_after_the_last_answer_is_not_looked_at(tmp_path: Path) -> None:
    with connected(tmp_path / "keys") as (server, client):
        server.shutdown(socket.SHUT_WR)
        raw = socket.socket(fileno=client.detach())
        raw.sendall(b"no TLS")
        assert _until_it_can(server.recv, 100) == b"no TLS"
        raw.close()
