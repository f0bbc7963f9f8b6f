"""A transactional load in closed loops: clients ask for a page, wait for all of it, and ask for the next at once.

    python3 -m lab.allocation.transactions serve DESCRIPTOR         a container's server; of a listening socket
    python3 -m lab.allocation.transactions visit DESCRIPTOR PORT... the clients of all; of shared memory for the count

A page takes its server as much computation as ten tasks of the other load, and is sent over the loopback's TCP.
"""

from __future__ import annotations

import hashlib
import mmap
import selectors
import socket
import sys
from collections.abc import Sequence

from lab.allocation.load import COUNTER, ROUNDS

LOAD = "pages over TCP on loopback, to 10 clients each, by python3 -m lab.allocation.transactions"  # in words
PAGE = hashlib.sha256(b"virtscope").digest() * 256  # 8 KiB
REQUEST = b"?"
CLIENTS = 10  # of each container: enough that its server always has a request


def main() -> None:
    what, descriptor, *ports = sys.argv[1:]
    if what == "serve":
        serve(socket.socket(fileno=int(descriptor)))
    with mmap.mmap(int(descriptor), COUNTER.size) as memory:
        visit(memory, list(map(int, ports)))


def serve(listening: socket.socket) -> None:
    """Answer requests, one after the other, for ever."""
    waiting = selectors.DefaultSelector()
    waiting.register(listening, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is listening:
                connection, _ = listening.accept()
                waiting.register(connection, selectors.EVENT_READ, connection)
                continue
            connection = key.data
            if not connection.recv(1):
                waiting.unregister(connection)
                connection.close()
                continue
            hashlib.pbkdf2_hmac("sha256", b"virtscope", b"allocation", 10 * ROUNDS)
            connection.sendall(PAGE)


def visit(memory: mmap.mmap, ports: Sequence[int]) -> None:
    """Ask and count, until a server is gone."""
    waiting = selectors.DefaultSelector()
    missing = {}  # bytes of the page, by connection
    for port in ports:
        for _ in range(CLIENTS):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(REQUEST)
            waiting.register(connection, selectors.EVENT_READ, connection)
            missing[connection] = len(PAGE)
    done = 0
    while True:
        for key, _ in waiting.select():
            connection = key.data
            if not (part := connection.recv(missing[connection])):
                sys.exit("a server has ended")
            missing[connection] -= len(part)
            if not missing[connection]:
                missing[connection] = len(PAGE)
                done += 1
                COUNTER.pack_into(memory, 0, done)
                connection.sendall(REQUEST)


if __name__ == "__main__":
    main()
