"""xentop-exporter over HTTP with a fake libxenstat, as seen by a scraper, a browser and an operator."""

import os
import re
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from tests.e2e.running_exporter import RunningExporter, comparable, ended
from tests.golden_pages import assert_golden, assert_lints
from tests.unit.xen.fake_host import FakeDomain, FakeXen
from tests.unit.xen.fake_programs import FakeXentrace, FakeXl

TESTS = Path(__file__).resolve().parents[1]
TOOLSTACK = TESTS / "fixtures/toolstack/xl-4.17-credit"

DOM0 = FakeDomain(
    0, b"Domain-0", cpu_ns=98_765_432_100, state="running", vcpus=[(1, 50_000_000_000), (1, 48_765_432_100)]
)
WEB = FakeDomain(
    1,
    b"web01",
    cpu_ns=1_234_567_890_123,
    memory=1 << 30,
    limit=2 << 30,
    vcpus=[(1, 1_234_567_890_123), (0, 0)],
    networks=[(0, 1001, 1002, 3, 4, 2001, 2002, 5, 6), (1, 0, 0, 0, 0, 0, 0, 0, 0)],
    vbds=[(1, 51712, 7, 8, 9, 10, 11, 0), (0, 51728, 0, 0, 0, 0, 0, 1)],
)
HARD_TO_QUOTE = FakeDomain(2, 'say "hi" \\o/ käse'.encode(), cpu_ns=(1 << 63) | 2_000_000_000, state="paused")
LONG = FakeDomain(3, b"n" * 200, state="")
SAME_NAME = [
    FakeDomain(4, b"copy", cpu_ns=4_000_000_000),
    FakeDomain(5, b"copy", cpu_ns=5_000_000_000, state="crashed"),
]


@pytest.fixture
def xen(tmp_path: Path) -> FakeXen:
    fake = FakeXen(tmp_path)
    fake.build_libxenctrl("-DSTOCK")
    fake.show(DOM0, WEB, HARD_TO_QUOTE, LONG, *SAME_NAME)
    return fake


@pytest.fixture
def exporter(xen: FakeXen, tmp_path: Path) -> RunningExporter:
    return RunningExporter(tmp_path, *xen.flags, "--xl.interval=0", environment=xen.environment())


def test_golden_exposition(xen: FakeXen, exporter: RunningExporter) -> None:
    xen.show(DOM0, WEB)
    with exporter:
        page = exporter.get().text
    page = comparable(page, r"xentop_\w*seconds_total").replace(str(xen.procfs), "/proc")
    assert_golden(TESTS / "golden/xentop.prom", page)


def test_every_source_gives_its_values_and_promtool_has_nothing_to_say(xen: FakeXen, tmp_path: Path) -> None:
    xentrace, xl, path = traced_host(tmp_path)
    xl.answer("psr-cmt-show cache-occupancy", "Name  ID  Socket 0\nweb01  1  2592 KB\n")
    xl.answer("psr-cmt-show total-mem-bandwidth", "Name  ID  Socket 0\nweb01  1  512 KB/s\n")
    xl.complain("vcpu-list", "libxl: warning\n")
    xen.build_libxenctrl()
    xen.show(DOM0, replace(WEB, runstate=(0, 7, 930, 9 * 10**9, 12 * 10**9, 3, 4, 5, 6, 7 * 10**9, 10**9, 0)))
    environment = {**xen.environment(), "PATH": path}
    with RunningExporter(tmp_path, *xen.flags, "--xentrace.interval=1h", environment=environment) as exporter:
        page = exporter.page_with(
            'xen_domain_wait_estimated_seconds_total{domain="web01",domid="1",running="Domain-0",running_domid="0"}',
            "xen_domain_memory_bandwidth_bytes_per_second{",
            "xentop_toolstack_problems_total{",
            'xen_domain_runstate_missed_changes_total{domain="web01",domid="1"} 7.0',
            'detail="libxenctrl.so.4.17, xc_get_runstate_info_ext",source="runstate"',
        )
    assert "xen_domain_runnable_seconds_total{" in page
    assert "xen_trace_windows_total 1.0" in page
    assert len(xentrace.asked()) == 1
    assert_lints(page)


