"""A short run of network costs in real namespaces and to a guest behind a tap: killed, resumed, interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import LabError
from lab.environments import Guest
from lab.network import experiment, paths
from lab.network.scenario import FILES, PATHS, UNCHANGED, Configuration, WebLoad, guest_path
from tests.lab.runs import finished_steps, lab, left, read_until, start
from tests.lab.tapped import guest as a_tapped_guest
from tests.stack.conftest import Checkout, eventually
from tests.support.program import program_path
from tools import programs

SCENARIO = """\
study: network
about: As short as may be.
paths: [loopback, veth, bridge]
directions: [send, receive]
sizes: [256, 131072]
offloads: "on"
web_rates: 50
guests:
  - {name: tapped, ssh: tapped, platform: kvm, emulated: true}
duration: 1s
warm_up: 1s
repetitions: 2
"""
STEPS = {
    *(
        f"{path}-{direction}-{size}-offloads-{offloads}-{number}"
        for path, offloads in (*((path, "on") for path in PATHS), ("guest-tapped", "unchanged"))
        for direction in ("send", "receive")
        for size in (256, 131_072)
        for number in (1, 2)
    ),
    *(f"{path}-web-{size}-50-{number}" for path in (*PATHS, "guest-tapped") for size in FILES for number in (1, 2)),
}
FIRST = "loopback-send-256-offloads-on-1"
RUN_SECONDS = 600
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def iperf3() -> None:
    """Skip where namespaces can't be made, or the distribution has no iperf3 and no nginx."""
    if subprocess.run(["unshare", "--net", "--mount", "true"], check=False).returncode:
        pytest.skip("network namespaces need root")
    try:
        programs.root(programs.BENCHMARKS)
        programs.root(programs.WEB_SERVER)
    except programs.ProgramsError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no iperf3 and nginx: {error}")
    program_path("vegeta")


@pytest.fixture(scope="module")
def tapped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    with a_tapped_guest(tmp_path_factory.mktemp("guest")) as guest:
        yield guest


