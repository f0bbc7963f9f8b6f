"""The server among clients that send too much, too slowly or nonsense, and on a host that runs out of resources."""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.waiting import within_a_minute
from virtscope.toolkit import answering, server
from virtscope.toolkit.exposition import Format
from virtscope.toolkit.pages import time_for_sources
from virtscope.toolkit.server import MOST_CONNECTIONS, Server

SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: xen1\r\n\r\n"


class Scraped:
    """What is served: a page of so many bytes, when the scrape is let."""

    name = "scraped"

    def __init__(self, size: int = 100) -> None:
        self.size = size
        self.asked = 0
        self.let = threading.Event()
        self.let.set()

    def scrape(self, form: Format, seconds: float, *, gzipped: bool = False, shared: bool = False) -> bytes:
        del form, seconds, gzipped, shared
        self.asked += 1
        self.let.wait(30)
        return b"x" * self.size


class Hosts:
    """Probes of hosts: "good" answers, any other when it is let."""

    def __init__(self) -> None:
        self.good, self.silent = Scraped(), Scraped()
        self.silent.let.clear()

    def find(self, target: str, module: str) -> Scraped:
        del module
        return self.good if target == "good" else self.silent


@contextmanager
def serving(scraped: Scraped | None = None, probes: Hosts | None = None) -> Iterator[Server]:
    running = Server(("127.0.0.1", 0), "/metrics", None, scraped or Scraped(), probes)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    try:
        yield running
    finally:
        running.shutdown(1)
        thread.join(30)
        running.server_close()


def connect(running: Server, source: str = "127.0.0.1", sends: bytes = b"") -> socket.socket:
    client = socket.create_connection(running.server_address, timeout=30, source_address=(source, 0))
    client.sendall(sends)
    return client


def status(client: socket.socket) -> bytes:
    """Return the status of one answer with a short body, or nothing if the connection was closed instead."""
    try:
        return client.recv(65536)[9:12]
    except ConnectionResetError:
        return b""


def everything(client: socket.socket) -> bytes:
    """Return what the server sends until it closes."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            received += part
    return received


def closed(client: socket.socket) -> bool:
    """Say whether the server has closed the connection by now."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    finally:
        client.settimeout(30)


def _connections(running: Server) -> int | None:
    """How many connections the server has; None if it changed them, in its own thread, while they were counted."""
    try:
        return len(running._connections())
    except RuntimeError:
        return None


def wait_until_open(running: Server, count: int) -> None:
    """Wait until the server has so many connections."""
    end = time.monotonic() + 30
    while (found := _connections(running)) != count:
        assert time.monotonic() < end, found
        time.sleep(0.005)


# --- Requests ---------------------------------------------------------------------------------------------------------


def test_a_connection_is_kept_and_may_bring_requests_ahead_and_in_pieces() -> None:
    with serving() as running, connect(running) as client:
        for _ in range(3):
            client.sendall(SCRAPE)
            assert status(client) == b"200"
        client.sendall(SCRAPE * 3 + SCRAPE[:10])
        time.sleep(0.1)
        client.sendall(SCRAPE[10:].replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert everything(client).count(b"HTTP/1.1 200 OK\r\n") == 4


def test_a_head_that_is_too_large_is_refused_before_it_is_all_there() -> None:
    with serving() as running, connect(running) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"b" * server.MOST_HEAD_BYTES)
        answer = everything(client)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"\r\nConnection: close\r\n" in answer


def test_a_client_that_goes_on_sending_still_gets_its_refusal() -> None:
    with serving() as running, connect(running) as client:
        with contextlib.suppress(ConnectionError):
            for _ in range(30):
                client.sendall(b"X: %b\r\n" % (b"b" * 65_000))
        assert client.recv(13) == b"HTTP/1.1 431 "


def test_a_blank_before_the_colon_is_refused() -> None:
    hidden = b"GET /hidden HTTP/1.1\r\n\r\n"
    with serving() as running, connect(running) as client:
        client.sendall(b"GET / HTTP/1.1\r\nContent-Length : %d\r\n\r\n%b" % (len(hidden), hidden))
        answer = everything(client)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("method", [b"POST", b"TRACE", b"OPTIONS", b"BREW"])
def test_other_methods_are_named_as_not_allowed(method: bytes) -> None:
    with serving() as running, connect(running, sends=b"%b /metrics HTTP/1.0\r\n\r\n" % method) as client:
        answer = everything(client)
    assert answer.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert b"\r\nAllow: GET, HEAD\r\n" in answer


