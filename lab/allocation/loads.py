"""The loads in containers, in closed loops: each task is the same amount of work, and starts when the last one ends.

    python3 -m lab.allocation.loads compute         prints a line for each finished task
    python3 -m lab.allocation.loads serve           a container's server; prints its port on loopback
    python3 -m lab.allocation.loads visit PORT...   the clients of all servers; a line for each page

Clients request a page, wait for all of it, and request the next at once. A page takes as much computation as ten tasks
of the computational load, and is sent over the loopback's TCP.
"""

import asyncio
import hashlib
import os
import sys
from collections.abc import Sequence

ROUNDS = 1000  # about half a millisecond of CPU, like the study's tasks; hashing needs neither memory nor the kernel
PAGE = hashlib.sha256(b"virtscope").digest() * 256  # 8 KiB
REQUEST = b"?"
CLIENTS = 10  # per container: enough for its server to always have a request


def main() -> None:
    what, *ports = sys.argv[1:]
    if what == "serve":
        asyncio.run(serve())
    if what == "visit":
        asyncio.run(visit(list(map(int, ports))))
    while True:
        work(1)
        count_task()


def work(tasks: int) -> None:
    hashlib.pbkdf2_hmac("sha256", b"virtscope", b"allocation", tasks * ROUNDS)


def count_task() -> None:
    os.write(sys.stdout.fileno(), b"\n")


async def serve() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1):
            work(10)
            writer.write(PAGE)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


async def visit(ports: Sequence[int]) -> None:
    """Raises `asyncio.IncompleteReadError` once a server has ended."""

    async def client(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            writer.write(REQUEST)
            await reader.readexactly(len(PAGE))
            count_task()

    await asyncio.gather(*(client(port) for port in [*ports] * CLIENTS))


if __name__ == "__main__":
    main()
