"""A web server that plays the sites of official releases: right, wrong, cut short, silent, moved, closed."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tests.support.endpoints import QuietHandler, http_server
from tools.programs.catalogue import Release

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

    `behave` is asked first: it gets the handler and the number of the request, from 0, and says whether it has
    answered. `requests` are paths, and Ranges.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.url = ""
        self.requests: list[str] = []
        self.behave: Callable[[QuietHandler, int], bool] = lambda _handler, _number: False

    def release(self, path: str = "/v{version}/hello-{version}.linux-{architecture}.tar.gz") -> Release:
        """What a catalogue says of it."""
        digest = hashlib.sha256(self.content).hexdigest()
        return Release("9.9", self.url + path, {"amd64": digest, "arm64": digest}, {"hello": "hello"})

    def refuse(self, status: int) -> None:
        """Answer with nothing but this status, from now on."""

        def refuse(handler: QuietHandler, _number: int) -> bool:
            handler.send_error(status)
            return True

        self.behave = refuse

    def cut(self, *parts: tuple[int, int]) -> None:
        """Let the first requests get only these parts, promised everything from where they begin; later ones, all."""

        def cut(handler: QuietHandler, number: int) -> bool:
            if number < len(parts):
                begin, end = parts[number]
                self.send(handler, begin, self.content[begin:end])
            return number < len(parts)

        self.behave = cut

    def send(self, handler: QuietHandler, begin: int, part: bytes) -> None:
        handler.send_response(206 if begin else 200)
        handler.send_header("Content-Length", str(len(self.content) - begin))
        handler.end_headers()
        handler.wfile.write(part)


@contextmanager
def site(content: bytes) -> Iterator[Site]:
    """Such a server on loopback, for as long as the block lasts."""
    played = Site(content)

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802
            number, asked = len(played.requests), self.headers["Range"] or ""
            played.requests.append(f"{self.path} {asked}".strip())
            begin = int(asked.removeprefix("bytes=").removesuffix("-") or 0)
            if played.behave(self, number):
                return
            if begin and begin == len(played.content):
                self.send_error(416)
            else:
                played.send(self, begin, played.content[begin:])

        def log_message(self, *_: object) -> None:
            pass

    server = http_server(Handler)
    played.url = f"http://{server.address}"
    try:
        yield played
    finally:
        server.close()
