"""The clients' process against a test server that records its requests."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from deploy.programs import CHECKOUT
from lab.clients import mix
from lab.clients.child import Clients, Order
from tests.support.endpoints import BackgroundServer, QuietHandler
from tests.support.waiting import wait_for


def page_of(address: str) -> str:
    """The name of the requested page."""
    names = {urlsplit(known).path: page for page, known in mix.PAGES.items()}
    return names[urlsplit(address).path]


class Server(ThreadingHTTPServer):
    """Answers at once, except for the pages in `slow_pages`, until the end of the `with` block."""

    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked: list[str] = []  # requested paths, in order
        self.broken_off = 0  # answers that clients didn't wait for
        self.slow_pages: dict[str, str] = {}  # failure by page
        self.slow_seconds = 0.0
        self.closing = threading.Event()
        self._background = BackgroundServer(self)

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._background.close()

    def pages(self) -> list[str]:
        """Names of the requested pages."""
        return [page_of(address) for address in self.asked]


class Handler(QuietHandler):
    server: Server

    def do_GET(self) -> None:  # noqa: N802 (http.server calls it)
        self.server.asked.append(self.path)
        how = self.server.slow_pages.get(page_of(self.path))
        if how == "hangs":
            self.server.closing.wait()
            return
        if how == "is slow":
            self.server.closing.wait(self.server.slow_seconds)
        self.send_response(503 if how == "fails" else 200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        try:
            for _ in range(4):
                self.wfile.write(b".")
                if how == "trickles":
                    self.server.closing.wait(2)
                if how == "breaks off":
                    return
        except OSError:
            self.server.broken_off += 1


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """One process for all tests: the application's name distinguishes their clients' metrics."""
    clients = Clients(tmp_path_factory.mktemp("clients") / "log", cpus=",".join(map(str, os.sched_getaffinity(0))))
    yield clients
    clients.stop()


Metrics = Mapping[str, list[tuple[Mapping[str, str], float]]]


def metrics(process: Clients, app: str) -> Metrics:
    """Samples of the clients' metrics for one application, by name."""
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    text = requests.get(f"http://127.0.0.1:{process.port}/metrics", timeout=10).text
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels.get("app", app) == app:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def requests_by(label: str, process: Clients, app: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for labels, value in metrics(process, app).get("lab_client_request_duration_seconds_count", []):
        counts[labels[label]] += round(value)
    return counts


def visit(
    process: Clients, clients: Mapping[str, tuple[Server, int]], *, seed: str = "test", think: float = 0.02
) -> None:
    """Set the clients of each application, with the server that it is."""
    numbers = {app: number for app, (_, number) in clients.items()}
    process.carry_out(Order(seed, think, 5, numbers, {app: server.url for app, (server, _) in clients.items()}))


def wait_for_requests(server: Server, count: int) -> None:
    wait_for(lambda: len(server.asked) >= count, every=0.02)


def test_every_request_is_counted_once(process: Clients, server: Server) -> None:
    server.slow_pages = {"search": "fails"}
    visit(process, {"counted": (server, 20)})
    wait_for_requests(server, 500)
    visit(process, {"counted": (server, 0)})
    assert requests_by("page", process, "counted") == Counter(server.pages())
    searches = server.pages().count("search")
    assert requests_by("status", process, "counted") == {"5xx": searches, "2xx": len(server.asked) - searches}


def test_the_same_seed_gives_the_same_visits(process: Clients, server: Server) -> None:
    asked = []
    for seed in ("one", "one", "another"):
        server.asked.clear()
        visit(process, {"seeded": (server, 1)}, seed=seed, think=0.005)
        wait_for_requests(server, 40)
        visit(process, {"seeded": (server, 0)}, seed=seed, think=0.005)
        asked.append(server.asked[:40])
    assert asked[0] == asked[1]
    assert asked[0] != asked[2]


def test_clients_come_and_go_while_it_runs(process: Clients, server: Server) -> None:
    server.slow_pages = dict.fromkeys(mix.PAGES, "is slow")
    server.slow_seconds = 0.3
    for clients in (5, 2, 8, 0):
        before = len(server.asked)
        visit(process, {"changing": (server, clients)})
        [(_, gauge)] = metrics(process, "changing")["lab_clients"]
        assert gauge == clients
        if clients:
            wait_for_requests(server, before + clients)  # so that some clients are waiting when they are stopped
    asked = len(server.asked)
    # Stopped clients finish waiting for their answers.
    assert server.broken_off == 0
    assert requests_by("status", process, "changing") == {"2xx": asked}


def test_applications_are_separate(process: Clients, server: Server) -> None:
    with Server() as other:
        visit(process, {"left": (server, 3), "right": (other, 6)})
        wait_for_requests(server, 50)
        wait_for_requests(other, 50)
        visit(process, {"left": (server, 0), "right": (other, 2)})
        quiet = len(server.asked)
        wait_for_requests(other, len(other.asked) + 20)
        visit(process, {})
        assert len(server.asked) == quiet
        assert metrics(process, "right")["lab_clients"] == [({"app": "right"}, 0)]
        for app, asked in (("left", server.asked), ("right", other.asked)):
            assert requests_by("app", process, app) == {app: len(asked)}


def test_a_timeout_ends_the_session(process: Clients) -> None:
    """Whether no data or only a trickle arrives. The timeout of five seconds is long for all other pages."""
    with Server() as hangs, Server() as trickles:
        to = {"hangs": hangs, "trickles": trickles}
        for how, server in to.items():
            server.slow_pages = {"category": how}
        visit(process, {app: (server, 1) for app, server in to.items()}, think=0.01)
        wait_for(lambda: all(server.pages()[:-1].count("category") >= 2 for server in to.values()))
        visit(process, {app: (server, 0) for app, server in to.items()}, think=0.01)
        for app, server in to.items():
            pages = server.pages()
            timeouts = pages.count("category")
            assert {after for before, after in itertools.pairwise(pages) if before == "category"} == {mix.FIRST_PAGE}
            assert requests_by("status", process, app)["timeout"] == timeouts


def test_half_an_answer_and_none_are_errors_and_the_process_exposes_its_own_cost(
    process: Clients, server: Server
) -> None:
    visit(process, {"whole": (server, 2)})
    wait_for_requests(server, 5)
    visit(process, {})
    answers, whole = process.answers(), len(server.asked)
    assert answers >= whole
    server.slow_pages = dict.fromkeys(mix.PAGES, "breaks off")
    visit(process, {"half": (server, 2)})
    wait_for_requests(server, whole + 20)
    visit(process, {"half": (server, 0)})
    assert requests_by("status", process, "half") == {"error": len(server.asked) - whole}
    [(_, starts)] = metrics(process, "half")["lab_client_start_lateness_seconds_count"]
    assert starts >= len(server.asked)
    server.server_close()
    visit(process, {"down": (server, 2)})
    wait_for(lambda: requests_by("status", process, "down")["error"] >= 10)
    visit(process, {"down": (server, 0)})
    assert requests_by("status", process, "down").keys() == {"error"}
    assert process.answers() == answers
    [(_, cpu_seconds)] = metrics(process, "down")["process_cpu_seconds_total"]
    assert cpu_seconds > 0


def test_think_times_are_exponential_and_follow_from_the_seed() -> None:
    # In a separate process: importing Locust patches the sockets of the whole process.
    program = """
import json, sys
from locust.env import Environment
from lab.clients.child import Order
from lab.clients.metrics import Metrics
from lab.clients.visitor import Visitor
def times(seed, count):
    kind = type("app", (Visitor,), dict(application="app", metrics=Metrics(), host="http://localhost"))
    kind.order = Order(seed, 7.0, 10.0, {}, {})
    visitors = [kind(Environment()) for _ in range(count)]
    return [[visitor.wait_time() for _ in range(2000)] for visitor in visitors]
json.dump([times("a", 2), times("a", 1), times("b", 1)], sys.stdout)
"""
    child = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    (first, second), [again], [other] = json.loads(child.stdout)
    assert first == again
    assert first != second  # two clients of one application
    assert first != other
    mean = sum(first) / len(first)
    assert mean == pytest.approx(7.0, rel=0.07)  # three times its standard error, 1/sqrt(2000)
    # An exponential distribution has 1/e of its values above its mean, and 1/e^3 above three times the mean.
    assert sum(seconds > 7 for seconds in first) / 2000 == pytest.approx(0.368, abs=0.033)
    assert sum(seconds > 21 for seconds in first) / 2000 == pytest.approx(0.050, abs=0.015)


def test_visitors_run_before_sites_of_any_weight(process: Clients) -> None:
    if subprocess.run(["chrt", "--fifo", "1", "true"], capture_output=True, check=False).returncode:
        pytest.skip("real-time priority is refused here")
    assert os.sched_getscheduler(process.popen.pid) == os.SCHED_FIFO


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = f"""
import pathlib, time
from lab.clients.child import Clients
clients = Clients(pathlib.Path({str(tmp_path / "log")!r}), cpus="0-{max(os.sched_getaffinity(0))}")
print(clients.popen.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    command = Path("/proc", str(pid), "cmdline")
    # Empty after the process has ended, even before it is reaped.
    wait_for(lambda: not command.exists() or not command.read_bytes())
