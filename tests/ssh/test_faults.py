"""Hosts that can't be reached, hang, go away or answer anything: what a scraper and an operator see."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.running_exporter import RunningExporter
from tests.golden_pages import assert_lints
from tests.ssh.exporter import over_ssh, write_hosts
from tests.ssh.sshd import Sshd, command_of, descendants, make_key, running, script
from tests.ssh.xen_tools import XenTools
from tests.unit.openvz import fake_host
from tests.unit.waiting import within_a_minute
from virtscope.ssh import authorized_key

VZ1 = "/probe?module=openvz&target=vz1"
VZ2 = "/probe?module=openvz&target=vz2"
BEANCOUNTERS = """Version: 2.5
       uid  resource                     held              maxheld              barrier                limit failcnt
        0:  kmemsize                  1000000              2000000           9223372036854775807  9223372036854775807 0
"""
USED = 'openvz_container_cpu_used_seconds_total{ctid="%s"}'


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """Serves vz1 with container 1 and vz2 with container 2."""
    with Sshd(tmp_path) as served:
        for number in ("1", "2"):
            proc = tmp_path / f"vz{number}"
            proc.mkdir()
            fake_host.write(proc, vestat=fake_host.vestat([fake_host.row(number, 3600)]))
            (proc / "user_beancounters").write_text(BEANCOUNTERS)
            served.add_host(f"vz{number}", authorized_key.command(script(proc)))
        yield served


def exporter_of(sshd: Sshd) -> RunningExporter:
    return over_ssh(sshd, "vz1", "vz2", flags=["--vzlist.interval=0"])


def programs(folder: Path, **scripts: str) -> Path:
    """Make a folder for the host's PATH with these programs."""
    folder.mkdir(exist_ok=True)
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder


