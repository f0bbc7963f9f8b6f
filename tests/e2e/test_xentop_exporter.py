"""xentop-exporter over HTTP, with a libxenstat built for the test: what a scraper, a browser and an operator see."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from tests.e2e.running_exporter import EXPORTERS, RunningExporter
from tests.golden_pages import assert_golden, assert_lints
from tests.unit.xen.fake_host import FakeDomain, FakeXen, write_net_dev
from tests.unit.xen.fake_xentrace import FakeXentrace
from tests.unit.xen.fake_xl import FakeXl

TESTS = Path(__file__).resolve().parents[1]
GOLDEN = TESTS / "golden/xentop.prom"

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
    with exporter:
        page = exporter.get().text
    # What differs from run to run and from machine to machine.
    page = re.sub(r"(?m)^((?:process_\w+|xentop_\w*seconds_total(?:{.*})?) ).*$", r"\1VARIES", page)
    page = re.sub(r'python="[^"]*"', 'python="VARIES"', page).replace(str(xen.procfs), "/proc")
    assert_golden(GOLDEN, page)


def test_promtool_finds_nothing_to_say(xen: FakeXen, tmp_path: Path) -> None:
    xl = FakeXl(tmp_path, TESTS / "fixtures/toolstack/xl-4.17-credit")
    xl.answer("psr-cmt-show cache-occupancy", "Name  ID  Socket 0\nweb01  1  2592 KB\n")
    xl.answer("psr-cmt-show total-mem-bandwidth", "Name  ID  Socket 0\nweb01  1  512 KB/s\n")
    xl.complain("vcpu-list", "libxl: warning\n")
    xen.build_libxenctrl()
    xen.show(DOM0, replace(WEB, runstate=(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)))
    environment = {**xen.environment(), "PATH": xl.path}
    with RunningExporter(tmp_path, *xen.flags, environment=environment) as exporter:
        bandwidth, problems = "xen_domain_memory_bandwidth_bytes_per_second{", "xentop_toolstack_problems_total{"
        page = page_with(exporter, bandwidth, problems)
    assert bandwidth in page
    assert problems in page
    assert "xen_domain_runnable_seconds_total{" in page
    assert_lints(page)


def page_with(exporter: RunningExporter, *series: str) -> str:
    """Return the first page that has all these series; some sources need a moment."""
    end = time.monotonic() + 30
    page = exporter.get().text
    while not all(one in page for one in series) and time.monotonic() < end:
        time.sleep(0.1)
        page = exporter.get().text
    return page


def test_values_from_the_toolstack(xen: FakeXen, tmp_path: Path) -> None:
    xl = FakeXl(tmp_path, TESTS / "fixtures/toolstack/xl-4.17-credit")
    environment = {**xen.environment(), "PATH": xl.path}
    flags = [*xen.flags, "--xl.interval=0.2s"]
    with RunningExporter(tmp_path, *flags, environment=environment) as exporter:
        page = page_with(exporter, "xen_domain_scheduler_weight{")
        assert "xentop_up 1.0" in page
        assert 'xen_domain_scheduler_weight{domain="web01",domid="1"} 256.0' in page
        assert 'uuid="586d02b6-9100-4965-a4ea-f600cf10add6"' in page
        assert 'xen_domain_scheduler_weight{domain="copy",domid="4"}' not in page  # a guest that xl doesn't list
        assert 'xentop_source_age_seconds{source="xl"}' in page
        shares = (xl.answers / "sched-credit").read_text()
        xl.answer("sched-credit", shares.replace("1    256    0", "1    256   50"))
        assert 'xen_domain_cpu_limit_cpus{domain="web01",domid="1"} 0.5' in page_with(exporter, "cpu_limit_cpus{")
        changed = 'xen_domain_scheduler_changes_total{domain="web01",domid="1",what="cap"} 1.0'
        assert changed in exporter.get().text
        xen.show(DOM0)
        assert "web01" not in exporter.get().text  # at once, whatever xl listed


def test_a_toolstack_that_refuses_costs_its_own_values_alone(xen: FakeXen, tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    xl = FakeXl(tmp_path, tmp_path / "answers")
    for command in ("list -v -c", "list -v", "list"):
        xl.complain(command, "Permission denied\n")
    environment = {**xen.environment(), "PATH": xl.path}
    with RunningExporter(tmp_path, *xen.flags, environment=environment) as exporter:
        page = page_with(exporter, 'xentop_source_up{source="xl"} 0.0')
        assert 'xentop_source_up{source="libxenstat"} 1.0' in page
        assert 'xen_domain_cpu_seconds_total{domain="web01",domid="1"}' in page
        assert 'xentop_source_errors_total{reason="error",source="xl"}' in page
        assert "Permission denied" in exporter.log_lines("source failed")[0]["err"]


def test_no_toolstack_is_no_failure(xen: FakeXen, tmp_path: Path) -> None:
    environment = {**xen.environment(), "PATH": str(tmp_path)}
    with RunningExporter(tmp_path, *xen.flags, environment=environment) as exporter:
        page = page_with(exporter, "neither xl nor xm")
        assert "xentop_up 1.0" in page
        assert 'xentop_source_up{source="xl"}' not in page


def test_a_hanging_library_does_not_hold_up_the_scrape(xen: FakeXen, exporter: RunningExporter) -> None:
    with exporter:
        assert "xentop_up 1.0" in exporter.get().text
        xen.say("hangs")
        for _ in range(3):
            # It answers with what it has, a while before the scraper's own deadline, and never hangs itself.
            page = exporter.get(timeout=8, X_Prometheus_Scrape_Timeout_Seconds="4").text
            assert "xentop_up 0.0" in page
            assert "xen_domain_cpu_seconds_total{" not in page
        assert 'xentop_source_errors_total{reason="timeout",source="libxenstat"} 3.0' in page
        assert len(exporter.log_lines("source failed")) == 1  # one line per change of state, no flood
        xen.show(DOM0)
        assert "xentop_up 1.0" in exporter.get().text
        assert len(exporter.log_lines("source answers")) == 2


def test_a_failing_library_is_counted_by_reason(xen: FakeXen, exporter: RunningExporter) -> None:
    xen.say("fails 5")
    with exporter:
        assert 'xentop_source_errors_total{reason="error",source="libxenstat"} 1.0' in exporter.get().text
        assert "Input/output error" in exporter.log_lines("source failed")[0]["err"]


def test_networks_that_libxenstat_loses(xen: FakeXen, exporter: RunningExporter) -> None:
    xen.show(DOM0, FakeDomain(1, b"web01"))
    write_net_dev(xen.procfs, {"vif1.0": (1001, 1002, 3, 4, 2001, 2002, 5, 6)})
    with exporter:
        page = exporter.get().text
        write_net_dev(xen.procfs, {})
        later = exporter.get().text
    assert 'xen_domain_network_receive_bytes_total{domain="web01",domid="1",vif="0"} 2001.0' in page
    detail = f'detail="libxenstat.so.4.17, networks from {xen.procfs / "net/dev"}",source="libxenstat"'
    assert detail in page
    assert detail in later
    assert "xen_domain_network_receive_bytes_total{" not in later


def test_networks_of_libxenstat_where_the_file_can_not_be_read(xen: FakeXen, exporter: RunningExporter) -> None:
    network = 'xen_domain_network_receive_bytes_total{domain="web01",domid="1",vif="0"} '
    path = xen.procfs / "net/dev"
    whole = path.read_text()
    with exporter:
        assert f"{network}2001.0" in exporter.get().text
        for odd in ("of another form", "of another form again"):
            path.write_text(odd)
            page = exporter.get().text
            assert f"{network}2001.0" in page
            assert 'detail="libxenstat.so.4.17",source="libxenstat"' in page
            assert 'xentop_source_up{source="libxenstat"} 1.0' in page
        path.unlink()
        assert f"{network}2001.0" in exporter.get().text
        path.write_text(whole)
        assert f'detail="libxenstat.so.4.17, networks from {path}"' in exporter.get().text
        said = exporter.log_lines("networks are libxenstat's")
        assert [line["reason"] for line in said] == ["malformed", "unavailable"]  # a line for each change
        assert "of another form" in said[0]["err"]
        assert len(exporter.log_lines("networks are libxenstat's no more")) == 1


def test_runnable_time_of_domains(xen: FakeXen, tmp_path: Path) -> None:
    xen.build_libxenctrl()
    seconds = [number * 10**9 for number in (900, 12, 3, 4, 5, 6)]
    waited = (0, 7, 930 * 10**9, *seconds, 8 * 10**9, 10**9, 0)
    xen.show(DOM0, FakeDomain(1, b"web01", vcpus=[(1, 0), (1, 0)], runstate=waited))
    with RunningExporter(tmp_path, *xen.flags, environment=xen.environment()) as exporter:
        page = page_with(exporter, "xen_domain_runnable_seconds_total{")
    web = 'domain="web01",domid="1"'
    assert f'xen_domain_runstate_seconds_total{{{web},runstate="full_contention"}} 12.0' in page
    assert f"xen_domain_runstate_missed_changes_total{{{web}}} 7.0" in page
    assert f"xen_domain_runnable_seconds_total{{{web}}} 16.0" in page
    assert 'detail="libxenctrl.so.4.17, xc_get_runstate_info_ext",source="runstate"' in page
    assert "xentop_up 1.0" in page


def test_runnable_time_is_exposed_while_libxenstat_hangs(xen: FakeXen, tmp_path: Path) -> None:
    xen.build_libxenctrl()
    account = "runstate 1 0 7 0 1 2 3 4 5 6 0 0 0"
    xen.show(FakeDomain(1, b"web01"), FakeDomain(2, b"db01"))
    with RunningExporter(tmp_path, *xen.flags, environment=xen.environment()) as exporter:
        exporter.get()
        xen.say(f"hangs\n{account}")
        page = exporter.get(timeout=5, X_Prometheus_Scrape_Timeout_Seconds="2").text
    assert 'xentop_source_up{source="libxenstat"} 0.0' in page
    assert 'xentop_source_up{source="runstate"} 1.0' in page
    missed = re.findall(r"(?m)^xen_domain_runstate_missed_changes_total.*", page)
    assert missed == ['xen_domain_runstate_missed_changes_total{domain="web01",domid="1"} 7.0']


def traced_host(tmp_path: Path) -> tuple[FakeXentrace, str]:
    """A fake xentrace and xl, and a PATH with both."""
    xentrace = FakeXentrace(tmp_path, (TESTS / "fixtures/xentrace/one-cpu-three-guests.bin").read_bytes())
    xl = FakeXl(tmp_path, TESTS / "fixtures/toolstack/xl-4.17-credit")
    xl.answer("cpupool-list -c", "Name               CPU list\nPool-0             0\n")
    return xentrace, f"{xentrace.folder}{os.pathsep}{xl.path}"


def test_for_whom_domains_wait_is_estimated_if_that_is_asked_for(xen: FakeXen, tmp_path: Path) -> None:
    xentrace, path = traced_host(tmp_path)
    environment = {**xen.environment(), "PATH": path}
    flags = [*xen.flags, "--xentrace.interval=1h"]
    with RunningExporter(tmp_path, *flags, environment=environment) as exporter:
        page = page_with(exporter, "xen_domain_wait_estimated_seconds_total{")
        waits = re.findall(r'(?m)^xen_domain_wait_estimated_seconds_total{domain="web01".*', page)
        who = [re.sub(r'.*running="(.*)",running_domid="(.*)"} 0\.0', r"\1 \2", line) for line in waits]
        assert who == ["web01 1", "Domain-0 0", 'say \\"hi\\" \\\\o/ käse 2', f"{'n' * 200} 3", "(idle) ", "(rest) "]
        assert "xen_trace_windows_total 1.0" in page
        assert f'xentop_source_info{{detail="{xentrace.folder}/xentrace",source="xentrace"}} 1.0' in page
        assert "xentop_up 1.0" in page
        assert_lints(page)
        xen.show(DOM0, WEB)
        exporter.get()
        assert "n" * 200 not in exporter.get().text  # a guest that has ended, in its own series and in others'
    assert len(xentrace.asked()) == 1


def test_the_window_that_is_open_ends_with_the_exporter(xen: FakeXen, tmp_path: Path) -> None:
    xentrace, path = traced_host(tmp_path)
    xentrace.writes_and_waits()
    flags = [*xen.flags, "--xentrace.interval=60s"]
    with RunningExporter(tmp_path, *flags, environment={**xen.environment(), "PATH": path}) as exporter:
        end = time.monotonic() + 30
        while not xentrace.waits() and time.monotonic() < end:
            time.sleep(0.1)
        exporter.process.send_signal(signal.SIGTERM)
        assert exporter.process.wait(30) == 0
    assert xentrace.ended_when_asked(), "Xen would go on tracing"


def test_nothing_is_traced_by_default(xen: FakeXen, tmp_path: Path) -> None:
    xentrace, path = traced_host(tmp_path)
    with RunningExporter(tmp_path, *xen.flags, environment={**xen.environment(), "PATH": path}) as exporter:
        assert "xentrace" not in page_with(exporter, "xen_domain_scheduler_weight{")
    assert not (xentrace.folder / "asked").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--xentrace.interval=9s"], "too short"),
        (["--xentrace.interval=60s", "--xl.interval=0"], "needs --xl.interval"),
    ],
)
def test_flags_by_which_nothing_can_be_traced(tmp_path: Path, flags: list[str], words: str) -> None:
    command = [sys.executable, "-m", "virtscope.xen", f"--path.sysfs={tmp_path}", *flags]
    ended = subprocess.run(command, cwd=EXPORTERS, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert words in ended.stderr.splitlines()[-1]


def test_without_runnable_time_it_says_what_to_do(exporter: RunningExporter) -> None:
    with exporter:
        page = exporter.get().text
    assert "xen_domain_runstate_seconds_total{" not in page
    assert re.search(
        r'xentop_source_info{detail="absent: [^"]*node_exporter in the guests[^"]*",source="runstate"}', page
    )
    assert "xentop_up 1.0" in page


def test_guests_come_and_go(xen: FakeXen, exporter: RunningExporter) -> None:
    with exporter:
        assert 'domain="web01"' in exporter.get().text
        xen.show(DOM0, FakeDomain(9, b"new"))
        page = exporter.get().text
    assert 'xen_domain_cpu_seconds_total{domain="new",domid="9"} 0.0' in page
    assert "web01" not in page


def test_off_xen_it_runs_and_says_once_what_is_missing(tmp_path: Path) -> None:
    with RunningExporter(tmp_path, "--source=libxenstat", f"--path.sysfs={tmp_path}") as exporter:
        for _ in range(3):
            page = exporter.get().text
        said = exporter.log_lines("source failed")
    assert "xentop_up 0.0" in page
    assert 'xentop_source_errors_total{reason="unavailable",source="libxenstat"} 3.0' in page
    assert [line["reason"] for line in said] == ["unavailable"]
    assert "run this in Dom0" in said[0]["err"]


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text;version=1.0.0", "application/openmetrics-text; version=1.0.0; charset=utf-8"),
    ],
)
def test_format_is_negotiated(exporter: RunningExporter, accept: str, content_type: str) -> None:
    with exporter:
        answer = exporter.get(Accept=accept)
    assert answer.headers["Content-Type"] == content_type
    assert answer.text.endswith("# EOF\n") == ("openmetrics" in content_type)


def test_gzip_only_when_asked_for(exporter: RunningExporter) -> None:
    with exporter:
        plain = exporter.get(Accept_Encoding="identity")
        packed = exporter.get(Accept_Encoding="gzip")
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.text.startswith("# HELP xen_host_info ")


def test_pages(exporter: RunningExporter) -> None:
    with exporter:
        assert 'href="/metrics"' in exporter.get("/").text
        assert exporter.get("/-/healthy").status_code == 200
        assert exporter.get("/metrics?collect[]=x").status_code == 200
        missing = exporter.get("/nowhere")
    assert (missing.status_code, missing.text) == (404, "404: the metrics are at /metrics\n")


def test_telemetry_path(xen: FakeXen, tmp_path: Path) -> None:
    flags = (*xen.flags, "--web.telemetry-path=/xen")
    with RunningExporter(tmp_path, *flags, environment=xen.environment()) as exporter:
        assert "xentop_up 1.0" in exporter.get("/xen").text
        assert exporter.get("/metrics").status_code == 404


def test_sigterm_lets_a_scrape_under_way_finish(xen: FakeXen, exporter: RunningExporter) -> None:
    with exporter:
        exporter.get()
        xen.say("hangs")
        answers: list[str] = []
        scrape = threading.Thread(
            target=lambda: answers.append(exporter.get(timeout=30, X_Prometheus_Scrape_Timeout_Seconds="8").text)
        )
        scrape.start()
        time.sleep(3)  # until the scrape is under way
        exporter.process.send_signal(signal.SIGTERM)
        scrape.join(30)
        assert exporter.process.wait(30) == 0
    assert "xentop_up 0.0" in answers[0]


def test_signals_in_quick_succession_still_end_it(tmp_path: Path) -> None:
    """As a terminal and a supervisor may send them; a handler that took a lock would be stuck behind itself."""
    for _ in range(5):
        with RunningExporter(tmp_path, f"--path.sysfs={tmp_path}") as exporter:
            for number in (signal.SIGTERM, signal.SIGINT) * 1000:
                exporter.process.send_signal(number)
            assert exporter.process.wait(30) == 0


def test_an_address_without_a_host_takes_both_families(tmp_path: Path) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6: load its kernel module, or boot without ipv6.disable")
    with RunningExporter(tmp_path, "--web.listen-address=:0", f"--path.sysfs={tmp_path}") as exporter:
        port = exporter.address.rpartition(":")[2]
        assert exporter.address == f"[::]:{port}"
        for host in ("127.0.0.1", "[::1]"):
            assert requests.get(f"http://{host}:{port}/-/healthy", timeout=10).status_code == 200


def test_a_requests_body_is_not_taken_for_the_next_request(exporter: RunningExporter) -> None:
    hidden = b"GET /hidden HTTP/1.1\r\n\r\n"
    with exporter:
        host, port = exporter.address.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(hidden), hidden))
            answer = b""
            with contextlib.suppress(ConnectionResetError):  # the unread body
                while part := connection.recv(65536):
                    answer += part
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"\r\nConnection: close\r\n" in answer


def test_a_silent_client_delays_no_other(exporter: RunningExporter) -> None:
    with exporter:
        host, port = exporter.address.split(":")
        with socket.create_connection((host, int(port))):  # says nothing
            assert "xentop_up 1.0" in exporter.get(timeout=5).text


def test_malformed_requests_do_no_harm(exporter: RunningExporter) -> None:
    with exporter:
        host, port = exporter.address.split(":")
        for malformed in (b"\0\xff\r\n\r\n", b"GET\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n", b"A" * 100_000):
            with socket.create_connection((host, int(port)), timeout=10) as connection:
                connection.sendall(malformed)
        assert exporter.get(X_Prometheus_Scrape_Timeout_Seconds="-inf").status_code == 200
        assert exporter.log_lines("connection broke") == []


def test_a_taken_port_is_reported_in_one_line(exporter: RunningExporter) -> None:
    with exporter:
        second = subprocess.run(
            [sys.executable, "-m", "virtscope.xen", f"--web.listen-address={exporter.address}"],
            cwd=EXPORTERS,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert second.returncode == 1
    assert second.stderr.splitlines()[-1].endswith("Address already in use; choose another --web.listen-address")