def test_head_is_get_without_the_content() -> None:
    with serving(Scraped(5000)) as running, connect(running, sends=b"HEAD /metrics HTTP/1.0\r\n\r\n") as client:
        head, _, content = everything(client).partition(b"\r\n\r\n")
    assert b"\r\nContent-Length: 5000" in head
    assert content == b""


def test_no_timeout_is_so_short_that_every_source_would_miss_it() -> None:
    assert time_for_sources("1e-9") == time_for_sources("0.05") >= 0.05


# --- Deadlines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\nX: ", SCRAPE + b"GET / "])
def test_a_head_that_comes_byte_by_byte_is_cut_off(monkeypatch: pytest.MonkeyPatch, begin: bytes) -> None:
    """Each byte comes in time; the whole head doesn't."""
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.4)
    with serving() as running, connect(running, sends=begin) as client:
        end = time.monotonic() + 30
        with contextlib.suppress(ConnectionError):
            while not closed(client):
                assert time.monotonic() < end
                client.sendall(b"a" if begin else b"")
                time.sleep(0.05)
        wait_until_open(running, 0)


def test_between_requests_it_may_be_silent_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.2)
    with serving() as running, connect(running, sends=SCRAPE) as client:
        assert status(client) == b"200"
        time.sleep(0.5)
        client.sendall(SCRAPE)
        assert status(client) == b"200"
        monkeypatch.setattr(server, "IDLE_SECONDS", 0.2)
        client.sendall(SCRAPE)
        assert status(client) == b"200"
        assert everything(client) == b""


def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SEND_SECONDS", 0.3)
    with serving(Scraped(8 << 20)) as running, connect(running, sends=SCRAPE) as client:
        wait_until_open(running, 1)
        wait_until_open(running, 0)
        assert len(everything(client)) < 8 << 20


def test_answers_that_nobody_takes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_UNSENT_BYTES", 10 << 20)
    scraped = Scraped(8 << 20)
    scraped.let.clear()
    with serving(scraped) as running, contextlib.ExitStack() as clients:
        last = SCRAPE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        sluggish = [clients.enter_context(connect(running, sends=last)) for _ in range(10)]
        wait_until_open(running, 10)
        scraped.let.set()
        wait_until_open(running, 1)
        assert len(max(map(everything, sluggish), key=len)) > 8 << 20, "a large page to one client is all right"


def test_one_client_s_page_may_be_larger_than_what_all_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_UNSENT_BYTES", 1 << 20)
    with serving(Scraped(8 << 20)) as running, connect(running, sends=b"GET /metrics HTTP/1.0\r\n\r\n") as slow:
        time.sleep(0.1)
        assert len(everything(slow)) > 8 << 20


def test_the_kernel_buffers_little_of_a_connection() -> None:
    with serving() as running, connect(running):
        wait_until_open(running, 1)
        [accepted] = [connection.socket for connection in running._connections()]
        assert isinstance(accepted, socket.socket)
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            assert accepted.getsockopt(socket.SOL_SOCKET, buffer) <= 2 * server.SOCKET_BUFFER_BYTES


def test_an_answer_that_many_share_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_UNSENT_BYTES", 10 << 20)
    page = b"x" * (8 << 20)

    class Shared(Scraped):
        def scrape(self, form: Format, seconds: float, *, gzipped: bool = False, shared: bool = False) -> bytes:
            super().scrape(form, seconds, gzipped=gzipped, shared=shared)
            return page

    last = SCRAPE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with serving(Shared(0)) as running, contextlib.ExitStack() as clients:
        sluggish = [clients.enter_context(connect(running, sends=last)) for _ in range(10)]
        assert all(len(everything(client)) > len(page) for client in sluggish)


def test_a_request_that_waits_too_long_is_asked_to_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "MOST_REQUESTS_OF_A_CLIENT", 1)
    scraped = Scraped()
    scraped.let.clear()
    with serving(scraped) as running, connect(running, sends=SCRAPE) as first:
        within_a_minute(lambda: scraped.asked == 1)
        monkeypatch.setattr(server, "TURN_SECONDS", 0.2)  # now that it is the first's
        with connect(running, sends=SCRAPE) as second:
            assert status(second) == b"503"
        scraped.let.set()
        assert status(first) == b"200"


