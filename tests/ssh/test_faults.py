"""Hosts that are unreachable, hang, disappear or send garbage, as seen by a scraper and an operator."""

import os
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from tests.e2e.running_exporter import RunningExporter
from tests.proofs.bench.containers import Containers
from tests.ssh.exporter import over_ssh, write_hosts
from tests.ssh.sshd import Sshd, command_of, descendants, make_key, resident, running, script
from tests.ssh.xen_tools import XenTools
from tests.support.waiting import wait_for
from virtscope.ssh import authorized_key

pytestmark = pytest.mark.system

VZ1, VZ2, VZ3 = (f"/probe?module=openvz&target=vz{number}" for number in (1, 2, 3))
USED = 'openvz_container_cpu_used_seconds_total{ctid="%s"}'
UP, DOWN = "\nvestat_up 1.0\n", "\nvestat_up 0.0\n"
SESSION = "while IFS= read -r request"  # loop of the script on the host


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """Serves vz1 with container 1 and vz2 with container 2."""
    with Sshd(tmp_path) as served:
        for number in ("1", "2"):
            host = Containers(tmp_path / f"vz{number}", 1, first=int(number))
            served.add_host(f"vz{number}", authorized_key.command(script(host.procfs)))
        yield served


@pytest.fixture
def exporter(sshd: Sshd) -> Iterator[RunningExporter]:
    with over_ssh(sshd, "vz1", "vz2", flags=["--vzlist.interval=0"]) as exporter:
        yield exporter


def status(exporter: RunningExporter, probe: str) -> tuple[int, str]:
    answer = exporter.get(probe)
    return answer.status_code, answer.text


def within(exporter: RunningExporter, seconds: str, probe: str) -> requests.Response:
    """The result for a Prometheus with this scrape timeout."""
    return exporter.get(probe, X_Prometheus_Scrape_Timeout_Seconds=seconds)


def add_slow_host(sshd: Sshd, text: str) -> None:
    """Add vz3, a copy of vz1 whose grep first does this."""
    folder = sshd.folder / "slow"
    folder.mkdir()
    (folder / "grep").write_text(f'#!/bin/sh\n{text}\nexec /bin/grep "$@"\n')
    (folder / "grep").chmod(0o755)
    sshd.add_host("vz3", authorized_key.command(script(sshd.folder / "vz1", programs=folder)))


def test_only_hosts_of_the_file_are_probed(sshd: Sshd, exporter: RunningExporter, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    options = (f"%2DoProxyCommand=touch%20{touched}", "--", "..%2f..%2fvz1", f"vz1;touch%20{touched}")
    for target in ("vz3", "127.0.0.1", "root@vz1", "vz1%20vz2", "vz1%0a", *options):
        assert exporter.get(f"/probe?module=openvz&target={target}").status_code == 404, target
    for query in ("target=vz1", "module=perf&target=vz1"):
        assert exporter.get(f"/probe?{query}").status_code == 400, query
    write_hosts(sshd, "vz1", "-oProxyCommand=id")
    code, said = status(exporter, VZ1)
    assert (code, "no host's name" in said) == (503, True)
    assert not descendants(exporter.process.pid), "no ssh was started"
    write_hosts(sshd, "vz1", "vz3")
    assert (exporter.get(VZ1).status_code, exporter.get(VZ2).status_code) == (200, 404)
    assert not touched.exists()


def test_a_key_that_the_host_does_not_know_and_one_without_the_forced_command_run_nothing(
    sshd: Sshd, exporter: RunningExporter
) -> None:
    (sshd.folder / "key-vz1").unlink()
    make_key(sshd.folder / "key-vz1")
    for _ in range(5):
        code, said = status(exporter, VZ1)
        assert (code, "Permission denied" in said) == (503, True)
    assert exporter.get(VZ2).status_code == 200
    (line,) = exporter.log_lines("host can't be reached")
    assert (line["target"], "Permission denied" in line["err"]) == ("vz1", True)
    own = exporter.get().text
    assert re.findall(r'ssh_connected{target="vz(\d)"} (\d)', own) == [("1", "0"), ("2", "1")]
    (sshd.folder / "authorized_keys").write_text((sshd.folder / "key-vz1.pub").read_text())
    config = sshd.folder / "sshd_config"
    config.write_text(config.read_text().replace("forced-commands-only", "prohibit-password"))
    sshd.stop()
    sshd.start()
    wait_for(lambda: "no forced command" in status(exporter, VZ1)[1], 60)
    assert exporter.get(VZ1).status_code == 503


def test_a_changed_host_key_is_refused_whatever_the_configuration_says(sshd: Sshd, exporter: RunningExporter) -> None:
    sshd.config.write_text(sshd.config.read_text() + "  StrictHostKeyChecking no\n")
    assert exporter.get(VZ1).status_code == 200
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    wait_for(lambda: "Host key verification failed" in exporter.get(VZ1).text, 60)
    assert exporter.get(VZ1).status_code == 503


def test_a_host_that_goes_away_and_comes_back(sshd: Sshd, exporter: RunningExporter) -> None:
    assert exporter.get(VZ1).status_code == 200
    for pid in sshd.pids():  # a session that ends between two scrapes affects neither
        if SESSION in command_of(pid):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(SESSION in command_of(pid) for pid in sshd.pids()), 60)
    code, page = status(exporter, VZ1)
    assert (code, 'vestat_source_up{source="vestat"} 1.0\n' in page) == (200, True)
    assert exporter.log_lines("host can't be reached") == []
    connected = len(exporter.log_lines("host connected"))

    sshd.stop()
    wait_for(lambda: exporter.get(VZ1).status_code == 503, 60)
    assert {exporter.get(VZ1).status_code for _ in range(5)} == {503}
    sshd.start()
    wait_for(lambda: exporter.get(VZ1).status_code == 200, 60)
    assert USED % "1" in exporter.get(VZ1).text
    assert len(exporter.log_lines("host connected")) == connected + 1
    assert len(exporter.log_lines("host can't be reached")) <= 2, "cut off, and then refused"


