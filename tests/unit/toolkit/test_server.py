"""The server with clients that send too much, too slowly or nonsense, and on a host that runs out of resources."""

import contextlib
import errno
import itertools
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.clock import Clock
from tests.support.waiting import wait_for
from virtscope.toolkit import answering, server
from virtscope.toolkit.server import MAX_CONNECTIONS, Server

SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: xen1\r\n\r\n"
LAST = SCRAPE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
HEALTH = b"GET /-/healthy HTTP/1.1\r\n\r\n"


class Scraped:
    """A page of this many bytes, served once `let` is set."""

    name = "scraped"

    def __init__(self, size: int = 100, *, held: bool = False) -> None:
        self.page = b"x" * size
        self.seconds: list[float] = []  # of each scrape
        self.faulty = False
        self.let = threading.Event()
        if not held:
            self.let.set()

    def scrape(self, seconds: float, *, gzipped: bool = False, shared: bool = False) -> bytes:
        del gzipped, shared
        self.seconds.append(seconds)
        self.let.wait(30)
        if self.faulty:
            raise ZeroDivisionError
        return bytes(bytearray(self.page))  # a new object for each client

    @property
    def asked(self) -> int:
        return len(self.seconds)


class Hosts:
    """Probes of hosts: "good" answers immediately, any other once `let` is set."""

    def __init__(self) -> None:
        self.good, self.silent = Scraped(), Scraped(held=True)

    def find(self, target: str, module: str) -> Scraped:
        del module
        return self.good if target == "good" else self.silent


class CountedServer(Server):
    turns = 0

    def _may_stop(self) -> bool:
        self.turns += 1
        return super()._may_stop()


class Running:
    """A server in a thread, and its clients, which are closed with it."""

    def __init__(self, scraped: Scraped, probes: Hosts | None, clients: ExitStack) -> None:
        self.server = CountedServer(("127.0.0.1", 0), "/metrics", None, scraped, probes)
        self._clients = clients

    def connect(self, source: str = "127.0.0.1", sends: bytes = b"") -> socket.socket:
        address = self.server.server_address
        client = self._clients.enter_context(socket.create_connection(address, 30, source_address=(source, 0)))
        client.sendall(sends)
        return client

    def connect_all(self, sources: Iterable[str], sends: bytes = b"") -> list[socket.socket]:
        return [self.connect(source, sends) for source in sources]

    def unsent(self) -> int:
        """Bytes of answers that clients haven't read."""
        return sum(len(part) for each in self.server._connections() for part in each.unsent)

    def advance(self, clock: Clock, seconds: float) -> None:
        turns = self.server.turns
        self.server._wake_up()
        wait_for(lambda: self.server.turns > turns)  # the current iteration still has the previous time
        clock.now += seconds
        self.server._wake_up()

    def wait_until_open(self, count: int) -> None:
        wait_for(lambda: self._count() == count, 30, explain=lambda: f"{self._count()} are open")

    def wait_until_received(self, content: bytes) -> None:
        wait_for(lambda: [bytes(each.received) for each in self.server._connections()] == [content], 30)

    def _count(self) -> int | None:
        try:
            return len(self.server._connections())
        except RuntimeError:
            return None  # changed by the server's thread while they were counted


@contextmanager
def serving(scraped: Scraped | None = None, probes: Hosts | None = None) -> Iterator[Running]:
    with ExitStack() as clients:
        running = Running(scraped or Scraped(), probes, clients)
        thread = threading.Thread(target=running.server.serve_forever)
        thread.start()
        try:
            yield running
        finally:
            running.server.shutdown(1)
            thread.join(30)
            running.server.server_close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (server, answering):
        monkeypatch.setattr(module, "time", clock)
    return clock


def status(client: socket.socket) -> bytes:
    """The status of one answer with a short body, or nothing if the connection was closed instead."""
    try:
        return client.recv(65536)[9:12]
    except ConnectionResetError:
        return b""