# --- Room -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sends", [b"", b"GET / HTTP/1.1\r\nX: ", SCRAPE])
def test_a_client_that_fills_it_loses_its_own_connections(sends: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with serving() as running, contextlib.ExitStack() as clients:
        regular = clients.enter_context(connect(running, sends=SCRAPE))
        assert status(regular) == b"200"
        greedy = []
        for _ in range(MOST_CONNECTIONS + 20):
            greedy.append(clients.enter_context(connect(running, "127.0.0.2", sends)))
            if sends == SCRAPE:
                assert status(greedy[-1]) == b"200"
        wait_until_open(running, MOST_CONNECTIONS)
        regular.sendall(SCRAPE)
        assert status(regular) == b"200", "the client that has less keeps what it has"
        late = clients.enter_context(connect(running, "127.0.0.2", SCRAPE))
        assert status(late) == b"200", "a new connection is worth more than an idle one"
        assert all(map(closed, greedy[:20]))
        assert not closed(greedy[-1])
    assert [record.args or record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "too many connections: closing some of the client that has the most"
    ]


def test_requests_of_one_client_keep_no_other_out() -> None:
    scraped = Scraped()
    scraped.let.clear()
    with serving(scraped) as running, contextlib.ExitStack() as clients:
        for _ in range(MOST_CONNECTIONS // 2):
            for attacker in ("127.0.0.2", "127.0.0.3"):
                clients.enter_context(connect(running, attacker, SCRAPE))
        wait_until_open(running, MOST_CONNECTIONS)
        other = clients.enter_context(connect(running, sends=b"GET /-/healthy HTTP/1.1\r\n\r\n"))
        assert status(other) == b"200"
        scraped.let.set()


@pytest.mark.parametrize("spread", [False, True])
def test_hosts_that_hang_keep_no_other_host_out_and_no_page_of_the_exporter(spread: bool) -> None:
    hosts = Hosts()
    with serving(probes=hosts) as running, contextlib.ExitStack() as clients:
        for number in range(MOST_CONNECTIONS):
            asked = b"GET /probe?target=silent%d HTTP/1.1\r\n\r\n" % (number if spread else 0)
            clients.enter_context(connect(running, "127.0.0.2", asked))
        wait_until_open(running, MOST_CONNECTIONS)
        taken = answering.MOST_PROBES_OF_A_CLIENT if spread else answering.MOST_PROBES_OF_A_HOST
        within_a_minute(lambda: hosts.silent.asked == taken)
        for source in ("127.0.0.1", "127.0.0.2"):
            for page in (b"/metrics", b"/-/healthy"):
                client = clients.enter_context(connect(running, source, b"GET %s HTTP/1.1\r\n\r\n" % page))
                assert status(client) == b"200"
        client = clients.enter_context(connect(running, sends=b"GET /probe?target=good HTTP/1.1\r\n\r\n"))
        assert status(client) == b"200"
        hosts.silent.let.set()


def test_one_client_with_many_requests_gets_them_all_answered_in_turn() -> None:
    scraped = Scraped()
    scraped.let.clear()
    with serving(scraped) as running, contextlib.ExitStack() as clients:
        many = [clients.enter_context(connect(running, sends=SCRAPE)) for _ in range(MOST_CONNECTIONS + 50)]
        wait_until_open(running, MOST_CONNECTIONS)
        scraped.let.set()
        assert {status(client) for client in many} == {b"200"}


def test_many_clients_with_a_request_or_two_each_get_them_all_answered_in_turn() -> None:
    scraped = Scraped()
    scraped.let.clear()
    with serving(scraped) as running, contextlib.ExitStack() as clients:
        others = [f"127.1.{number % 100}.{number // 100}" for number in range(MOST_CONNECTIONS + 50)]
        sources = ["127.0.0.1"] * server.FEW_CONNECTIONS + others
        many = [clients.enter_context(connect(running, source, SCRAPE)) for source in sources]
        wait_until_open(running, MOST_CONNECTIONS)
        scraped.let.set()
        assert {status(client) for client in many} == {b"200"}


def test_where_descriptors_are_few_most_of_them_are_left_to_sources() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as clients:
        limited = min(soft, 2 * MOST_CONNECTIONS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limited, hard))
        try:
            running = clients.enter_context(serving())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(limited // 4 + 20):
            clients.enter_context(connect(running, "127.0.0.2"))
        regular = clients.enter_context(connect(running, sends=SCRAPE))
        assert status(regular) == b"200"
        wait_until_open(running, limited // 4)


@pytest.mark.parametrize("reset", [False, True])
def test_clients_that_ask_and_go_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch, reset: bool) -> None:
    monkeypatch.setattr(answering, "MOST_REQUESTS", 1)
    scraped = Scraped()
    scraped.let.clear()
    with serving(scraped) as running, connect(running, sends=SCRAPE) as first:
        within_a_minute(lambda: scraped.asked == 1)
        for number in range(20):
            with connect(running, f"127.1.0.{number + 1}", SCRAPE) as client:
                if reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_until_open(running, 21)
        scraped.let.set()
        assert status(first) == b"200"
        wait_until_open(running, 1)
        assert scraped.asked == 1


@pytest.mark.parametrize(("others", "more"), [("127.1.0.{}", "127.2.0.{}"), ("127.0.0.1", "127.0.0.1")])
def test_a_connection_among_many_requests_has_time_to_bring_its_own(
    monkeypatch: pytest.MonkeyPatch, others: str, more: str
) -> None:
    """They wait for their turn, and so it is the only idle one; more want its place."""
    monkeypatch.setattr(server, "BEGIN_SECONDS", 5.0)
    scraped = Scraped()
    scraped.let.clear()
    with serving(scraped) as running, contextlib.ExitStack() as clients:
        for number in range(MOST_CONNECTIONS - 1):
            clients.enter_context(connect(running, others.format(number), SCRAPE))
        wait_until_open(running, MOST_CONNECTIONS - 1)
        other = clients.enter_context(connect(running))
        for number in range(10):
            clients.enter_context(connect(running, more.format(number + 1), SCRAPE))
        time.sleep(0.05)
        other.sendall(SCRAPE)
        scraped.let.set()
        assert status(other) == b"200"


def test_of_many_clients_the_one_idle_for_longest_makes_room() -> None:
    with serving() as running, contextlib.ExitStack() as clients:
        many = []
        for number in range(MOST_CONNECTIONS):
            many.append(clients.enter_context(connect(running, f"127.0.{number}.2", SCRAPE)))
            assert status(many[-1]) == b"200"  # before the next asks: nothing orders two at once
        many[0].sendall(SCRAPE)
        assert status(many[0]) == b"200"
        late = clients.enter_context(connect(running, "127.1.0.2", SCRAPE))
        assert status(late) == b"200"
        assert [client for client in many if closed(client)] == [many[1]]


def test_a_new_connection_has_time_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 8)
    monkeypatch.setattr(server, "BEGIN_SECONDS", 30.0)
    scraped = Scraped()
    scraped.let.clear()
    with serving(scraped) as running, contextlib.ExitStack() as clients:
        many = [clients.enter_context(connect(running, f"127.0.0.{number}", SCRAPE)) for number in range(2, 9)]
        wait_until_open(running, 7)
        slow = clients.enter_context(connect(running))
        wait_until_open(running, 8)
        many += [clients.enter_context(connect(running, f"127.0.1.{number}", SCRAPE)) for number in range(2, 9)]
        time.sleep(0.3)
        slow.sendall(SCRAPE)
        time.sleep(0.1)
        scraped.let.set()
        assert {status(client) for client in (slow, *many)} == {b"200"}


def test_a_client_has_time_to_read_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 8)
    monkeypatch.setattr(server, "READ_SECONDS", 30.0)
    size = 5_000_000
    with serving(Scraped(size)) as running, contextlib.ExitStack() as clients:
        slow = clients.enter_context(connect(running, sends=b"GET /metrics HTTP/1.0\r\n\r\n"))
        assert slow.recv(4) == b"HTTP"
        for number in range(2, 18):
            client = clients.enter_context(connect(running, f"127.0.0.{number}", b"GET /-/healthy HTTP/1.1\r\n\r\n"))
            assert status(client) == b"200"
        assert len(everything(slow)) > size