def test_a_host_that_hangs_costs_its_own_metrics_and_leaves_nothing_behind(sshd: Sshd, tmp_path: Path) -> None:
    hanging = f"tail -f {tmp_path}/hang"
    add_slow_host(sshd, f"[ -e {tmp_path}/hang ] && exec {hanging}")
    with over_ssh(sshd, "vz1", "vz2", "vz3", flags=["--vzlist.interval=0"]) as exporter, ThreadPoolExecutor() as thread:
        # Connected by now: a handshake takes seconds on a busy machine.
        assert UP in exporter.get(VZ3).text
        (tmp_path / "hang").touch()
        probes = [thread.submit(within, exporter, "9", VZ3)]

        def hangs() -> bool:
            if probes[-1].done():  # finished before the host started, on a busy machine
                probes.append(thread.submit(within, exporter, "9", VZ3))
            return bool(running(hanging))

        wait_for(hangs)
        assert exporter.get(VZ1).status_code == 200, "others are answered meanwhile"
        answer = probes[-1].result(90)
        assert (answer.status_code, DOWN in answer.text) == (200, True)
        assert 'vestat_source_up{source="vestat"} 0.0\n' in answer.text
        assert f'vestat_source_errors_total{{reason="timeout",source="vestat"}} {len(probes)}.0\n' in answer.text
        assert "openvz_container" not in answer.text
        (said,) = exporter.log_lines("source failed")
        assert (said["target"], said["source"]) == ("vz3", "vestat,beancounters,ioacct,quota")
        wait_for(lambda: not running(hanging), 60)
        (tmp_path / "hang").unlink()
        wait_for(lambda: UP in exporter.get(VZ3).text, 60)


def test_a_short_timeout_costs_no_other_client_and_no_connection(sshd: Sshd, tmp_path: Path) -> None:
    waiting, wait = f"tail -f {tmp_path}/wait", tmp_path / "wait"
    grep = f"[ -e {wait} ] && {{ {waiting} & while [ -e {wait} ]; do sleep 0.1; done; kill $!; }}"
    add_slow_host(sshd, f"{grep};")
    with over_ssh(sshd, "vz3", flags=["--vzlist.interval=0"]) as exporter, ThreadPoolExecutor() as thread:
        assert UP in exporter.get(VZ3).text
        wait.touch()
        for _ in range(3):
            impatient = within(exporter, "0.1", VZ3)
            assert (impatient.status_code, DOWN in impatient.text) == (200, True)
        patient = thread.submit(exporter.get, VZ3)
        wait_for(lambda: running(waiting), 60)
        wait.unlink()
        page = patient.result(90).text
        assert UP in page
        assert USED % "1" in page
        own = exporter.get().text
    assert 'ssh_connections_total{target="vz3"} 1.0\n' in own
    assert 'ssh_failures_total{reason="timeout",target="vz3"} 0.0\n' in own