def everything(client: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(1 << 20):
            received += part
    return received


def closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    finally:
        client.settimeout(30)


def test_a_connection_is_kept_and_may_bring_requests_ahead_and_in_pieces() -> None:
    with serving() as running:
        client = running.connect()
        for _ in range(3):
            client.sendall(SCRAPE)
            assert status(client) == b"200"
        client.sendall(SCRAPE * 3 + LAST[:10])
        running.wait_until_received(LAST[:10])
        client.sendall(LAST[10:])
        assert everything(client).count(b"HTTP/1.1 200 OK\r\n") == 4
        with pytest.raises(ConnectionRefusedError):  # it listens only at its own address
            socket.create_connection(("127.0.0.2", running.server.server_address[1]))


def test_what_is_refused_ends_its_connection() -> None:
    hidden = b"GET /hidden HTTP/1.1\r\n\r\n"
    not_allowed = b"HTTP/1.1 405 Method Not Allowed\r\n", b"\r\nAllow: GET, HEAD\r\n"
    smuggling = b"GET / HTTP/1.1\r\nContent-Length : %d\r\n\r\n%b" % (len(hidden), hidden)
    too_long = b"GET / HTTP/1.1\r\nX: " + b"b" * server.MAX_HEAD_BYTES
    cases = [
        (too_long, b"HTTP/1.1 431 ", b"\r\nConnection: close\r\n"),
        (smuggling, b"HTTP/1.1 400 ", b"\r\nConnection: close\r\n"),
        *((b"%b /metrics HTTP/1.0\r\n\r\n" % method, *not_allowed) for method in (b"POST", b"TRACE", b"BREW")),
    ]
    with serving(Scraped(5000)) as running:
        head, _, content = everything(running.connect(sends=b"HEAD /metrics HTTP/1.0\r\n\r\n")).partition(b"\r\n\r\n")
        assert (b"\r\nContent-Length: 5000" in head, content) == (True, b""), "it is GET without the content"
        for sends, begins, header in cases:
            answer = everything(running.connect(sends=sends))
            assert answer.startswith(begins), sends
            assert header in answer, sends
            assert answer.count(b"HTTP/1.1 ") == 1, sends
        client = running.connect()  # it goes on sending, and still gets its refusal
        with contextlib.suppress(ConnectionError):
            for _ in range(30):
                client.sendall(b"X: %b\r\n" % (b"b" * 65_000))
        assert client.recv(13) == b"HTTP/1.1 431 "


@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\nX: "])
@pytest.mark.parametrize("later", [False, True])
def test_a_head_that_comes_byte_by_byte_is_cut_off(clock: Clock, begin: bytes, later: bool) -> None:
    """Each byte arrives in time, but the whole head doesn't: a connection's first or a later one."""
    with serving() as running:
        client = running.connect(sends=SCRAPE if later else b"")
        running.wait_until_open(1)
        left = server.HEAD_SECONDS
        if later:
            assert status(client) == b"200"
            running.advance(clock, 60)
            begin = begin or b"G"
        else:
            running.advance(clock, 2)
            left -= 2
        client.sendall(begin)
        running.wait_until_received(begin)
        running.advance(clock, left - 0.1)
        client.sendall(b"a" if begin else b"")
        running.wait_until_received(begin + b"a" if begin else b"")
        running.advance(clock, 0.1)
        assert everything(client) == b""
        running.wait_until_open(0)


def test_a_client_that_is_silent_or_does_not_read_is_cut_off(clock: Clock) -> None:
    with serving(Scraped(8 << 20)) as running:
        client = running.connect(sends=SCRAPE)
        wait_for(running.unsent)
        running.advance(clock, server.SEND_SECONDS)
        running.wait_until_open(0)
        assert len(everything(client)) < 8 << 20
        between = running.connect(sends=HEALTH)
        assert status(between) == b"200"
        running.advance(clock, server.IDLE_SECONDS - 0.1)
        between.sendall(HEALTH)
        assert status(between) == b"200", "between requests it may be silent for longer"
        running.advance(clock, server.IDLE_SECONDS)
        assert everything(between) == b""


def test_answers_that_nobody_takes_are_bounded_except_for_what_they_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_UNSENT_BYTES", 10 << 20)
    for shared in (False, True):
        scraped = Scraped(8 << 20, held=True)
        if shared:
            monkeypatch.setattr(scraped, "scrape", lambda *_, page=scraped.page, **__: page)
        with serving(scraped) as running:
            sluggish = running.connect_all(["127.0.0.1"] * 10, LAST)
            running.wait_until_open(10)
            scraped.let.set()
            if not shared:
                running.wait_until_open(1)
            whole = [len(everything(client)) > 8 << 20 for client in sluggish]
            assert whole.count(True) == (10 if shared else 1)
    monkeypatch.setattr(server, "MAX_UNSENT_BYTES", 1 << 20)
    with serving(Scraped(8 << 20)) as running:
        client = running.connect(sends=LAST)
        wait_for(running.unsent)
        assert len(everything(client)) > 8 << 20, "one client's page may be larger than what all may have"


def test_a_request_that_waits_is_scraped_in_the_time_that_is_left_or_asked_to_retry(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(answering, "MAX_REQUESTS_OF_A_CLIENT", 1)
    for waits, seconds, answer in ((3.0, [9.5, 6.5], b"200"), (server.TURN_SECONDS, [9.5], b"503")):
        scraped = Scraped(held=True)
        with serving(scraped) as running:
            first = running.connect(sends=SCRAPE)
            wait_for(lambda: scraped.asked == 1)  # noqa: B023
            second = running.connect(sends=SCRAPE)
            wait_for(lambda: running.server._answering.waits("127.0.0.1"))
            running.advance(clock, waits)
            if answer == b"503":
                assert status(second) == answer
            scraped.let.set()
            assert status(first) == b"200"
            assert answer == b"503" or status(second) == answer
        assert scraped.seconds == seconds


def test_a_fault_costs_its_own_request_only(caplog: pytest.LogCaptureFixture) -> None:
    scraped = Scraped()
    scraped.faulty = True
    with serving(scraped) as running:
        assert status(running.connect(sends=SCRAPE)) == b"500"
        scraped.faulty = False
        assert status(running.connect(sends=SCRAPE)) == b"200"
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_requests_wait_while_there_is_no_thread_to_be_had_which_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with serving() as running:
        with monkeypatch.context() as broken:
            broken.setattr(threading.Thread, "start", no_thread)
            clients = running.connect_all(["127.0.0.1"] * 2, SCRAPE)
            wait_for(lambda: len(running.server._answering._waiting.get("127.0.0.1", ())) == 2)
        clients.append(running.connect(sends=SCRAPE))
        assert {status(client) for client in clients} == {b"200"}
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize("sends", [b"", b"GET / HTTP/1.1\r\nX: ", SCRAPE])
def test_a_client_that_fills_it_loses_its_own_connections(
    sends: bytes, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with serving() as running:
        regular = running.connect(sends=SCRAPE)
        assert status(regular) == b"200"
        greedy = []
        for _ in range(MAX_CONNECTIONS + 20):
            greedy.append(running.connect("127.0.0.2", sends))
            if sends == SCRAPE:
                assert status(greedy[-1]) == b"200"
        running.wait_until_open(MAX_CONNECTIONS)
        running.advance(clock, 2 * server.BEGIN_SECONDS)
        wait_for(lambda: all(map(closed, greedy[:20])))
        regular.sendall(SCRAPE)
        assert status(regular) == b"200", "the client that has less keeps what it has"
        running.advance(clock, 2 * server.BEGIN_SECONDS)
        late = running.connect("127.0.0.2", SCRAPE)
        assert status(late) == b"200", "a new connection is worth more than an idle one"
        assert not closed(greedy[-1])
    assert [record.args or record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "too many connections: closing some of the client with the most"
    ]


@pytest.mark.parametrize("spread", [False, True])
def test_hosts_that_hang_keep_no_other_host_out_and_no_page_of_the_exporter(clock: Clock, spread: bool) -> None:
    hosts = Hosts()
    with serving(probes=hosts) as running:
        for number in range(MAX_CONNECTIONS):
            running.connect("127.0.0.2", b"GET /probe?target=silent%d HTTP/1.1\r\n\r\n" % (number if spread else 0))
        running.wait_until_open(MAX_CONNECTIONS)
        taken = answering.MAX_PROBES_OF_A_CLIENT if spread else answering.MAX_PROBES_OF_A_HOST
        wait_for(lambda: hosts.silent.asked == taken)
        first = running.connect(sends=HEALTH)  # the only other client: it waits until earlier ones are refused
        running.advance(clock, server.TURN_SECONDS)
        assert status(first) == b"200"
        for source in ("127.0.0.1", "127.0.0.2"):
            for page in (SCRAPE, HEALTH):
                assert status(running.connect(source, page)) == b"200"
        assert status(running.connect(sends=b"GET /probe?target=good HTTP/1.1\r\n\r\n")) == b"200"
        hosts.silent.let.set()


def test_all_requests_are_answered_in_turn_of_one_client_and_of_many() -> None:
    one = ["127.0.0.1"] * (MAX_CONNECTIONS + 50)
    many = [f"127.1.{number % 100}.{number // 100}" for number in range(MAX_CONNECTIONS + 50)]
    for sources in (one, ["127.0.0.1"] * server.FEW_CONNECTIONS + many):
        scraped = Scraped(held=True)
        with serving(scraped) as running:
            clients = running.connect_all(sources, SCRAPE)
            running.wait_until_open(MAX_CONNECTIONS)
            at_once = answering.MAX_REQUESTS_OF_A_CLIENT if sources is one else answering.MAX_REQUESTS
            wait_for(lambda: scraped.asked == at_once)  # noqa: B023
            scraped.let.set()
            assert {status(client) for client in clients} == {b"200"}


def test_where_descriptors_are_few_most_of_them_are_left_to_sources() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limited = min(soft, 2 * MAX_CONNECTIONS)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limited, hard))
        try:
            running = stack.enter_context(serving())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        running.connect_all(["127.0.0.2"] * (limited // 4 + 20))
        assert status(running.connect(sends=SCRAPE)) == b"200"
        running.wait_until_open(limited // 4)


def disconnect(client: socket.socket, reset: bool) -> None:
    if reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize("reset", [False, True])
def test_a_client_may_go_at_any_time_and_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, reset: bool
) -> None:
    monkeypatch.setattr(answering, "MAX_REQUESTS", 1)
    scraped = Scraped(held=True)
    with serving(scraped) as running:
        first = running.connect(sends=SCRAPE)
        wait_for(lambda: scraped.asked == 1)
        for number in range(20):
            disconnect(running.connect(f"127.1.0.{number + 1}", SCRAPE), reset)
        running.wait_until_open(21)
        scraped.let.set()
        assert status(first) == b"200"
        running.wait_until_open(1)
        assert scraped.asked == 1
        for sends in (b"", b"GET / HTTP/1.1\r\nX: ", SCRAPE, LAST):
            client = running.connect(sends=sends)
            if sends == LAST:
                assert status(client) == b"200"
            disconnect(client, reset)
            running.wait_until_open(1)
    assert caplog.records == []


def test_of_many_clients_the_one_idle_for_longest_makes_room() -> None:
    with serving() as running:
        many = []
        for number in range(MAX_CONNECTIONS):
            many.append(running.connect(f"127.0.{number}.2", SCRAPE))
            assert status(many[-1]) == b"200"  # before the next request: nothing else orders them
        many[0].sendall(SCRAPE)
        assert status(many[0]) == b"200"
        assert status(running.connect("127.1.0.2", SCRAPE)) == b"200"
        assert [client for client in many if closed(client)] == [many[1]]


def test_a_client_has_time_to_read_its_answer_and_no_more(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 8)
    with serving(Scraped(8 << 20)) as running:
        slow = running.connect(sends=LAST)
        assert slow.recv(4) == b"HTTP"
        running.advance(clock, server.READ_SECONDS - 0.1)
        others = [f"127.0.0.{number}" for number in range(2, 18)]
        for source in others:
            assert status(running.connect(source, HEALTH)) == b"200"
        assert len(everything(slow)) > 8 << 20

        idle = running.connect(sends=LAST)
        assert idle.recv(4) == b"HTTP"
        running.advance(clock, server.READ_SECONDS + 0.1)
        for source in others:
            assert status(running.connect(source, HEALTH)) == b"200"
        assert len(everything(idle)) < 8 << 20


def test_while_it_is_full_it_takes_no_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 1)
    scraped = Scraped(held=True)
    with serving(scraped) as running:
        first, second = running.connect_all(["127.0.0.1"] * 2, SCRAPE)
        running.wait_until_open(1)
        looks = itertools.count()
        can_make_room = running.server._can_make_room
        monkeypatch.setattr(running.server, "_can_make_room", lambda: next(looks) >= 0 and can_make_room())
        time.sleep(0.5)
        assert next(looks) < 50
        scraped.let.set()
        assert status(first) == status(second) == b"200"


def test_a_network_of_ipv6_counts_as_one_client() -> None:
    assert server._client_of("2001:db8::1") == server._client_of("2001:db8::ffff:1") != server._client_of("2001:db9::1")
    assert server._client_of("::ffff:192.0.2.1") == server._client_of("192.0.2.1") == "192.0.2.1"
    assert server._client_of("fe80::1%eth0") == "fe80::/64"


def lack_descriptors(monkeypatch: pytest.MonkeyPatch, outcomes: Iterator[bool]) -> list[float]:
    """Make accepting a connection fail if the outcome is False; returns the growing list of attempt times."""
    tries: list[float] = []
    accept = socket.socket.accept

    def maybe(listener: socket.socket) -> tuple[socket.socket, object]:
        tries.append(time.monotonic())
        if not next(outcomes):
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", maybe)
    return tries


def test_a_lack_of_file_descriptors_takes_no_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as running:
        tries = lack_descriptors(monkeypatch, itertools.chain([False] * 3, itertools.repeat(True)))
        assert status(running.connect(sends=SCRAPE)) == b"200"
    assert min(later - earlier for earlier, later in itertools.pairwise(tries[:4])) > 0.1


def test_answers_under_way_are_given_before_it_stops() -> None:
    scraped = Scraped(held=True)
    with serving(scraped) as running:
        client = running.connect(sends=SCRAPE)
        wait_for(lambda: scraped.asked == 1)
        stopping = threading.Thread(target=running.server.shutdown, args=(30,))
        stopping.start()
        wait_for(lambda: not running.server._listening)
        scraped.let.set()
        assert status(client) == b"200"
        stopping.join(30)
        assert not stopping.is_alive()
