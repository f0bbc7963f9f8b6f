"""A web server that plays the sites of official releases: right, wrong, cut short, silent, moved, closed."""

from __future__ import annotations

import hashlib
import http.server
import io
import re
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from tools.programs.catalogue import Release

Handler: TypeAlias = http.server.BaseHTTPRequestHandler

SCRIPT = b"#!/bin/sh\necho hello, version 9.9\n"
PADDING = bytes(range(256)) * 4096  # so that there is something to be cut


def pack(folder: str, files: Mapping[str, bytes], programs: str) -> bytes:
    """A release as its authors pack it: one folder, with these files; those that match `programs` may be executed."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=0) as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode = len(content), 0o755 if re.fullmatch(programs, name) else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def archive(program: bytes = SCRIPT) -> bytes:
    return pack("hello-9.9.linux", {"hello": program, "web/padding": PADDING}, "hello")


class Site:
    """Answers requests for anything with `content`, from where the request's Range begins.

    `behave`, if it is set, is asked first: it gets the handler and the number of the request, from 0, and says whether
    it has answered.
    """

    def __init__(self, content: bytes, url: str) -> None:
        self.content = content
        self.url = url
        self.requests: list[str] = []  # path, and Range
        self.behave: Callable[[Handler, int], bool] | None = None

    def release(self, path: str = "/v{version}/hello-{version}.linux-{architecture}.tar.gz") -> Release:
        """What a catalogue says of it."""
        digest = hashlib.sha256(self.content).hexdigest()
        return Release("9.9", self.url + path, {"amd64": digest, "arm64": digest}, {"hello": "hello"})

    def refuse(self, status: int) -> None:
        """Answer with nothing but this status, from now on."""

        def refuse(handler: Handler, _number: int) -> bool:
            handler.send_error(status)
            return True

        self.behave = refuse

    def cut(self, *parts: tuple[int, int]) -> None:
        """Let the first requests get only these parts, promised everything from where they begin; later ones, all."""

        def cut(handler: Handler, number: int) -> bool:
            if number < len(parts):
                begin, end = parts[number]
                handler.send_response(206 if begin else 200)
                handler.send_header("Content-Length", str(len(self.content) - begin))
                handler.end_headers()
                handler.wfile.write(self.content[begin:end])
            return number < len(parts)

        self.behave = cut


@contextmanager
def site(content: bytes) -> Iterator[Site]:
    """Such a server on loopback, for as long as the block lasts."""

    class Played(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            number = len(played.requests)
            asked = self.headers["Range"] or ""
            played.requests.append(f"{self.path} {asked}".strip())
            if played.behave is not None and played.behave(self, number):
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

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Played) as server:
        played = Site(content, f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield played
        server.shutdown()
