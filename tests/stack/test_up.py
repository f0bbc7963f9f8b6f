"""`make up`, `status`, `logs` and `down` as their users see them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.stack.conftest import Checkout, eventually
from tests.support.ports import free_port
from tools import health


def test_up_says_what_is_watched_and_where_to_look(running: Checkout) -> None:
    again = running.make("up")
    assert again.returncode == 0, again.stdout
    assert re.search(r"Watching this machine, \S+, as platform (base|xen) \(.*\)\.", again.stdout)
    for variable in ("PROMETHEUS_PORT", "ALERTMANAGER_PORT", "NODE_EXPORTER_PORT"):
        assert running.url(variable) in again.stdout
        assert requests.get(running.url(variable), timeout=10).ok


def test_without_grafana_the_first_address_is_that_of_a_page_with_this_machine(running: Checkout) -> None:
    said = running.make("up").stdout
    if not re.search("^grafana +missing: ", said, re.MULTILINE):
        pytest.skip("Grafana is installed here")
    first = re.findall(r"http://\S+", said)[0]
    assert first == running.url("PROMETHEUS_PORT", "/consoles/index.html")
    host = re.findall(r"Watching this machine, (\S+), as", said)[0]
    assert eventually(lambda: f'<a href="?host={host}">' in requests.get(first, timeout=10).text)


def test_all_parts_are_up_and_listen_on_loopback_only(running: Checkout) -> None:
    assert eventually(lambda: running.make("status").returncode == 0), running.make("status").stdout
    status = running.make("status")
    for name in ("prometheus", "alertmanager", "node_exporter", "perf-exporter", "sched-exporter"):
        assert re.search(rf"^{name} +running +\d{{4}}-", status.stdout, re.MULTILINE)

    def jobs_up() -> set[str]:
        return {series["metric"]["job"] for series in running.query("up == 1")}

    assert eventually(lambda: {"prometheus", "alertmanager", "node", "perf", "sched"} <= jobs_up())
    for variable in ("PROMETHEUS_PORT", "ALERTMANAGER_PORT", "NODE_EXPORTER_PORT", "PERF_PORT", "SCHED_PORT"):
        with pytest.raises(ConnectionRefusedError):  # what listens everywhere would answer at this address too
            socket.create_connection(("127.0.0.2", running.ports[variable]), timeout=5)


def test_no_part_is_root_s_that_can_do_without(running: Checkout) -> None:
    for name in ("bin/prometheus ", "alertmanager --", "bin/node_exporter "):
        status = Path("/proc", str(running.pid(name)), "status").read_text()
        facts = dict(line.split(":", 1) for line in status.splitlines())
        assert "0" not in facts["Uid"].split()
        assert int(facts["CapPrm"], 16) == int(facts["CapAmb"], 16) == 0


def test_other_users_can_write_nothing_of_it(running: Checkout) -> None:
    """Nor speak to supervisord, for which its socket must be written to."""
    stack = running.folder / ".stack"
    assert (stack / "run" / "supervisor.sock").is_socket()
    found = ["find", str(stack), "-name", "cache", "-prune", "-o", "-perm", "/022", "!", "-type", "l", "-print"]
    assert subprocess.run(found, capture_output=True, text=True, check=False).stdout == ""


def test_programs_get_nothing_secret_of_the_environment(stopped: Checkout) -> None:
    up = stopped.make("up", AWS_SECRET_ACCESS_KEY="secret", TZ="Europe/Berlin", https_proxy="http://127.0.0.1:1")
    assert up.returncode == 0, up.stdout
    for name in ("bin/prometheus ", "alertmanager --", "bin/node_exporter ", "perf"):
        environment = Path("/proc", str(stopped.pid(name)), "environ").read_text().split("\0")
        assert "TZ=Europe/Berlin" in environment
        assert "https_proxy=http://127.0.0.1:1" in environment
        assert not [variable for variable in environment if variable.startswith(("AWS_", "HOME=", "PYTEST_"))]
    assert stopped.make("down").returncode == 0


@contextlib.contextmanager
def without_liveness(checkout: Checkout) -> Iterator[None]:
    """Stopped by supervisord, which then doesn't start it again."""
    checkout.python("-c", "from tools import supervision; supervision.stop_program('liveness')")
    try:
        yield
    finally:
        checkout.python("-c", "from tools import supervision; supervision.start_program('liveness')")