def test_a_toolstack_s_values_follow_its_answers_and_end_with_the_guest(xen: FakeXen, tmp_path: Path) -> None:
    xentrace, xl, path = traced_host(tmp_path)
    environment = {**xen.environment(), "PATH": path}
    with RunningExporter(tmp_path, *xen.flags, "--xl.interval=0.2s", environment=environment) as exporter:
        page = exporter.page_with('xen_domain_scheduler_weight{domain="web01",domid="1"} 256.0')
        assert "xentop_up 1.0" in page
        assert 'uuid="586d02b6-9100-4965-a4ea-f600cf10add6"' in page
        assert 'xen_domain_scheduler_weight{domain="copy",domid="4"}' not in page, "a guest that xl doesn't list"
        assert 'xentop_source_age_seconds{source="xl"}' in page
        shares = (xl.answers / "sched-credit").read_text()
        xl.answer("sched-credit", shares.replace("1    256    0", "1    256   50"))
        page = exporter.page_with('xen_domain_cpu_limit_cpus{domain="web01",domid="1"} 0.5')
        assert 'xen_domain_scheduler_changes_total{domain="web01",domid="1",what="cap"} 1.0' in page
        xen.show(DOM0)
        page = exporter.get().text
    assert "web01" not in page, "at once, whatever xl listed"
    assert "xentrace" not in page, "nothing is traced unless it is asked for"
    assert not (xentrace.folder / "asked").exists()


def test_a_library_that_hangs_or_fails_holds_up_neither_the_scrape_nor_other_sources(
    xen: FakeXen, tmp_path: Path
) -> None:
    xen.build_libxenctrl()
    xen.show(FakeDomain(1, b"web01"), FakeDomain(2, b"db01"))
    with RunningExporter(tmp_path, *xen.flags, "--xl.interval=0", environment=xen.environment()) as exporter:
        assert "xentop_up 1.0" in exporter.get().text
        xen.say("hangs\nrunstate 1 0 7 0 1 2 3 4 5 6 0 0 0")
        for _ in range(3):
            # It answers with the data it has before the scraper's deadline, and never hangs itself.
            page = exporter.get(timeout=10, X_Prometheus_Scrape_Timeout_Seconds="2").text
            assert "xentop_up 0.0" in page
            assert "xen_domain_cpu_seconds_total{" not in page
            assert 'xentop_source_up{source="runstate"} 1.0' in page
            missed = re.findall(r"(?m)^xen_domain_runstate_missed_changes_total.*", page)
            assert missed == ['xen_domain_runstate_missed_changes_total{domain="web01",domid="1"} 7.0']
        assert 'xentop_source_errors_total{reason="timeout",source="libxenstat"} 3.0' in page
        assert len(exporter.log_lines("source failed")) == 1  # one line per change of state
        xen.show(DOM0)
        assert "xentop_up 1.0" in exporter.get().text
        xen.say("fails 5")
        assert 'xentop_source_errors_total{reason="error",source="libxenstat"} 1.0' in exporter.get().text
        assert "Input/output error" in exporter.log_lines("source failed")[-1]["err"]


def traced_host(tmp_path: Path) -> tuple[FakeXentrace, FakeXl, str]:
    xentrace = FakeXentrace(tmp_path, (TESTS / "fixtures/xentrace/one-cpu-three-guests.bin").read_bytes())
    xl = FakeXl(tmp_path, TOOLSTACK)
    xl.answer("cpupool-list -c", "Name               CPU list\nPool-0             0\n")
    return xentrace, xl, f"{xentrace.folder}{os.pathsep}{xl.path}"


def test_what_cannot_be_is_reported_in_one_line(tmp_path: Path) -> None:
    for flags, words in (
        (["--xentrace.interval=9s"], "too short"),
        (["--xentrace.interval=60s", "--xl.interval=0"], "needs --xl.interval"),
    ):
        done = ended("virtscope.xen", f"--path.sysfs={tmp_path}", *flags)
        assert (done.returncode, words in done.stderr.splitlines()[-1]) == (1, True), done.stderr


def test_off_xen_it_runs_and_says_once_what_is_missing(tmp_path: Path) -> None:
    flags = ["--source=libxenstat", f"--path.sysfs={tmp_path}", "--web.telemetry-path=/xen", "--web.listen-address=:0"]
    with RunningExporter(tmp_path, *flags) as exporter:
        port = exporter.address.rpartition(":")[2]
        for host in ("127.0.0.1", "[::1]", "127.0.0.1") if socket.has_dualstack_ipv6() else ("127.0.0.1",) * 3:
            page = requests.get(f"http://{host}:{port}/xen", timeout=10).text
        (said,) = exporter.log_lines("source failed")
    assert "xentop_up 0.0" in page
    assert 'xentop_source_errors_total{reason="unavailable",source="libxenstat"} 3.0' in page
    assert "run this in Dom0" in said["err"]


def test_signals_in_quick_succession_still_end_it(tmp_path: Path) -> None:
    """As terminals and supervisors send them. A signal handler that takes a lock would deadlock with itself."""
    for _ in range(5):
        with RunningExporter(tmp_path, f"--path.sysfs={tmp_path}") as exporter:
            for number in (signal.SIGTERM, signal.SIGINT) * 1000:
                exporter.process.send_signal(number)
            assert exporter.process.wait(30) == 0