HOSTILE = (
    *("cat /dev/zero", "yes >&2", "echo virtscope 1; yes", "kill -9 $$"),
    "echo virtscope 1; read request; echo openvz 10737418240; cat /dev/zero",
    'echo virtscope 1; while read request; do printf "openvz 9\\n\\033]0;x\\007\\0\\n\\n\\n\\n0\\n\\n"; done',
)


def test_a_hostile_host_costs_its_own_metrics(sshd: Sshd) -> None:
    for number, says in enumerate(HOSTILE):
        sshd.add_host(f"evil{number}", f"exec sh -c '{says}'")
    with over_ssh(sshd, "vz1", *(f"evil{number}" for number in range(len(HOSTILE)))) as exporter:
        for number, says in enumerate(HOSTILE):
            before = resident(exporter.process.pid)
            for _ in range(3):
                page = within(exporter, "3", f"/probe?module=openvz&target=evil{number}")
                assert page.status_code == 503 or DOWN in page.text, says
                assert "openvz_container" not in page.text, says
                good = exporter.get(VZ1).text
                assert (USED % "1" in good, UP in good) == (True, True), says
            assert resident(exporter.process.pid) - before < 64 << 20, says
            about = [line for line in exporter.log().splitlines() if f'"evil{number}"' in line and '"warn"' in line]
            assert len(about) <= 2, says
        assert "\033" not in exporter.log()


def test_no_value_of_a_host_is_shown_for_another(exporter: RunningExporter) -> None:
    together = threading.Barrier(8)

    def probe(number: int) -> list[str]:
        together.wait(60)
        return [exporter.get(f"/probe?module=openvz&target=vz{number}").text for _ in range(10)]

    with ThreadPoolExecutor(8) as threads:
        pages = list(threads.map(probe, (1, 2) * 4))
    for number, of_host in zip((1, 2) * 4, pages, strict=True):
        assert all(USED % number in page and USED % (3 - number) not in page for page in of_host)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_ssh_ends_with_the_exporter(sshd: Sshd, exporter: RunningExporter, end: signal.Signals) -> None:
    assert [exporter.get(probe).status_code for probe in (VZ1, VZ2)] == [200, 200]
    children = descendants(exporter.process.pid)
    assert len(children) == 2
    sessions = sshd.pids()
    exporter.process.send_signal(end)
    exporter.process.wait(30)
    wait_for(lambda: not any(command_of(pid) for pid in (*children, *sessions)), 60)


@pytest.fixture
def tools(tmp_path: Path) -> XenTools:
    return XenTools(tmp_path)


@pytest.fixture
def dom0(tools: XenTools, tmp_path: Path) -> Iterator[Sshd]:
    with Sshd(tmp_path) as sshd:
        sshd.add_host("dom0", authorized_key.command(script(sys=tools.sysfs, programs=tools.folder)))
        yield sshd


def test_an_xl_that_hangs_costs_no_scrape(tools: XenTools, dom0: Sshd) -> None:
    tools.xl.hang("list -v")
    with over_ssh(dom0, "dom0", flags=["--xl.interval=1s"]) as exporter:
        exporter.get("/probe?module=openvz&target=dom0")  # connected by now, without xl
        pages = []

        def failed() -> bool:
            # xl times out after four seconds, before the scrape's ten; the remaining time is for reconnecting.
            pages.append(within(exporter, "16", "/probe?module=xen&target=dom0").text)
            # It may fail more than once between two scrapes.
            failures = r'\nxentop_source_background_errors_total\{reason="timeout",source="xl"\} ([0-9]+)\.0\n'
            found = re.search(failures, pages[-1])
            return found is not None and int(found[1]) >= 2

        wait_for(failed, 60)
        assert [page for page in pages if 'xentop_source_up{source="xentop"} 1.0\n' not in page] == []
        assert "gave way to a scrape that waited for it" in exporter.log()
        assert 'ssh_failures_total{reason="error",target="dom0"} 0.0\n' in exporter.get().text
        assert not exporter.log_lines("host can't be reached")
