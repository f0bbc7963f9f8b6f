"""A web server that plays the sites of official releases: right, wrong, cut short, silent, moved, closed."""

from __future__ import annotations

import hashlib
import http.server
import io
import re
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tools.programs.catalogue import Release

SCRIPT = b"#!/bin/sh\necho hello, version 9.9\n"
PADDING = bytes(range(256)) * 4096  # so that there is something to be cut


def archive(program: bytes = SCRIPT) -> bytes:
    """A release as its authors pack it: one folder, with the program and something of some size."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=0) as tar:
        for name, content, mode in (("hello", program, 0o755), ("web/padding", PADDING, 0o644)):
            entry = tarfile.TarInfo(f"hello-9.9.linux/{name}")
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


class Site:
    """Answers requests for anything with `content`, from where the request's Range begins.

    `behave`, if it is set, is asked first: it gets the handler and the number of the request, from 0, and says whether
    it has answered.
    """

    def __init__(self, content: bytes, url: str) -> None:
        self.content = content
        self.url = url
        self.requests: list[str] = []  # path, and Range
        self.behave: Callable[[http.server.BaseHTTPRequestHandler, int], bool] = lambda _handler, _number: False

    def release(self, path: str = "/v{version}/hello-{version}.linux-{architecture}.tar.gz") -> Release:
        """What a catalogue says of it."""
        digest = hashlib.sha256(self.content).hexdigest()
        return Release("9.9", self.url + path, {"amd64": digest, "arm64": digest}, {"hello": "hello"})


@contextmanager
def site(content: bytes) -> Iterator[Site]:
    """Such a server on loopback, for as long as the block lasts."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            number = len(played.requests)
            asked = self.headers["Range"] or ""
            played.requests.append(f"{self.path} {asked}".strip())
            if played.behave(self, number):
                return
            begin = re.fullmatch(r"bytes=(\d+)-", asked)
            part = played.content[int(begin[1]) :] if begin else played.content
            if begin and not part:
                self.send_error(416)
                return
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class calls it so
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        played = Site(content, f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield played
        server.shutdown()
