"""`make up`, `make demo` and `make down` in a fresh clone, as an ordinary user."""

import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.stack.conftest import Checkout, edited
from tests.support.endpoints import QuietHandler, http_server
from tests.support.waiting import wait_for

PORTS = ("PROMETHEUS_PORT", "ALERTMANAGER_PORT", "NODE_EXPORTER_PORT", "PERF_PORT", "SCHED_PORT")
DEMO_HOSTS = {"demo-xen", "demo-kvm", "demo-openvz", "demo-base"}


@pytest.fixture(scope="module")
def up(ordinary: Checkout) -> str:
    """The output of the first `make up`, in an environment with a secret."""
    return ordinary.must("up", AWS_SECRET_ACCESS_KEY="secret", TZ="Europe/Berlin", no_proxy="127.0.0.1")


def test_up_says_what_is_watched_and_where_to_look(ordinary: Checkout, up: str) -> None:
    watched = re.search(r"Watching this machine, (\S+), as platform (base|xen) \(.*\)\.", up)
    assert watched
    if re.search("^grafana +missing: ", up, re.MULTILINE):  # otherwise Grafana's address is first
        assert re.findall(r"http://\S+", up)[0] == ordinary.url("PROMETHEUS_PORT", "/consoles/index.html")
    this_host = f'<a href="?host={watched[1]}">'
    wait_for(lambda: this_host in ordinary.get("PROMETHEUS_PORT", "/consoles/index.html").text)
    for variable in PORTS[:3]:
        assert ordinary.url(variable) in up
        assert ordinary.get(variable).ok
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 0:
        assert "perf-exporter counts nothing" in up


def test_all_parts_are_up_and_listen_on_loopback_only(ordinary: Checkout, up: str) -> None:
    status = ordinary.status()
    for name in ("prometheus", "alertmanager", "node_exporter", "perf-exporter", "sched-exporter"):
        assert re.search(rf"^{name} +running +\d{{4}}-", status, re.MULTILINE), name
    for said in (up, status):
        assert re.search("sched-exporter can't say who runs while others wait: .*CAP_BPF", said)
    jobs = {"prometheus", "alertmanager", "node", "perf", "sched"}
    wait_for(lambda: jobs <= {series["metric"]["job"] for series in ordinary.query("up == 1")})
    for variable in PORTS:
        with pytest.raises(ConnectionRefusedError):  # a wildcard listener would answer at this address too
            socket.create_connection(("127.0.0.2", ordinary.ports[variable]), timeout=5)


@pytest.mark.usefixtures("up")
def test_other_users_can_write_nothing_of_it(ordinary: Checkout) -> None:
    """They can't use supervisord either, because that needs write access to its socket."""
    stack = ordinary.folder / ".stack"
    assert (stack / "run" / "supervisor.sock").is_socket()
    found = ["find", str(stack), "-name", "cache", "-prune", "-o", "-perm", "/022", "!", "-type", "l", "-print"]
    assert subprocess.run(found, capture_output=True, text=True, check=False).stdout == ""


class RudeHandler(QuietHandler):
    """Answers with the escape sequence that clears a terminal."""

    def do_GET(self) -> None:  # noqa: N802
        self.send_response(500, "\x1b[2Jgone")
        self.end_headers()


@pytest.mark.usefixtures("up")
def test_what_a_target_says_moves_no_cursor(ordinary: Checkout) -> None:
    server = http_server(RudeHandler)
    entry = f'- targets: ["{server.address}"]\n  labels: {{host: "h\\e[2J", platform: base}}\n'
    with edited(ordinary.folder / "prometheus" / "targets" / "node.yml", entry):
        wait_for(lambda: "server returned HTTP status 500" in ordinary.make("status").stdout, 60)
        for command in ("status", "up"):
            said = ordinary.make(command).stdout
            assert r"server returned HTTP status 500 \x1b[2Jgone" in said
            assert r"h\x1b[2J" in said
            assert "\x1b" not in said
    server.close()


@pytest.mark.usefixtures("up")
def test_programs_get_nothing_secret_of_the_environment(ordinary: Checkout) -> None:
    for name in ("bin/prometheus ", "alertmanager --", "bin/node_exporter ", "virtscope.perf"):
        environment = Path("/proc", str(ordinary.pid(name)), "environ").read_text().split("\0")
        assert {"TZ=Europe/Berlin", "no_proxy=127.0.0.1"} <= set(environment), name
        assert not [variable for variable in environment if variable.startswith(("AWS_", "HOME=", "PYTEST_"))], name


@pytest.mark.usefixtures("up")
def test_down_leaves_nothing_but_the_data_and_the_demo_gives_way_to_the_stack(ordinary: Checkout) -> None:
    moment = time.time()
    assert ordinary.query("up", moment) != []
    ordinary.must("down")
    assert ordinary.processes() == {}
    stopped = ordinary.make("status")
    assert (stopped.returncode != 0, "not running" in stopped.stdout) == (True, True)
    ordinary.must("down")  # succeeds without anything to do

    demo = ordinary.must("demo")
    assert "All data is simulated" in demo
    assert ordinary.url("PROMETHEUS_PORT") in demo
    day_ago = ordinary.query("app:response_seconds:mean offset 24h")
    assert {series["metric"]["host"] for series in day_ago} == DEMO_HOSTS
    wait_for(lambda: {series["metric"]["host"] for series in ordinary.query("up == 1")} == DEMO_HOSTS)
    page = ordinary.get("PROMETHEUS_PORT", "/consoles/index.html")
    assert (page.status_code, "DEMO, not live" in page.text) == (200, True)
    assert '<a href="?host=demo-xen">' in page.text
    status = ordinary.status()
    assert re.search("^demo-sensors +running", status, re.MULTILINE)
    assert "alertmanager" not in status

    up = ordinary.must("up")
    assert "make demo" in up.splitlines()[-1] or "as platform base" not in up
    assert ordinary.query('{host=~"demo-.*"}') == []  # the stack has separate data
    assert ordinary.query("up", moment) != []
    assert "demo-sensors" not in ordinary.make("status").stdout
    refused = ordinary.make("demo")
    assert (refused.returncode != 0, "make down first" in refused.stdout) == (True, True)
    ordinary.status()