def test_a_part_that_hangs_is_shown_and_named(running: Checkout) -> None:
    assert eventually(lambda: running.make("status").returncode == 0)
    pid = running.pid("bin/prometheus ")
    with without_liveness(running):  # which would have it started again meanwhile
        os.kill(pid, signal.SIGSTOP)
        try:
            status = running.make("status")
        finally:
            os.kill(pid, signal.SIGCONT)
    assert status.returncode != 0
    assert re.search("^prometheus +running, no answer ", status.stdout, re.MULTILINE)
    assert "prometheus does not answer, so nothing is known of its targets." in status.stdout
    assert f"prometheus: pid {pid}" in status.stdout


@pytest.mark.parametrize("command", ["status", "up", "down"])
def test_a_supervisor_that_hangs_is_named(running: Checkout, command: str) -> None:
    pid = running.pid("supervisor.supervisord")
    with without_liveness(running):
        os.kill(pid, signal.SIGSTOP)
        try:
            made = running.make(command)
        finally:
            os.kill(pid, signal.SIGCONT)
    assert made.returncode != 0
    [error] = [line for line in made.stdout.splitlines() if line.startswith("error: ")]
    assert f"supervisord (pid {pid}) does not answer" in error
    assert f"kill -CONT {pid}" in error


def test_what_a_target_says_moves_no_cursor(running: Checkout) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), RudeHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        targets = running.folder / "prometheus" / "targets" / "node.yml"
        before = targets.read_text()
        targets.write_text(
            f'- targets: ["127.0.0.1:{server.server_address[1]}"]\n  labels: {{host: "h\\e[2J", platform: base}}\n'
        )
        try:
            assert eventually(lambda: "server returned HTTP status 500" in running.make("status").stdout, 60)
            for command in ("status", "up"):
                said = running.make(command).stdout
                assert r"server returned HTTP status 500 \x1b[2Jgone" in said
                assert r"h\x1b[2J" in said
                assert "\x1b" not in said
        finally:
            targets.write_text(before)
            server.shutdown()


