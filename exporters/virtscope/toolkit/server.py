"""The server of every exporter: TCP and TLS, with limits per client.

Anyone who reaches the port can open connections without a password. So one thread holds all of them, each for a
descriptor and some kilobytes. It does handshakes, reads heads of requests and sends answers, and never blocks on a
client. Only a complete request gets a thread (virtscope.toolkit.answering). Every wait for a client has a deadline. At
the limit of connections, the client with the most loses one. If no client has more than a few, only idle connections
are closed, and new ones wait in the kernel's queue.

Compared with cheroot 11.1 and uvicorn 0.54 with h11: they used 1.1 and 4.7 times the CPU for a scrape of 100 series.
While one address held 400 silent connections, cheroot with 10 threads answered none of four scrapes within 4 s, with
256 threads two of them; this server answered each in 10 ms.
"""

from __future__ import annotations

import contextlib
import enum
import ipaddress
import logging
import math
import re
import resource
import select
import selectors
import socket
import ssl
import threading
import time
from http import HTTPStatus

from virtscope.toolkit.answering import Answering
from virtscope.toolkit.encrypted import EncryptedSocket
from virtscope.toolkit.pages import Answer, Pages, Probes, Scrapes
from virtscope.toolkit.webconfig import WebConfig

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 256
FEW_CONNECTIONS = 2  # of a client; enough for two Prometheus servers behind one address
MAX_HEAD_BYTES = 32 << 10  # of a request line and all headers; Prometheus sends less than 1 KiB
MAX_UNSENT_BYTES = 32 << 20  # of all answers; shared parts count once
SOCKET_BUFFER_BYTES = 64 << 10  # each way; the kernel's defaults are megabytes, charged to the exporter

HEAD_SECONDS = 5.0  # for the first head, from the connection; for later ones, from their first byte
IDLE_SECONDS = 75.0  # idle; more than a minute, so that scrapes every minute keep their connection
TURN_SECONDS = 5.0  # in the queue for a thread
SEND_SECONDS = 30.0  # for a whole answer
BEGIN_SECONDS = 0.1  # before a new connection may be replaced; handshakes take milliseconds
READ_SECONDS = 1.0  # the same for a client with few connections while it receives its answer
LINGER_SECONDS = 1.0  # for a client that still sends to receive the last answer, which closing earlier would lose
DRAIN_SECONDS = 10.0  # for running scrapes at shutdown
PAUSE_SECONDS = 0.2  # before the next accept() when file descriptors or places have run out
WARNING_SECONDS = 60.0  # between two warnings of too many connections

_ACCEPTED_AT_ONCE = 32  # at once, before serving open ones
_BACKLOG = 4096  # limited by net.core.somaxconn; if full, clients retry after one second, then two
_SENT_AT_ONCE = 256 << 10
_END_OF_HEAD = re.compile(rb"\n\r?\n")


class _State(enum.Enum):
    SHAKING_HANDS = enum.auto()
    READING = enum.auto()  # reading or awaiting a head
    ANSWERING = enum.auto()
    SENDING = enum.auto()
    LINGERING = enum.auto()  # awaiting the client's close
    CLOSED = enum.auto()