def test_only_hosts_of_the_file_are_probed(sshd: Sshd, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    with exporter_of(sshd) as exporter:
        for target in (
            "vz3",
            "127.0.0.1",
            "root@vz1",
            "vz1%20vz2",
            "vz1%0a",
            "%2DoProxyCommand=touch%20" + str(touched),
            "--",
            "..%2f..%2fvz1",
            "vz1;touch%20" + str(touched),
        ):
            assert exporter.get(f"/probe?module=openvz&target={target}").status_code == 404, target
        for query in ("", "module=openvz", "target=", "target=vz1", "module=perf&target=vz1"):
            assert exporter.get(f"/probe?{query}").status_code == 400, query
        for query in ("module=openvz&target=vz1&target=vz2", "module=openvz&target=vz1&x=1", "target=vz1&&"):
            assert exporter.get(f"/probe?{query}").status_code == 400, query
        assert not descendants(exporter.process.pid), "no ssh was started"
        write_hosts(sshd, "vz1", "vz3")
        assert exporter.get(VZ1).status_code == 200
        assert exporter.get(VZ2).status_code == 404
    assert not touched.exists()


def test_its_own_metrics(sshd: Sshd) -> None:
    with exporter_of(sshd) as exporter:
        assert exporter.get(VZ1).status_code == 200
        page = exporter.get().text
        assert_lints(page)
        assert_lints(exporter.get(VZ1).text)
    assert "\nssh_up 1.0\n" in page
    assert "\nssh_hosts 2.0\n" in page
    assert 'ssh_connections_total{target="vz1"} 1.0\n' in page
    assert 'ssh_requests_total{target="vz1"} 1.0\n' in page
    assert 'target="vz2"' not in page, "which has not been probed"
    assert "\nprocess_resident_memory_bytes " in page


def test_a_file_with_an_option_in_it_is_refused(sshd: Sshd) -> None:
    with over_ssh(sshd, "vz1") as exporter:
        write_hosts(sshd, "vz1", "-oProxyCommand=id")
        refused = exporter.get(VZ1)
        assert (refused.status_code, "no host's name" in refused.text) == (503, True)
        assert not descendants(exporter.process.pid)
        write_hosts(sshd, "vz1")
        assert exporter.get(VZ1).status_code == 200


def test_a_key_that_the_host_does_not_know(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "key-vz1").unlink()
    make_key(tmp_path / "key-vz1")
    with exporter_of(sshd) as exporter:
        for _ in range(5):
            refused = exporter.get(VZ1)
            assert refused.status_code == 503
            assert "Permission denied" in refused.text
        assert exporter.get(VZ2).status_code == 200
        (said,) = exporter.log_lines("host can't be reached")
        own = exporter.get().text
    assert (said["target"], "Permission denied" in said["err"]) == ("vz1", True)
    assert 'ssh_connected{target="vz1"} 0.0\n' in own
    assert 'ssh_connected{target="vz2"} 1.0\n' in own


def test_a_changed_host_key_is_refused_whatever_the_configuration_says(sshd: Sshd) -> None:
    sshd.config.write_text(sshd.config.read_text() + "  StrictHostKeyChecking no\n")
    with exporter_of(sshd) as exporter:
        assert exporter.get(VZ1).status_code == 200
        sshd.stop()
        sshd.new_host_key()
        sshd.start()
        within_a_minute(lambda: "Host key verification failed" in exporter.get(VZ1).text)
        assert exporter.get(VZ1).status_code == 503


def test_a_key_without_the_forced_command_runs_nothing(sshd: Sshd) -> None:
    public = (sshd.folder / "key-vz1.pub").read_text()
    (sshd.folder / "authorized_keys").write_text(public)
    config = sshd.folder / "sshd_config"
    config.write_text(config.read_text().replace("forced-commands-only", "prohibit-password"))
    sshd.stop()
    sshd.start()
    with exporter_of(sshd) as exporter:
        refused = exporter.get(VZ1)
    assert (refused.status_code, "no forced command" in refused.text) == (503, True)


def test_what_the_host_s_shell_prints_first_is_passed_over(sshd: Sshd) -> None:
    (sshd.home / ".bashrc").write_text("echo Welcome to vz1; echo; echo openvz 0")
    with exporter_of(sshd) as exporter:
        assert USED % "1" in exporter.get(VZ1).text


def test_a_host_that_goes_away_and_comes_back(sshd: Sshd) -> None:
    with exporter_of(sshd) as exporter:
        assert exporter.get(VZ1).status_code == 200
        sshd.stop()
        within_a_minute(lambda: exporter.get(VZ1).status_code == 503)
        for _ in range(5):
            assert exporter.get(VZ1).status_code == 503
        sshd.start()
        within_a_minute(lambda: exporter.get(VZ1).status_code == 200)
        assert USED % "1" in exporter.get(VZ1).text
        assert len(exporter.log_lines("host connected")) == 2
        assert len(exporter.log_lines("host can't be reached")) <= 2, "cut off, and then refused"


def test_a_session_that_ended_between_two_scrapes_costs_neither(sshd: Sshd) -> None:
    with exporter_of(sshd) as exporter:
        assert exporter.get(VZ1).status_code == 200
        for pid in sshd.pids():
            if "while IFS= read -r request" in command_of(pid):
                os.kill(pid, signal.SIGKILL)
        within_a_minute(lambda: not any("while IFS= read -r request" in command_of(pid) for pid in sshd.pids()))
        page = exporter.get(VZ1)
        assert page.status_code == 200
        assert 'vestat_source_up{source="vestat"} 1.0\n' in page.text
        assert len(exporter.log_lines("host can't be reached")) == 0


def test_a_host_that_hangs_costs_its_own_metrics_and_leaves_nothing_behind(sshd: Sshd, tmp_path: Path) -> None:
    hanging_command = f"tail -f {tmp_path}/hang"
    slow = programs(tmp_path / "slow", grep=f'[ -e {tmp_path}/hang ] && exec {hanging_command}; exec /bin/grep "$@"')
    sshd.add_host("vz3", authorized_key.command(script(tmp_path / "vz1", programs=slow)))
    with over_ssh(sshd, "vz1", "vz2", "vz3", flags=["--vzlist.interval=0"]) as exporter:
        # Connected by then: a handshake takes seconds on a busy machine.
        assert "\nvestat_up 1.0\n" in exporter.get("/probe?module=openvz&target=vz3").text
        (tmp_path / "hang").touch()
        answers: list[tuple[int, str]] = []

        def probe_hanging() -> None:
            page = exporter.get("/probe?module=openvz&target=vz3", X_Prometheus_Scrape_Timeout_Seconds="9")
            answers.append((page.status_code, page.text))

        hanging = threading.Thread(target=probe_hanging)
        hanging.start()
        within_a_minute(lambda: running(hanging_command))
        assert exporter.get(VZ1).status_code == 200, "others are answered meanwhile"
        hanging.join(90)
        ((status, page),) = answers
        assert status == 200
        assert "\nvestat_up 0.0\n" in page
        assert 'vestat_source_up{source="vestat"} 0.0\n' in page
        assert 'vestat_source_errors_total{reason="timeout",source="vestat"} 1.0\n' in page
        assert "openvz_container" not in page
        (said,) = exporter.log_lines("source failed")
        assert (said["target"], said["source"]) == ("vz3", "vestat,beancounters,ioacct,quota")
        within_a_minute(lambda: not running(hanging_command))
        (tmp_path / "hang").unlink()
        within_a_minute(lambda: "\nvestat_up 1.0\n" in exporter.get("/probe?module=openvz&target=vz3").text)


def test_a_short_timeout_costs_no_other_client_and_no_connection(sshd: Sshd, tmp_path: Path) -> None:
    waiting = f"tail -f {tmp_path}/wait"
    slow = programs(
        tmp_path / "slow",
        grep=f"[ -e {tmp_path}/wait ] && {{ {waiting} & while [ -e {tmp_path}/wait ]; do sleep 0.1; done; kill $!; }};"
        ' exec /bin/grep "$@"',
    )
    sshd.add_host("vz3", authorized_key.command(script(tmp_path / "vz1", programs=slow)))
    with over_ssh(sshd, "vz3", flags=["--vzlist.interval=0"]) as exporter:
        probe = "/probe?module=openvz&target=vz3"
        assert "\nvestat_up 1.0\n" in exporter.get(probe).text
        (tmp_path / "wait").touch()
        for _ in range(3):
            impatient = exporter.get(probe, X_Prometheus_Scrape_Timeout_Seconds="0.1")
            assert (impatient.status_code, "\nvestat_up 0.0\n" in impatient.text) == (200, True)
        patient: list[str] = []
        scraping = threading.Thread(target=lambda: patient.append(exporter.get(probe).text))
        scraping.start()
        within_a_minute(lambda: running(waiting))
        (tmp_path / "wait").unlink()
        scraping.join(90)
        assert "\nvestat_up 1.0\n" in patient[0]
        assert USED % "1" in patient[0]
        own = exporter.get().text
    assert 'ssh_connections_total{target="vz3"} 1.0\n' in own
    assert 'ssh_failures_total{reason="timeout",target="vz3"} 0.0\n' in own


@pytest.mark.parametrize(
    "says",
    [
        "cat /dev/zero",
        "yes",
        "yes >&2",
        "echo virtscope 1; yes",
        "echo virtscope 1; read request; echo openvz 10737418240; cat /dev/zero",
        'echo virtscope 1; while read request; do printf "openvz 9\\n\\033]0;x\\007\\0\\n\\n\\n\\n0\\n\\n"; done',
        "exit 3",
        "kill -9 $$",
    ],
)
def test_a_hostile_host_costs_its_own_metrics(sshd: Sshd, says: str) -> None:
    sshd.add_host("evil", f"exec sh -c '{says}'")
    with over_ssh(sshd, "vz1", "evil", flags=["--vzlist.interval=0"]) as exporter:
        before = resident(exporter.process.pid)
        for _ in range(3):
            page = exporter.get("/probe?module=openvz&target=evil", X_Prometheus_Scrape_Timeout_Seconds="3")
            assert page.status_code == 503 or "\nvestat_up 0.0\n" in page.text
            assert "openvz_container" not in page.text
            good = exporter.get(VZ1).text
            assert USED % "1" in good
            assert "\nvestat_up 1.0\n" in good
        assert resident(exporter.process.pid) - before < 64 << 20
        assert "\033" not in exporter.log()
        assert len([line for line in exporter.log().splitlines() if '"evil"' in line and '"warn"' in line]) <= 2


def resident(pid: int) -> int:
    """Return a process's resident memory in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_no_value_of_a_host_is_shown_for_another(sshd: Sshd) -> None:
    with exporter_of(sshd) as exporter:
        pages: list[tuple[str, str]] = []

        def probe(number: str) -> None:
            for _ in range(10):
                pages.append((number, exporter.get(f"/probe?module=openvz&target=vz{number}").text))  # noqa: PERF401

        threads = [threading.Thread(target=probe, args=(number,)) for number in ("1", "2") * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(pages) == 80
    for number, page in pages:
        assert USED % number in page
        assert USED % ("2" if number == "1" else "1") not in page


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_ssh_ends_with_the_exporter(sshd: Sshd, end: signal.Signals) -> None:
    with exporter_of(sshd) as exporter:
        for probe in (VZ1, VZ2):
            assert exporter.get(probe).status_code == 200
        children = descendants(exporter.process.pid)
        assert len(children) == 2
        sessions = sshd.pids()
        exporter.process.send_signal(end)
        exporter.process.wait(30)
        within_a_minute(lambda: not any(command_of(pid) for pid in (*children, *sessions)))


def test_an_xl_that_hangs_costs_no_scrape(tmp_path: Path) -> None:
    tools = XenTools(tmp_path)
    tools.xl.hang("list -v")
    with Sshd(tmp_path) as sshd:
        sshd.add_host("dom0", authorized_key.command(script(sys=tools.sysfs, programs=tools.folder)))
        with over_ssh(sshd, "dom0", flags=["--xl.interval=1s"]) as exporter:
            exporter.get("/probe?module=openvz&target=dom0")  # connected by then, without xl
            pages = []

            def failed() -> bool:
                # xl gives way after four seconds, before its own ten are over; the rest is to connect again.
                page = exporter.get("/probe?module=xen&target=dom0", X_Prometheus_Scrape_Timeout_Seconds="16").text
                pages.append(page)
                # Between two scrapes it may fail more than once.
                failures = r'\nxentop_source_background_errors_total\{reason="timeout",source="xl"\} ([0-9]+)\.0\n'
                found = re.search(failures, page)
                return found is not None and int(found[1]) >= 2

            within_a_minute(failed)
            assert [page for page in pages if 'xentop_source_up{source="xentop"} 1.0\n' not in page] == []
            assert "gave way to a scrape that waited for it" in exporter.log()
            own = exporter.get().text
            assert 'ssh_failures_total{reason="error",target="dom0"} 0.0\n' in own
            assert not exporter.log_lines("host can't be reached")


def test_passwords_of_guests_stay_on_the_host(tmp_path: Path) -> None:
    tools = XenTools(tmp_path)
    tools.xl.answer("list -l", '[\n {\n  "domid": 1,\n  "passwd": "sec,\\"ret\\")x",\n  "type": "hvm"\n }\n]\n')
    with Sshd(tmp_path) as sshd:
        sshd.add_host("dom0", authorized_key.command(script(sys=tools.sysfs, programs=tools.folder)))
        answer = sshd.ask("dom0", "xl list -l\n")
    assert '\n  "passwd": "",\n  "type": "hvm"\n }\n]\n\n0\n\n0\n' in answer
    assert "ret" not in answer