def test_while_it_is_full_it_takes_no_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 1)
    scraped = Scraped()
    scraped.let.clear()
    with serving(scraped) as running, connect(running, sends=SCRAPE) as first, connect(running, sends=SCRAPE) as second:
        wait_until_open(running, 1)
        looks = 0
        can_make_room = running._can_make_room

        def looking() -> bool:
            nonlocal looks
            looks += 1
            return can_make_room()

        monkeypatch.setattr(running, "_can_make_room", looking)
        time.sleep(0.5)
        assert looks < 50
        scraped.let.set()
        assert status(first) == status(second) == b"200"


def test_one_that_does_not_read_it_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 1)
    monkeypatch.setattr(server, "READ_SECONDS", 0.3)
    with serving(Scraped(8 << 20)) as running, connect(running, sends=SCRAPE) as first:
        assert first.recv(1) == b"H"
        time.sleep(0.5)
        with connect(running, "127.0.0.2", b"GET /-/healthy HTTP/1.1\r\n\r\n") as second:
            second.settimeout(10)  # less than SEND_SECONDS
            assert status(second) == b"200"
            assert len(everything(first)) < 8 << 20


def test_a_network_of_ipv6_counts_as_one_client() -> None:
    assert server._client_of("2001:db8::1") == server._client_of("2001:db8::ffff:1") != server._client_of("2001:db9::1")
    assert server._client_of("::ffff:192.0.2.1") == server._client_of("192.0.2.1") == "192.0.2.1"
    assert server._client_of("fe80::1%eth0") == "fe80::/64"