def namespaces() -> set[str]:
    """The network namespaces that any process is in."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.add(str((process / "ns/net").readlink()))
        except OSError:
            continue  # it has ended
    return found


@pytest.mark.long
@pytest.mark.usefixtures("iperf3", "tapped")
def test_configurations_are_measured_and_nothing_is_left_however_it_ends(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    checkout = Checkout(tmp_path_factory.mktemp("n") / "c")
    checkout.environment["PATH"] = os.environ["PATH"]  # with the ssh that knows the guest
    try:
        up = checkout.make("up")
        assert up.returncode == 0, up.stdout
        (checkout.folder / "short.yml").write_text(SCENARIO)
        _killed_resumed_interrupted(checkout)
    finally:
        checkout.make("down")
        checkout.kill_all()


def _killed_resumed_interrupted(checkout: Checkout) -> None:
    stack, before = set(checkout.processes()), namespaces()

    # Killed while iperf3 runs, it can't clean up; its guards do.
    with start(checkout) as run:
        read_until(run, f"{FIRST}: ")
        assert eventually(lambda: bool(namespaces() - before))
        run.send_signal(signal.SIGKILL)
    assert eventually(lambda: left(checkout, stack) == [])
    assert eventually(lambda: not namespaces() - before)
    assert finished_steps(checkout) == [[FIRST]]

    # The same command runs only the steps that are left.
    with start(checkout) as run:
        said, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 0, said
    assert f"going on after 1 of {len(STEPS)} steps" in said
    assert f"{FIRST}:" not in said
    assert left(checkout, stack) == []
    assert eventually(lambda: not namespaces() - before)
    [finished] = finished_steps(checkout)
    assert set(finished) == STEPS

    # Prometheus has a value of each step; a byte in small messages costs more on every path.
    [name] = [file.parent.name for file in lab(checkout, "runs").glob("*/state.json")]
    values = f'avg by (environment) (last_over_time(lab_measurement{{run="{name}", test="CPU per byte"}}[15m]))'
    cost = {series["metric"]["environment"]: float(series["value"][1]) for series in checkout.query(values)}
    assert len(cost) == 4 * (len(PATHS) + 1)
    for path in PATHS:
        small, large = (cost[f"{path}, send, {size} bytes, offloads on"] for size in (256, 131_072))
        assert 0 < large < small
    for test in ("CPU per request", "latency p99"):
        values = f'last_over_time(lab_measurement{{run="{name}", test="{test}"}}[15m])'
        found = {series["metric"]["environment"]: float(series["value"][1]) for series in checkout.query(values)}
        assert set(found) == {
            f"{path}, web, {size} bytes, 50 requests/s" for path in (*PATHS, "guest tapped") for size in FILES
        }
        assert all(value > 0 for value in found.values())
    values = f'last_over_time(lab_measurement{{run="{name}", emulated="yes"}}[15m])'
    marked = {series["metric"]["environment"].partition(",")[0] for series in checkout.query(values)}
    assert marked == {"guest tapped"}

    report = (lab(checkout, "reports") / name / "report.md").read_text()
    assert "Over bridge, a byte costs up to " in report
    assert "Over bridge, a request costs up to " in report
    assert "On emulated hardware, so no more than a sign that it works. To and from guest tapped, a byte " in report
    assert "not complete" not in report
    assert (lab(checkout, "reports") / name / "report.html").is_file()

    # A completed run isn't resumed: a new one starts. Interrupted, it leaves nothing behind.
    with start(checkout) as run:
        read_until(run, f"{FIRST}: ")
        os.kill(run.pid, signal.SIGINT)
        os.kill(run.pid, signal.SIGINT)  # people press Ctrl-C twice
        said, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 130, said
    assert "Interrupted; everything was stopped." in said
    assert left(checkout, stack) == []
    assert eventually(lambda: not namespaces() - before)


@pytest.mark.long
@pytest.mark.usefixtures("iperf3")
class TestPaths:
    @pytest.fixture
    def cpus(self) -> paths.Cpus:
        last = str(max(os.sched_getaffinity(0)))
        return paths.Cpus(last, last)

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("direction", ["send", "receive"])
    def test_bytes_arrive_and_cost_cpu_time_and_no_namespace_stays(
        self, cpus: paths.Cpus, path: str, direction: str
    ) -> None:
        before = namespaces()
        found = experiment.measure(Configuration(path, direction, 131_072, "on"), 1, 1, cpus, events=False)
        assert found.throughput > 0
        assert found.cpu_seconds > 0
        assert eventually(lambda: not namespaces() - before)
        assert not experiment.STATE.exists()

    def test_a_program_that_fails_is_named_with_what_it_says(
        self, cpus: paths.Cpus, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(paths, "iperf3_server", lambda *_: ["iperf3", "--server", "--bind=203.0.113.9"])
        with pytest.raises(
            LabError, match=r"^veth, send, .{1,200} ended with status 1 and said:\s.*Cannot assign requested address"
        ):
            experiment.measure(Configuration("veth", "send", 256, "on"), 1, 1, cpus, events=False)

    @pytest.mark.parametrize("path", PATHS)
    def test_requests_are_answered_at_their_rate_and_no_namespace_stays(self, cpus: paths.Cpus, path: str) -> None:
        before = namespaces()
        for size in FILES:
            found = experiment.measure_web(WebLoad(path, size, 50), 1, 2, cpus, events=False)
            assert (len(found.latencies), found.failed) == (100, 0)
            assert 0 < found.latency(0.5) <= found.latency(0.99)
            assert found.cpu_seconds > 0
        assert eventually(lambda: not namespaces() - before)
        assert not experiment.STATE.exists()

    def test_more_requests_than_fit_wait_and_their_waiting_counts(self, cpus: paths.Cpus) -> None:
        found = experiment.measure_web(WebLoad("veth", 131_072, 100_000), 1, 1, cpus, events=False)
        assert len(found.latencies) / max(found.seconds, 1) < 0.9 * 100_000
        assert found.latency(0.99) > 0.1  # of a second of which most requests were late

    def test_kill_9_leaves_no_process_and_no_namespace(self, cpus: paths.Cpus) -> None:
        before = namespaces()
        of = 'Configuration("bridge", "send", 256, "on"), 30, 30, paths.Cpus("{0}", "{0}"), events=False'
        code = (
            "from lab.network import experiment, paths; from lab.network.scenario import Configuration; "
            f"experiment.measure({of.format(cpus.client)})"
        )
        with subprocess.Popen([sys.executable, "-c", code], cwd=programs.CHECKOUT) as measuring:
            assert eventually(lambda: len(namespaces() - before) >= 2)
            time.sleep(1)  # iperf3 runs
            measuring.kill()
        assert eventually(lambda: not namespaces() - before)
        assert eventually(lambda: not experiment.STATE.exists())


class Here(Guest):
    """A "guest" that is this machine."""

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        yield

    def address(self) -> str:
        return "127.0.0.1"


def test_a_guest_that_is_this_machine_is_no_path() -> None:
    with (
        pytest.raises(LabError, match=r"^web: 127\.0\.0\.1, where ssh reached it, is this machine$"),
        experiment.reach(Here("web", "localhost", "kvm", emulated=False)),
    ):
        raise AssertionError("it was reached")


def servers(guest: Guest) -> int:
    """How many iperf3 and nginx run in the guest."""
    return int(guest.run(["sh", "-c", "pidof iperf3 nginx | wc -w"], timeout=60))


def folders(guest: Guest) -> str:
    """What is in the guest's /tmp."""
    return guest.run(["ls", "/tmp"], timeout=60)