class RudeHandler(socketserver.BaseRequestHandler):
    """Answers with what clears a terminal."""

    def handle(self) -> None:
        self.request.recv(65536)
        self.request.sendall(b"HTTP/1.1 500 \x1b[2Jgone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def test_pages_of_prometheus_are_complete(running: Checkout) -> None:
    """Debian's package has the pages link to JavaScript packages of their own: all must have been unpacked."""
    page = requests.get(running.url("PROMETHEUS_PORT", "/graph"), timeout=10)
    assert page.ok
    files = re.findall(r'(?:src|href)="(/[^"]*/static/[^"]*)"', page.text)
    assert len(files) > 10
    missing = [file for file in files if not requests.get(running.url("PROMETHEUS_PORT", file), timeout=10).ok]
    assert missing == []


def test_runbooks_are_served_by_the_stack_itself(running: Checkout) -> None:
    for runbook in (running.folder / "docs" / "runbooks").glob("*.md"):
        page = requests.get(running.url("PROMETHEUS_PORT", f"/user/runbooks/{runbook.name}"), timeout=10)
        assert page.content == runbook.read_bytes()


def test_host_added_to_a_file_is_watched_without_a_restart(running: Checkout) -> None:
    targets = running.folder / "prometheus" / "targets" / "node.yml"
    before = targets.read_text()
    same_exporter = f"localhost:{running.ports['NODE_EXPORTER_PORT']}"
    targets.write_text(f'- targets: ["{same_exporter}"]\n  labels: {{host: second, platform: base}}\n')
    try:
        assert eventually(lambda: running.query('up{host="second"} == 1') != [], seconds=60)
        assert f"Watching second, node at {same_exporter}: up." in running.make("up").stdout
    finally:
        targets.write_text(before)


def test_the_last_target_of_a_job_is_let_go_although_the_configuration_is_read_meanwhile(running: Checkout) -> None:
    """As by `make up` right after the change. It would be scraped for good, with its password."""
    targets = running.folder / "prometheus" / "targets" / "guest.yml"
    before = targets.read_text()
    port = running.ports["PROMETHEUS_PORT"]

    def is_watched() -> bool:
        return "removed" in {target.host for target in health.targets(port)}

    try:
        targets.write_text('- targets: ["127.0.0.1:1"]\n  labels: {host: removed, platform: base}\n')
        assert eventually(is_watched, 60)
        time.sleep(6)  # until what was found has been handed on, every 5 s
        targets.write_text(before)
        time.sleep(0.5)
        os.kill(running.pid("bin/prometheus "), signal.SIGHUP)
        assert eventually(lambda: not is_watched(), 20)
    finally:
        targets.write_text(before)


def test_killed_program_is_started_again(running: Checkout) -> None:
    killed = running.pid("prometheus-alertmanager")
    os.kill(killed, signal.SIGKILL)
    assert eventually(lambda: requests.get(running.url("ALERTMANAGER_PORT", "/-/ready"), timeout=5).ok)
    assert running.pid("prometheus-alertmanager") != killed


def test_killed_supervisor_takes_its_programs_along_and_up_starts_again(running: Checkout) -> None:
    running.python("-c", "from tools import supervision; supervision.stop_program('liveness')")  # does so itself
    os.kill(running.pid("supervisor.supervisord"), signal.SIGKILL)
    up = running.make("up")
    assert up.returncode == 0, up.stdout
    assert len([command for command in running.processes().values() if "bin/prometheus " in command]) == 1


@pytest.mark.parametrize("killed", ["supervisor.supervisord", "tools.liveness"])
def test_supervisord_and_liveness_start_each_other(running: Checkout, killed: str) -> None:
    before = running.pid(killed)
    os.kill(before, signal.SIGKILL)
    assert eventually(lambda: running.make("status").returncode == 0, 60), running.make("status").stdout
    assert running.pid(killed) != before
    assert len([command for command in running.processes().values() if "tools.liveness" in command]) == 1


def test_a_stopped_part_is_started_again_and_that_is_said(running: Checkout) -> None:
    stopped = running.pid("--storage.path=.stack/data/alertmanager")
    os.kill(stopped, signal.SIGSTOP)
    assert eventually(lambda: stopped not in running.processes(), 60)
    assert eventually(lambda: running.make("status").returncode == 0, 60)
    assert re.search(
        r"^alertmanager was stopped \(SIGSTOP\) at .* and was started again",
        running.make("status").stdout,
        re.MULTILINE,
    )
    counted = 'stack_part_failures_total{part="alertmanager", reason="stopped"} == 1'
    assert eventually(lambda: running.query(counted) != [])
    assert "part failed and is started again" in running.make("logs", "NAME=liveness").stdout


def test_down_right_after_supervisord_was_killed_stays_down(running: Checkout) -> None:
    os.kill(running.pid("supervisor.supervisord"), signal.SIGKILL)
    assert eventually(lambda: running.make("down").returncode == 0)  # unless liveness was quicker
    assert eventually(lambda: running.processes() == {}, 60)


def test_down_leaves_nothing_but_the_data(running: Checkout) -> None:
    moment = str(time.time())
    assert running.query("up", time=moment) != []
    down = running.make("down")
    assert down.returncode == 0, down.stdout
    assert running.processes() == {}
    status = running.make("status")
    assert status.returncode != 0
    assert "not running" in status.stdout
    assert running.make("down").returncode == 0  # nothing to do is no error
    up = running.make("up")
    assert up.returncode == 0, up.stdout
    assert running.query("up", time=moment) != []


def test_logs_show_the_part_that_is_asked_for(running: Checkout) -> None:
    logs = running.make("logs", "NAME=alertmanager")
    assert logs.returncode == 0
    assert "caller=" in logs.stdout
    unknown = running.make("logs", "NAME=rpometheus")
    assert unknown.returncode != 0
    for name in ("alertmanager", "node_exporter", "prometheus", "supervisord"):
        assert name in unknown.stdout.partition("choose from: ")[2]


def test_other_ports_restart_the_stack_on_them(running: Checkout) -> None:
    moved = free_port()
    up = running.make("up", f"ALERTMANAGER_PORT={moved}")
    assert up.returncode == 0, up.stdout
    assert requests.get(f"http://127.0.0.1:{moved}/-/ready", timeout=10).ok
    assert f":{moved}" in running.make("status").stdout  # what runs, not what the environment says


def test_addresses_for_links_and_the_size_of_the_data_can_be_set_and_stay(running: Checkout) -> None:
    outside = {name: f"https://monitor.example.org/{name.lower()}" for name in ("PROMETHEUS", "ALERTMANAGER")}
    given = {**{f"{name}_EXTERNAL_URL": url for name, url in outside.items()}, "PROMETHEUS_RETENTION_SIZE": "500MB"}
    for up in (running.make("up", **given), running.make("up")):
        assert up.returncode == 0, up.stdout
        flags = requests.get(running.url("PROMETHEUS_PORT", "/api/v1/status/flags"), timeout=10).json()["data"]
        assert flags["web.external-url"] == outside["PROMETHEUS"]
        assert flags["storage.tsdb.retention.size"] in {"500MB", "500MiB"}  # the same, as Prometheus 2 and 3 say it
        # Pages are where they were, below no path.
        assert requests.get(running.url("PROMETHEUS_PORT", "/user/runbooks/ExporterDown.md"), timeout=10).ok
        assert requests.get(running.url("ALERTMANAGER_PORT", "/api/v2/status"), timeout=10).ok
    assert running.make("down").returncode == 0
