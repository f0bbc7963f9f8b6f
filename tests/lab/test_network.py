"""Network costs in real namespaces and to a guest behind a tap: what is measured, what is said, what stays."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import LabError
from lab.environments import Guest
from lab.network import experiment, paths
from lab.network.scenario import UNCHANGED, Configuration, WebLoad, guest_path
from tests.lab.conftest import require_packages
from tests.lab.tapped import guest as a_tapped_guest
from tests.support.program import program_path
from tests.support.waiting import wait_for
from tools import programs

CPUS = paths.Cpus(*[str(max(os.sched_getaffinity(0)))] * 2)


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


@pytest.fixture(scope="module")
def programs_needed() -> None:
    """Skip where namespaces can't be made, or the distribution has no iperf3 and no nginx."""
    if subprocess.run(["unshare", "--net", "--mount", "true"], check=False).returncode:
        pytest.skip("network namespaces need root")
    require_packages(programs.BENCHMARKS, programs.WEB_SERVER)
    program_path("vegeta")


@pytest.fixture(scope="module")
def tapped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    with a_tapped_guest(tmp_path_factory.mktemp("guest")) as guest:
        yield guest


@pytest.mark.long
@pytest.mark.usefixtures("programs_needed")
class TestPaths:
    def test_a_program_that_fails_is_named_with_what_it_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(paths, "iperf3_server", lambda *_: ["iperf3", "--server", "--bind=203.0.113.9"])
        words = r"^veth, send, .{1,200} ended with status 1 and said:\s.*Cannot assign requested address"
        with pytest.raises(LabError, match=words):
            experiment.measure(Configuration("veth", "send", 256, "on"), 1, 1, CPUS, events=False)

    def test_requests_are_sent_at_their_rate_and_what_has_to_wait_counts(self) -> None:
        found = experiment.measure_web(WebLoad("veth", 1_024, 50), 1, 2, CPUS, events=False)
        assert (len(found.latencies), found.failed) == (100, 0)
        assert 0 < found.latency(0.5) <= found.latency(0.99)
        found = experiment.measure_web(WebLoad("veth", 131_072, 100_000), 1, 1, CPUS, events=False)
        assert len(found.latencies) / max(found.seconds, 1) < 0.9 * 100_000
        assert found.latency(0.99) > 0.1  # of a second of which most requests were late


def servers(guest: Guest) -> int:
    """How many iperf3 and nginx run in the guest."""
    return int(guest.run(["sh", "-c", "pidof iperf3 nginx | wc -w"], timeout=60))


def nothing_stays(guest: Guest) -> bool:
    """Neither in the guest nor here."""
    return servers(guest) == 0 and guest.run(["ls", "/tmp"], timeout=60) == "" and not experiment.STATE.exists()


@pytest.mark.long
@pytest.mark.usefixtures("programs_needed")
class TestGuest:
    def test_bytes_and_requests_pass_its_tap_and_its_servers_end(self, tapped: Guest) -> None:
        [tap] = Path("/sys/class/net").glob("vst*")

        def passed(counter: str) -> int:
            return int((tap / "statistics" / counter).read_text())

        with experiment.reach(tapped) as to:
            assert to.device.startswith("vsb")  # the bridge
            for direction, counter in (("send", "tx_bytes"), ("receive", "rx_bytes")):
                of = Configuration(guest_path(tapped), direction, 131_072, UNCHANGED)
                before = passed(counter)
                found = experiment.measure_guest(of, to, 1, 1, CPUS, events=False)
                assert passed(counter) - before > found.throughput, direction  # of one of two seconds
                assert found.cpu_seconds > 0
            before = passed("rx_bytes")
            load = WebLoad(guest_path(tapped), 131_072, 10)
            answered = experiment.measure_web(load, 1, 2, CPUS, events=False, to=to)
            assert (len(answered.latencies), answered.failed) == (20, 0)
            assert passed("rx_bytes") - before > 20 * 131_072
            assert answered.cpu_seconds > 0
        wait_for(lambda: nothing_stays(tapped))

    def test_a_server_that_cannot_start_is_named_with_what_it_says(self, tapped: Guest) -> None:
        elsewhere, path = experiment.Reached(tapped, "203.0.113.9", "eth0"), guest_path(tapped)
        with pytest.raises(LabError, match=r"^tapped: nginx doesn't serve and said:(?s:.*)203\.0\.113\.9:8080 failed"):
            experiment.measure_web(WebLoad(path, 1_024, 10), 1, 1, CPUS, events=False, to=elsewhere)
        with pytest.raises(LabError, match=r"^tapped: iperf3 --server .* doesn't serve and said:(?s:.*)Cannot assign"):
            experiment.measure_guest(Configuration(path, "send", 256, UNCHANGED), elsewhere, 1, 1, CPUS, events=False)

    def test_kill_9_leaves_no_server_in_it(self, tapped: Guest) -> None:
        for of, measure in (
            ("Configuration({path!r}, 'send', 256, 'unchanged')", "measure_guest(of, to, 30, 30, cpus, events=False)"),
            ("WebLoad({path!r}, 1024, 10)", "measure_web(of, 30, 30, cpus, events=False, to=to)"),
        ):
            code = (
                "from lab.environments import Guest; from lab.network import experiment, paths; "
                "from lab.network.scenario import Configuration, WebLoad; cpus = paths.Cpus('0', '0'); "
                f"to = experiment.Reached({tapped!r}, '198.51.100.2', ''); "
                f"of = {of.format(path=guest_path(tapped))}; experiment.{measure}"
            )
            with subprocess.Popen([sys.executable, "-c", code], cwd=programs.CHECKOUT) as measuring:
                wait_for(lambda: servers(tapped) > 0)
                measuring.kill()
            wait_for(lambda: nothing_stays(tapped))