class _Client:
    """All connections from one address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.connections: set[_Connection] = set()
        self.idle: dict[_Connection, None] = {}  # without a request; longest idle first


class _Connection:
    def __init__(self, sock: socket.socket | EncryptedSocket, client: _Client, state: _State) -> None:
        self.socket = sock
        self.client = client
        self.state = state
        self.deadline = math.inf  # by time.monotonic()
        self.idle_since = 0.0  # by time.monotonic()
        self.safe_until = 0.0  # it is not replaced before
        self.events = 0  # watched by the selector
        self.received = bytearray()
        self.unsent: list[memoryview] = []  # parts of an answer
        self.keep = True  # keep open after sending


class Server:
    """Serves one exporter on one address. Only the thread in `serve_forever` may use its connections."""

    def __init__(
        self,
        address: tuple[str, int],
        telemetry_path: str,
        web: WebConfig | None,
        exporter: Scrapes,
        probes: Probes | None = None,
    ) -> None:
        """Bind `address`; raises OSError."""
        self.web = web
        self._listener = _listener(*address)
        self.server_address = self._listener.getsockname()
        self._pages = Pages(telemetry_path, web, exporter, probes)
        self._answering: Answering[_Connection] = Answering(self._pages, self._wake_up, self._has_gone)
        # Separate threads: hanging hosts don't block the exporter's own pages.
        self._probing: Answering[_Connection] = Answering(self._pages, self._wake_up, self._has_gone, probes=True)
        self._woken, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for sock in (self._woken, self._waker):
            sock.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._listening = False
        self._accept_after = 0.0  # 0: now
        self._warn_after = 0.0
        self._clients: dict[str, _Client] = {}  # with connections, by address
        # If descriptors are scarce, leave most of them to sources, which open files in each scrape.
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._max_connections = min(MAX_CONNECTIONS, descriptors // 4) if descriptors > 0 else MAX_CONNECTIONS
        self._stop_by = math.inf
        self._stopped = threading.Event()

    def serve_forever(self) -> None:
        """Serve until `shutdown`."""
        try:
            while not self._may_stop():
                self._listen_if_there_is_room()
                for key, _ in self._selector.select(self._seconds_to_wait()):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj is self._woken:
                        with contextlib.suppress(BlockingIOError):
                            self._woken.recv(4096)
                    else:
                        self._go_on(key.data)
                for connection, answer in self._answering.finished() + self._probing.finished():
                    self._begin_to_send(connection, answer)
                self._close_overdue()
        finally:
            self._stopped.set()

    def shutdown(self, seconds: float = DRAIN_SECONDS) -> None:
        """Accept no more requests, and wait up to `seconds` for running ones."""
        self._stop_by = time.monotonic() + seconds
        self._wake_up()
        self._stopped.wait(seconds + 1)

    def server_close(self) -> None:
        """Close all connections; `serve_forever` must have ended."""
        for connection in self._connections():
            self._close(connection)
        self._answering.close()
        self._probing.close()
        self._selector.close()
        for sock in (self._listener, self._woken, self._waker):
            sock.close()

    def _wake_up(self) -> None:
        with contextlib.suppress(OSError):  # full, so it wakes up anyway, or closed
            self._waker.send(b"\0")

    # --- The loop ----------------------------------------------------------------------------------------------------

    def _may_stop(self) -> bool:
        if self._stop_by == math.inf:
            return False
        for connection in self._connections():
            if connection.state not in {_State.ANSWERING, _State.SENDING}:
                self._close(connection)
        return not self._clients or time.monotonic() >= self._stop_by

    def _listen_if_there_is_room(self) -> None:
        if time.monotonic() >= self._accept_after:
            self._accept_after = 0.0
        listening = self._stop_by == math.inf and not self._accept_after and self._can_make_room()
        if listening and not self._listening:
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif self._listening and not listening:
            self._selector.unregister(self._listener)
        self._listening = listening

    def _seconds_to_wait(self) -> float | None:
        until = min([each.deadline for each in self._connections()], default=math.inf)
        until = min(until, self._stop_by, self._accept_after or math.inf)
        if not self._listening:
            until = min(until, time.monotonic() + PAUSE_SECONDS)  # there may be room then
        return None if until == math.inf else max(until - time.monotonic(), 0)

    def _close_overdue(self) -> None:
        now = time.monotonic()
        for connection in [each for each in self._connections() if each.deadline <= now]:
            if connection.state is not _State.ANSWERING:
                self._close(connection)
            elif any(each.withdraw(connection, connection.client.address) for each in (self._answering, self._probing)):
                self._begin_to_send(connection, self._pages.refuse(HTTPStatus.SERVICE_UNAVAILABLE))
            else:
                connection.deadline = math.inf  # running; the scrape has its own time limit

    def _set_deadline(self, connection: _Connection, seconds: float) -> None:
        connection.deadline = time.monotonic() + seconds

    # --- Room --------------------------------------------------------------------------------------------------------

    def _connections(self) -> list[_Connection]:
        return [connection for client in self._clients.values() for connection in client.connections]

    def _can_make_room(self) -> bool:
        """Whether another connection may be accepted; otherwise it waits in the kernel's queue."""
        return not self._is_full() or self._next_to_lose() is not None

    def _is_full(self) -> bool:
        return len(self._connections()) >= self._max_connections

    def _next_to_lose(self) -> tuple[_Client, _Connection | Answering[_Connection]] | None:
        """Return the client that loses a connection next, and the connection: an idle one, or the newest queued one.

        Only a client with more than a few connections loses a queued one, and only if there are other clients:
        otherwise new connections are served sooner from the kernel's queue.
        """
        now = time.monotonic()
        greedy = [client for client in self._clients.values() if len(client.connections) > FEW_CONNECTIONS]
        for client in sorted(greedy, key=lambda client: -len(client.connections)):
            for connection in client.idle:
                if connection.safe_until < now or connection.state is _State.SENDING:
                    return client, connection
            for answering in (self._probing, self._answering):
                if len(self._clients) > 1 and answering.waits(client.address):
                    return client, answering
        if any(client.idle for client in greedy):
            return None  # wait until one is no longer safe
        idle = [connection for client in self._clients.values() for connection in client.idle]
        may_go = [connection for connection in idle if connection.safe_until < now]
        if not may_go:
            return None
        longest = min(may_go, key=lambda connection: connection.idle_since)
        return longest.client, longest

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            if not self._can_make_room():
                return
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:  # mostly: no descriptors left
                log.debug("can't accept a connection", extra={"fields": {"err": error}})
                self._drop_one()
                # The connection stays in the kernel's queue: without a pause the loop would spin.
                self._accept_after = time.monotonic() + PAUSE_SECONDS
                return
            if self._is_full():
                self._drop_one()
            self._open(sock, _client_of(address[0]))

    def _drop_one(self) -> None:
        """Close the connection chosen by _next_to_lose(), if any."""
        if not (found := self._next_to_lose()):
            return
        client, lost = found
        if (now := time.monotonic()) >= self._warn_after:
            self._warn_after = now + WARNING_SECONDS
            log.warning(
                "too many connections: closing some of the client with the most",
                extra={"fields": {"client": client.address, "connections": len(client.connections)}},
            )
        self._close(lost.withdraw_newest(client.address) if isinstance(lost, Answering) else lost)

    def _has_gone(self, connection: _Connection) -> bool:
        """Close the connection if the client has closed or reset it, so that its request takes no thread."""
        looked_at = select.poll()
        looked_at.register(connection.socket, select.POLLRDHUP)
        if not looked_at.poll(0):
            return False
        self._close(connection)
        return True

    # --- One connection ----------------------------------------------------------------------------------------------

    def _open(self, sock: socket.socket, address: str) -> None:
        try:
            context = self.web.ssl_context() if self.web else None
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = EncryptedSocket(context, sock) if context else sock
        except Exception as error:  # whatever it is, it must not end the loop
            _log_broken("connection broke", address, error)
            sock.close()
            return
        client = self._clients.setdefault(address, _Client(address))
        connection = _Connection(channel, client, _State.SHAKING_HANDS if context else _State.READING)
        client.connections.add(connection)
        self._is_idle(connection, BEGIN_SECONDS)
        self._set_deadline(connection, HEAD_SECONDS)
        self._go_on(connection)

    def _close(self, connection: _Connection) -> None:
        if connection.state is _State.CLOSED:
            return
        self._watch(connection, 0)
        connection.unsent = []
        connection.state = _State.CLOSED
        connection.socket.close()
        client = connection.client
        client.idle.pop(connection, None)
        client.connections.discard(connection)
        if not client.connections:
            self._clients.pop(client.address, None)

    def _is_idle(self, connection: _Connection, safe: float) -> None:
        connection.client.idle.pop(connection, None)
        connection.client.idle[connection] = None  # now the last
        connection.idle_since = time.monotonic()
        connection.safe_until = connection.idle_since + safe

    def _watch(self, connection: _Connection, events: int) -> None:
        if events == connection.events:
            return
        if not events:
            self._selector.unregister(connection.socket)
        elif not connection.events:
            self._selector.register(connection.socket, events, connection)
        else:
            self._selector.modify(connection.socket, events, connection)
        connection.events = events

    def _go_on(self, connection: _Connection) -> None:
        """Make progress without blocking, then watch for the next event."""
        try:
            if connection.state is _State.SHAKING_HANDS:
                self._shake_hands(connection)
            if connection.state is _State.READING:
                self._read(connection)
            elif connection.state is _State.SENDING:
                self._send(connection)
            elif connection.state is _State.LINGERING:
                self._linger(connection)
            elif connection.state is _State.ANSWERING:
                self._watch(connection, 0)  # more data, or a close: handled after the answer
        except ssl.SSLWantReadError:
            self._watch(connection, selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            self._watch(connection, selectors.EVENT_WRITE)
        except BlockingIOError:
            sending = connection.state is _State.SENDING
            self._watch(connection, selectors.EVENT_WRITE if sending else selectors.EVENT_READ)
        except Exception as error:  # whatever it is, it must not end the loop
            shaking_hands = connection.state is _State.SHAKING_HANDS
            what = "TLS handshake failed" if shaking_hands else "connection broke"
            _log_broken(what, connection.client.address, error)
            self._close(connection)

    def _shake_hands(self, connection: _Connection) -> None:
        assert isinstance(connection.socket, EncryptedSocket)
        connection.socket.do_handshake()
        if self.web and not self.web.peer_allowed(connection.socket.getpeercert()):
            raise PermissionError("no name of the client's certificate is in client_allowed_sans")
        connection.state = _State.READING

    def _read(self, connection: _Connection) -> None:
        received = connection.received
        searched = 0
        while not (end := _END_OF_HEAD.search(received, searched)):
            if len(received) >= MAX_HEAD_BYTES:
                self._begin_to_send(connection, self._pages.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
                return
            searched = max(len(received) - 2, 0)
            data = connection.socket.recv(MAX_HEAD_BYTES - len(received))
            if not data:
                self._close(connection)
                return
            if not received:
                self._set_deadline(connection, min(HEAD_SECONDS, connection.deadline - time.monotonic()))
            received += data
        head = bytes(received[: end.end()])
        del received[: end.end()]
        connection.state = _State.ANSWERING
        connection.client.idle.pop(connection, None)
        self._set_deadline(connection, TURN_SECONDS)
        host = self._pages.probed_host(head)
        answering = self._answering if host is None else self._probing
        answering.ask(connection, connection.client.address, head, host or "")

    def _begin_to_send(self, connection: _Connection, answer: Answer) -> None:
        connection.state = _State.SENDING
        connection.unsent = [memoryview(part) for part in answer.parts]
        connection.keep = answer.keep and self._stop_by == math.inf
        self._is_idle(connection, READ_SECONDS)
        self._set_deadline(connection, SEND_SECONDS)
        self._go_on(connection)
        if connection.unsent:
            self._bound_unsent()

    def _bound_unsent(self) -> None:
        sending = sorted((each for each in self._connections() if each.unsent), key=lambda each: each.deadline)
        while len(sending) > 1:  # a single answer may be of any size
            held = {id(part.obj): memoryview(part.obj).nbytes for each in sending for part in each.unsent}
            if sum(held.values()) <= MAX_UNSENT_BYTES:
                return
            self._close(sending.pop(0))

    def _send(self, connection: _Connection) -> None:
        while connection.unsent:
            part = connection.unsent[0]
            sent = connection.socket.send(part[:_SENT_AT_ONCE])
            if sent < len(part):
                connection.unsent[0] = part[sent:]
            else:
                del connection.unsent[0]
        connection.safe_until = 0.0
        if connection.keep and (self._listening or not self._is_full()):
            connection.state = _State.READING
            self._set_deadline(connection, HEAD_SECONDS if connection.received else IDLE_SECONDS)
            if connection.received or isinstance(connection.socket, EncryptedSocket):
                self._read(connection)  # the next request may already be buffered, without an event
            else:
                self._watch(connection, selectors.EVENT_READ)
        else:
            connection.state = _State.LINGERING
            connection.socket.shutdown(socket.SHUT_WR)
            self._set_deadline(connection, LINGER_SECONDS)
            self._linger(connection)

    def _linger(self, connection: _Connection) -> None:
        if connection.socket.recv(1 << 16):
            self._watch(connection, selectors.EVENT_READ)
        else:
            self._close(connection)


def _log_broken(what: str, client: str, error: Exception) -> None:
    """Log a broken connection: at debug level if the client went away, with a traceback if it is a bug."""
    fields = {"fields": {"client": client, "err": error}}
    if isinstance(error, OSError):  # ssl.SSLError is one
        log.debug(what, extra=fields)
    else:
        log.error(what, extra=fields, exc_info=error)


def _listener(host: str, port: int) -> socket.socket:
    # An IPv6 wildcard socket accepts IPv4, too.
    wanted = socket.AF_INET6 if not host and socket.has_dualstack_ipv6() else socket.AF_UNSPEC
    family, _, _, _, address = socket.getaddrinfo(
        host or None, port, wanted, socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):  # connections inherit them
        listener.setsockopt(socket.SOL_SOCKET, buffer, SOCKET_BUFFER_BYTES)
    listener.bind(address)
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


def _client_of(host: str) -> str:
    """Return the client of an address; for IPv6 its /64, as each user has a network of 2^64 addresses."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    return str(address.ipv4_mapped or ipaddress.IPv6Network((address, 64), strict=False))
