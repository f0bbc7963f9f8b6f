"""The server when its host runs out of means."""

from __future__ import annotations

import errno
import socket
import threading
import time

import pytest

from virtscope.shell.exposition import Format
from virtscope.shell.server import MOST_CONNECTIONS, Server


class Nothing:
    name = "nothing"

    def scrape(self, form: Format, seconds: float, *, gzipped: bool = False) -> bytes:
        return f"# {form} {seconds} {gzipped}\n".encode()


def test_connections_that_got_no_thread_take_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with Server(("127.0.0.1", 0), "/metrics", None, Nothing()) as server:
        server.socket.settimeout(10)

        def connect() -> socket.socket:
            client = socket.create_connection(server.socket.getsockname(), timeout=10)
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            server.handle_request()
            return client

        with monkeypatch.context() as broken:
            broken.setattr(threading.Thread, "start", no_thread)
            for _ in range(MOST_CONNECTIONS + 1):
                connect().close()
        with connect() as client:
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")


def test_a_lack_of_file_descriptors_takes_no_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: socket.socket) -> tuple[socket.socket, object]:
        raise OSError(errno.EMFILE, "Too many open files")

    with Server(("127.0.0.1", 0), "/metrics", None, Nothing()) as server:
        server.socket.settimeout(10)
        with socket.create_connection(server.socket.getsockname(), timeout=10) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with monkeypatch.context() as exhausted:
                pauses: list[float] = []
                exhausted.setattr(socket.socket, "accept", none_left)
                exhausted.setattr(time, "sleep", pauses.append)
                for _ in range(3):
                    server.handle_request()
            assert len(pauses) == 3
            server.handle_request()  # some are free again
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
