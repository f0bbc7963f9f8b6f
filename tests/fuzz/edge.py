"""Inputs from untrusted senders: the exporters' servers, answers over ssh, the sensor of access logs.

Servers are real ones in this process. Each input has its own connection from a different address. It must get an HTTP
answer or be cut off, without an error in the log, and a valid request must still be answered.
"""

import base64
import contextlib
import logging
import os
import re
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from logging.handlers import BufferingHandler
from pathlib import Path

from tests.fuzz.mutation import Mutations
from tests.fuzz.parsers import CHECKOUT, Parser
from tests.unit.toolkit.test_server import Scraped, everything
from tests.unit.toolkit.webconfig.pki import ALICES_HASH, ALICES_PASSWORD, TLS, Pki
from virtscope.ssh.child import Child, Room
from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.server import Server

PATIENCE_SECONDS = 15
RIGHT = base64.b64encode(f"alice:{ALICES_PASSWORD}".encode())
ASKED_BETWEEN = 16  # inputs between two valid requests, on average
PAGE_BYTES = 6000  # as large as a real page

_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-")
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: resets the connection and leaves no port occupied
_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")


class _Edge:
    """A server, and the client that is Prometheus."""

    def __init__(self, configuration: str | None = None) -> None:
        self.tls: ssl.SSLContext | None = None
        web = None
        if configuration is not None:
            pki = Pki(Path(tempfile.mkdtemp(dir=_FOLDER.name)) / "etc")
            pki.issue("server", pki.ca, "127.0.0.1")
            web, self.tls = pki.load(configuration), pki.client()
        self.faults = BufferingHandler(1 << 20)  # errors in the log
        self.faults.setLevel(logging.ERROR)
        logging.getLogger("virtscope").addHandler(self.faults)
        self._server = Server(("127.0.0.1", 0), "/metrics", web, Scraped(PAGE_BYTES))
        threading.Thread(target=self._server.serve_forever, name="server", daemon=True).start()

    @contextlib.contextmanager
    def connect(self, source: str = "127.0.0.1", *, wrapped: bool) -> Iterator[socket.socket]:
        with socket.create_connection(self._server.server_address, PATIENCE_SECONDS, (source, 0)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            if not (wrapped and self.tls):
                yield client
                return
            with self.tls.wrap_socket(client, server_hostname="127.0.0.1") as encrypted:
                yield encrypted

    def send(self, data: bytes, *, wrapped: bool = False) -> bytes:
        """Send this as one of several clients, and return the answer; b"" if the server refuses the connection."""
        chance = zlib.crc32(data)
        answer = b""
        source = f"127.{chance & 127}.{chance >> 8 & 255}.{1 + (chance >> 16 & 127)}"
        with self.connect(source, wrapped=wrapped) as client, _cut_off():
            middle = (chance >> 4) % (len(data) + 1) if chance & 1 else 0
            for part in (data[:middle], data[middle:]):
                client.sendall(part)
            if chance & 14 != 0:  # the others disconnect without a shutdown
                socket.socket.shutdown(client, socket.SHUT_WR)  # a TLS socket's own shutdown would end TLS too
                answer = everything(client)
        if chance % ASKED_BETWEEN == 0:
            self.ask()
        assert self.faults.buffer == [], [record.getMessage() for record in self.faults.buffer]
        return answer

    def ask(self) -> None:
        """Scrape, as Prometheus does."""
        given = b"Authorization: Basic %b\r\n" % RIGHT if self.tls else b""
        with self.connect(wrapped=self.tls is not None) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: xen1\r\n%bConnection: close\r\n\r\n" % given)
            answer = everything(client)
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n"), answer[:200]
        assert answer.endswith(b"x" * PAGE_BYTES)


@contextlib.contextmanager
def _cut_off() -> Iterator[None]:
    """The server may close the connection at any time, but not keep it without answering."""
    try:
        yield
    except TimeoutError:
        raise
    except OSError:
        pass


@cache
def _plain() -> _Edge:
    return _Edge()


@cache
def _guarded() -> _Edge:
    return _Edge(f"{TLS}}}\nbasic_auth_users: {{alice: {ALICES_HASH}}}")


def _requests(edge: Callable[[], _Edge], data: bytes) -> None:
    answer = edge().send(data, wrapped=edge is _guarded)
    assert answer == b"" or _STATUS.match(answer), answer[:200]
    assert b"HTTP/1.1 500 " not in answer
    assert edge is not _guarded or b"HTTP/1.1 200 " not in answer or RIGHT.rstrip(b"=") in data


def _handshake(data: bytes) -> None:
    answer = _guarded().send(data)
    assert answer == b"" or answer[:1] in {b"\x15", b"\x16"}, answer[:200]  # TLS alert or handshake


def _host_s_answers(data: bytes) -> None:
    """A watched host's output over ssh, from its greeting on, in answer to two requests."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        child = Child(["cat", file.name], Room())
        try:
            deadline = time.monotonic() + 10
            child.greet(deadline)
            child._answer("xentop", deadline)
            child._answer("openvz", deadline)
        finally:
            child.end()


@cache
def _sensor_s_folder() -> Path:
    return Path(tempfile.mkdtemp(dir=_FOLDER.name))


_EXPOSED = re.compile(rb'(?:# (?:HELP|TYPE) app_.*|app_\w+(?:\{(?:\w+="[\w.+]*",?)*\})? [0-9.]+)?')


def _access_log(data: bytes) -> None:
    """Web server log lines that visitors control, as the sensor counts them.

    Starting perl takes longer than parsing a hundred such texts.
    """
    more = Mutations([data, _ACCESS_LOG], zlib.crc32(data))
    data = b"\n".join([data, *(more.next() for _ in range(99))])
    folder = _sensor_s_folder()
    for left in folder.iterdir():
        left.unlink()
    log = folder / "access.log"
    log.touch()
    for text in (b"", data):
        with log.open("ab") as file:
            file.write(text)
        sensor = subprocess.run(
            ["perl", CHECKOUT / "telegraf/access_log.pl", log],
            env={"PATH": os.environ["PATH"], "STATE_DIRECTORY": str(folder)},
            capture_output=True,
            check=False,
        )
        assert (sensor.returncode, sensor.stderr) == (0, b"")
        assert all(_EXPOSED.fullmatch(line) for line in sensor.stdout.split(b"\n")), sensor.stdout


def _hellos() -> list[bytes]:
    found = []
    for highest, protocols in ((ssl.TLSVersion.TLSv1_2, ["h2", "http/1.1"]), (ssl.TLSVersion.TLSv1_3, ["http/1.1"])):
        context = ssl.create_default_context()
        context.maximum_version = highest
        context.set_alpn_protocols(protocols)
        sent = ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="xen1.example.org").do_handshake()
        found.append(sent.read())
    return found


_GET = b"GET /metrics HTTP/1.1\r\nHost: xen1:10290\r\n"
_SEEN = [
    b"%bUser-Agent: Prometheus/2.42.0\r\nAccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n"
    b"Accept-Encoding: gzip\r\nX-Prometheus-Scrape-Timeout-Seconds: 4\r\n\r\n" % _GET,
    b"%bConnection: close\r\n\r\n" % _GET,
    b"GET / HTTP/1.1\r\n\r\nHEAD /metrics HTTP/1.1\r\n\r\nGET /-/healthy HTTP/1.0\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody",
    b'POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4;x="y"\r\nbody\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\n\r\n',
    b"GET /metrics HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x64\0\x04\x40\0\0\0",
    b"GET /metrics HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
    b"GET http://xen1/metrics?x=%00 HTTP/1.1\r\nX: a\r\n folded\r\n\r\n",
    b"CONNECT 192.0.2.1:22 HTTP/1.1\r\n\r\n",
    b"%b%b\r\n" % (_GET, b"".join(b"X-%d: %b\r\n" % (each, b"y" * 300) for each in range(99))),
    b"\r\n\r\n%b\r\n" % _GET,
]
_WITH_PASSWORD = [
    request.replace(b"\r\n", b"\r\nAuthorization: Basic %b\r\n" % given, 1)
    for request in _SEEN
    for given in (RIGHT, base64.b64encode(b"prometheus:guess"), b"\xff", base64.b64encode(b"a" * 3000))
]

_ANSWERS = (
    b"Welcome to dom0\nvirtscope 1\n"
    b"xentop 30\nvz/version:1\nopenvz 0\n\n0\n0\nend\n14\na complaint:\n\n\n2\nopenvz 3\nabc\n0\n\n0\n"
)
_ACCESS_LOG = (
    b'192.0.2.7 - - [21/Nov/2026:08:15:53 +0000] "GET /item?id=1 HTTP/1.1" 200 12 "-" "Mozilla/5.0" 1234\n'
    b'x 2001:db8::1 - al"ice [21/Nov/2026:08:15:53 +0000] "\\x16\\x03 \\"q" 400 - "-" "-" rt=0.123 up="0.1 : 0.3"\n'
)

EDGE = [
    Parser("http", partial(_requests, _plain), _SEEN),
    Parser("tls-handshake", _handshake, [*_hellos(), *_SEEN[:1]]),
    Parser("http-with-password", partial(_requests, _guarded), [*_SEEN, *_WITH_PASSWORD], examples=100),
    Parser("host-answers", _host_s_answers, [_ANSWERS], (SourceError,), examples=50),
    Parser("access-log", _access_log, [_ACCESS_LOG], examples=20),
]