def test_a_lack_of_file_descriptors_takes_no_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[float] = []
    accept = socket.socket.accept

    def none_left(listener: socket.socket) -> tuple[socket.socket, object]:
        tries.append(time.monotonic())
        if len(tries) <= 3:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listener)

    with serving() as running:
        monkeypatch.setattr(socket.socket, "accept", none_left)
        with connect(running, sends=SCRAPE) as client:
            assert status(client) == b"200"
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries[:4])]
    assert min(pauses) > 0.1


def test_a_lack_of_file_descriptors_costs_the_one_idle_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [True]
    accept = socket.socket.accept

    def none_left(listener: socket.socket) -> tuple[socket.socket, object]:
        if not left.pop():
            raise OSError(errno.EMFILE, "Too many open files")
        left.append(True)
        return accept(listener)

    with serving() as running, connect(running) as first, connect(running) as second:
        wait_until_open(running, 2)
        time.sleep(2 * server.BEGIN_SECONDS)
        monkeypatch.setattr(socket.socket, "accept", none_left)
        left[:] = [True, False]
        with connect(running, sends=SCRAPE) as client:
            assert status(client) == b"200"
            assert everything(first) == b""
            assert not closed(second)


# --- Nonsense ---------------------------------------------------------------------------------------------------------

_PIECES = [
    *(b"GET", b"POST", b"HEAD", b" ", b"/", b"/metrics", b"?", b"%", b" HTTP/1.1", b"HTTP/0.9", b"\r\n", b"\n", b"\r"),
    *(b"Content-Length", b"Transfer-Encoding", b"Connection", b"Expect: 100-continue", b"Authorization: Basic "),
    *(b"Accept: ", b"q=", b";", b":", b" :", b"chunked", b"close", b"keep-alive", b"-1", b"9" * 400, b"\0", b"\xff"),
    *(b"X-Prometheus-Scrape-Timeout-Seconds: ", b"1e-9", b"nan", b"\x16\x03\x01", b"PRI * HTTP/2.0\r\n\r\nSM"),
]
_NONSENSE = st.lists(st.sampled_from(_PIECES) | st.binary(max_size=20), max_size=30).map(b"".join)
_MUTATED = st.builds(
    lambda at, length, new: SCRAPE[:at] + new + SCRAPE[at + length :],
    st.integers(0, len(SCRAPE)),
    st.integers(0, 5),
    _NONSENSE,
)


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with serving() as one:
        yield one


class Faults(logging.Handler):
    """What is logged as a warning or worse; caplog is of one test, not of one example."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@given(sent=st.one_of(_NONSENSE, _MUTATED, st.builds(bytes.__add__, _MUTATED, _MUTATED)))
def test_nonsense_is_answered_or_cut_off(running: Server, sent: bytes) -> None:
    faults = Faults()
    logging.getLogger("virtscope").addHandler(faults)
    try:
        with connect(running) as client:
            with contextlib.suppress(ConnectionError):
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
            answer = everything(client)
    finally:
        logging.getLogger("virtscope").removeHandler(faults)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
    assert faults.records == []
    wait_until_open(running, 0)


def test_the_limits_are_those_of_docs_security_md() -> None:
    assert (MOST_CONNECTIONS, server.MOST_HEAD_BYTES, server.MOST_UNSENT_BYTES) == (256, 32 << 10, 32 << 20)


def test_it_listens_at_its_address_alone() -> None:
    with serving() as running:
        assert running.server_address[0] == "127.0.0.1"


def test_answers_under_way_are_given_before_it_stops() -> None:
    scraped = Scraped()
    scraped.let.clear()
    with serving(scraped) as running:
        client = connect(running, sends=SCRAPE)
        stopping = threading.Thread(target=running.shutdown, args=(30,))
        stopping.start()
        time.sleep(0.2)
        scraped.let.set()
        assert status(client) == b"200"
        stopping.join(30)
        assert not stopping.is_alive()


def test_a_restarted_exporter_gets_its_port_again_at_once() -> None:
    """The kernel keeps it for a minute for the connections that the exporter has closed."""
    with serving() as running:
        address = running.server_address[:2]
        client = connect(running, sends=SCRAPE)
        assert status(client) == b"200"
    assert client.recv(1) == b""
    client.close()
    Server(address, "/metrics", None, Scraped()).server_close()
