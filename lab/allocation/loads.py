"""The loads in containers, in closed loops: each task is the same amount of work, and starts when the last one ends.

    python3 -m lab.allocation.loads compute DESCRIPTOR         shared memory for the number of finished tasks
    python3 -m lab.allocation.loads serve DESCRIPTOR           a container's server; a listening socket
    python3 -m lab.allocation.loads visit DESCRIPTOR PORT...   the clients of all servers; shared memory

Clients request a page, wait for all of it, and request the next at once. A page takes as much computation as ten tasks
of the computational load, and is sent over the loopback's TCP.
"""

import asyncio
import hashlib
import itertools
import mmap
import os
import socket
import struct
import sys
from collections.abc import Sequence

COUNTER = struct.Struct("@Q")  # native, so that it is read and written atomically
ROUNDS = 1000  # about half a millisecond of CPU, like the study's tasks; hashing needs neither memory nor the kernel
PAGE = hashlib.sha256(b"virtscope").digest() * 256  # 8 KiB
REQUEST = b"?"
CLIENTS = 10  # per container: enough for its server to always have a request


class Count:
    def __init__(self) -> None:
        self.descriptor = os.memfd_create("virtscope-tasks")
        os.ftruncate(self.descriptor, COUNTER.size)
        self._memory = mmap.mmap(self.descriptor, COUNTER.size)

    def read(self) -> int:
        done: int = COUNTER.unpack_from(self._memory)[0]
        return done

    def close(self) -> None:
        self._memory.close()
        os.close(self.descriptor)


def main() -> None:
    what, descriptor, *ports = sys.argv[1:]
    if what == "serve":
        asyncio.run(serve(socket.socket(fileno=int(descriptor))))
    with mmap.mmap(int(descriptor), COUNTER.size) as memory:
        if what == "visit":
            asyncio.run(visit(memory, list(map(int, ports))))
        for done in itertools.count(1):
            work(1)
            COUNTER.pack_into(memory, 0, done)


def work(tasks: int) -> None:
    hashlib.pbkdf2_hmac("sha256", b"virtscope", b"allocation", tasks * ROUNDS)


async def serve(listening: socket.socket) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1):
            work(10)
            writer.write(PAGE)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, sock=listening) as server:
        await server.serve_forever()


async def visit(memory: mmap.mmap, ports: Sequence[int]) -> None:
    """Raises `asyncio.IncompleteReadError` once a server has ended."""
    done = itertools.count(1)

    async def client(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            writer.write(REQUEST)
            await reader.readexactly(len(PAGE))
            COUNTER.pack_into(memory, 0, next(done))

    await asyncio.gather(*(client(port) for port in [*ports] * CLIENTS))


if __name__ == "__main__":
    main()