@pytest.mark.long
@pytest.mark.usefixtures("iperf3")
class TestGuest:
    @pytest.mark.parametrize("direction", ["send", "receive"])
    def test_bytes_pass_its_tap_and_its_server_ends(self, tapped: Guest, direction: str) -> None:
        [tap] = [device.name for device in Path("/sys/class/net").glob("vst*")]
        counter = Path("/sys/class/net", tap, "statistics", "tx_bytes" if direction == "send" else "rx_bytes")
        of = Configuration(guest_path(tapped), direction, 131_072, UNCHANGED)
        with experiment.reach(tapped) as to:
            assert to.device.startswith("vsb")  # the bridge
            before = int(counter.read_text())
            found = experiment.measure_guest(of, to, 1, 1, paths.Cpus("0", "0"), events=False)
        assert int(counter.read_text()) - before > found.throughput  # of one of two seconds
        assert found.cpu_seconds > 0
        assert servers(tapped) == 0
        assert not experiment.STATE.exists()

    def test_requests_pass_its_tap_and_its_server_ends(self, tapped: Guest) -> None:
        of = WebLoad(guest_path(tapped), 131_072, 10)
        [tap] = [device.name for device in Path("/sys/class/net").glob("vst*")]
        counter = Path("/sys/class/net", tap, "statistics", "rx_bytes")
        with experiment.reach(tapped) as to:
            before = int(counter.read_text())
            found = experiment.measure_web(of, 1, 2, paths.Cpus("0", "0"), events=False, to=to)
        assert (len(found.latencies), found.failed) == (20, 0)
        assert int(counter.read_text()) - before > 20 * 131_072
        assert found.cpu_seconds > 0
        assert servers(tapped) == 0
        assert eventually(lambda: folders(tapped) == "")
        assert not experiment.STATE.exists()

    def test_a_web_server_that_cannot_start_is_named_with_what_it_says(self, tapped: Guest) -> None:
        of = WebLoad(guest_path(tapped), 1_024, 10)
        elsewhere = experiment.Reached(tapped, "203.0.113.9", "eth0")
        with pytest.raises(LabError, match=r"^tapped: nginx doesn't serve and said:(?s:.*)203\.0\.113\.9:8080 failed"):
            experiment.measure_web(of, 1, 1, paths.Cpus("0", "0"), events=False, to=elsewhere)

    def test_a_server_that_cannot_start_is_named_with_what_it_says(self, tapped: Guest) -> None:
        of = Configuration(guest_path(tapped), "send", 256, UNCHANGED)
        elsewhere = experiment.Reached(tapped, "203.0.113.9", "eth0")
        with pytest.raises(LabError, match=r"^tapped: iperf3 --server .* doesn't serve and said:(?s:.*)Cannot assign"):
            experiment.measure_guest(of, elsewhere, 1, 1, paths.Cpus("0", "0"), events=False)

    @pytest.mark.parametrize(
        ("of", "measure"),
        [
            ("Configuration({path!r}, 'send', 256, 'unchanged')", "measure_guest(of, to, 30, 30, cpus, events=False)"),
            ("WebLoad({path!r}, 1024, 10)", "measure_web(of, 30, 30, cpus, events=False, to=to)"),
        ],
        ids=["iperf3", "nginx"],
    )
    def test_kill_9_leaves_no_server_in_it(self, tapped: Guest, of: str, measure: str) -> None:
        code = (
            "from lab.environments import Guest; from lab.network import experiment, paths; "
            "from lab.network.scenario import Configuration, WebLoad; cpus = paths.Cpus('0', '0'); "
            f"to = experiment.Reached({tapped!r}, '198.51.100.2', ''); "
            f"of = {of.format(path=guest_path(tapped))}; experiment.{measure}"
        )
        with subprocess.Popen([sys.executable, "-c", code], cwd=programs.CHECKOUT) as measuring:
            assert eventually(lambda: servers(tapped) > 0)
            time.sleep(2)  # the client runs
            measuring.kill()
        assert eventually(lambda: servers(tapped) == 0)
        assert eventually(lambda: folders(tapped) == "")
        assert eventually(lambda: not experiment.STATE.exists())
