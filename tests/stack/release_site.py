"""A web server that plays official release sites: correct, wrong, truncated, silent, moved, closed."""

import hashlib
import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from deploy.programs.catalogue import Release
from tests.support.endpoints import QuietHandler, http_server

SCRIPT = b"#!/bin/sh\necho hello, version 9.9\n"
PADDING = bytes(range(256)) * 4096  # enough content to be truncated


def pack(folder: str, files: Mapping[str, bytes], programs: str) -> bytes:
    """A release as packed by its authors: one folder with these files; those matching `programs` are executable."""
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
    """Answers any request with `content`, or with its first `breaks_off_after` bytes.

    `refuses` is an error status to answer with; `moved_to` is the target of a redirect. A silent server never answers.
    `requests` are paths.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.url = ""
        self.requests: list[str] = []
        self.refuses = 0
        self.breaks_off_after: int | None = None
        self.moved_to = ""
        self.is_silent = False

    def release(self, path: str = "/v{version}/hello-{version}.linux-{architecture}.tar.gz") -> Release:
        """Its entry in a catalogue."""
        digest = hashlib.sha256(self.content).hexdigest()
        return Release("9.9", self.url + path, {"amd64": digest, "arm64": digest}, {"hello": "hello"})

    def answer(self, handler: QuietHandler) -> None:
        self.requests.append(handler.path)
        if self.is_silent:
            handler.rfile.read()  # until the client disconnects
        elif self.refuses:
            handler.send_error(self.refuses)
        elif self.moved_to:
            handler.send_response(302)
            handler.send_header("Location", self.moved_to)
            handler.end_headers()
            self.moved_to = ""
        else:
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(self.content)))
            handler.end_headers()
            handler.wfile.write(self.content[: self.breaks_off_after])


@contextmanager
def site(content: bytes) -> Iterator[Site]:
    """Such a server on loopback within the block."""
    played = Site(content)

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802
            played.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = http_server(Handler)
    played.url = f"http://{server.address}"
    try:
        yield played
    finally:
        server.close()
