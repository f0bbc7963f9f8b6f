"""The loads in containers, in closed loops: each task is the same amount of work, and starts when the last one ends.

    python3 -m lab.allocation.loads compute DESCRIPTOR         shared memory for the number of finished tasks
    python3 -m lab.allocation.loads serve DESCRIPTOR           a container's server; a listening socket
    python3 -m lab.allocation.loads visit DESCRIPTOR PORT...   the clients of all servers; shared memory

Clients request a page, wait for all of it, and request the next at once. A page takes as much computation as ten tasks
of the computational load, and is sent over the loopback's TCP.
"""

import hashlib
import mmap
import os
import selectors
import socket
import struct
import sys
from collections.abc import Sequence

COMPUTING = "SHA-256 without pause, by python3 -m lab.allocation.loads"  # in words
ANSWERING = "pages over TCP on loopback, to 10 clients each, by python3 -m lab.allocation.loads"
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
        serve(socket.socket(fileno=int(descriptor)))
    with mmap.mmap(int(descriptor), COUNTER.size) as memory:
        if what == "visit":
            visit(memory, list(map(int, ports)))
        compute(memory)


def work(tasks: int) -> None:
    hashlib.pbkdf2_hmac("sha256", b"virtscope", b"allocation", tasks * ROUNDS)


def compute(memory: mmap.mmap) -> None:
    done = 0
    while True:
        work(1)
        done += 1
        COUNTER.pack_into(memory, 0, done)


def serve(listening: socket.socket) -> None:
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
            work(10)
            connection.sendall(PAGE)


def visit(memory: mmap.mmap, ports: Sequence[int]) -> None:
    waiting = selectors.DefaultSelector()
    missing = {}  # bytes of the page, by connection
    for port in list(ports) * CLIENTS:
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
