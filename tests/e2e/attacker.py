"""Holds as many connections to a server as it lets one client have: `attacker.py PORT SOURCE_ADDRESS COUNT HOW`.

A closed connection is opened again. Says "attacking" once all have been open. Runs until it is killed.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import sys
from collections.abc import Iterator

GUESSES = itertools.count()


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
    "guesses": _guesses,
}


async def _connection(port: int, source: str, how: str, opened: asyncio.Event) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
        except OSError:
            await asyncio.sleep(0.1)
            continue
        opened.set()
        try:
            for sent in WAYS[how]():
                writer.write(sent)
                await writer.drain()
                if how in {"requests", "guesses"}:
                    if not await reader.read(65536):
                        break
                elif how == "dribble":
                    await asyncio.sleep(0.5)
            if how in {"silent", "large heads"}:
                await reader.read()
        except OSError:
            pass
        finally:
            writer.close()


async def attack(port: int, source: str, count: int, how: str) -> None:
    """Attack a server on loopback from another address there."""
    events = [asyncio.Event() for _ in range(count)]
    attacks = [asyncio.create_task(_connection(port, source, how, opened)) for opened in events]
    for opened in events:
        await opened.wait()
    sys.stdout.write("attacking\n")
    sys.stdout.flush()
    await asyncio.gather(*attacks)


if __name__ == "__main__":
    asyncio.run(attack(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
