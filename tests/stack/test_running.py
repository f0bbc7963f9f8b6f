"""A running stack: parts that hang, are killed or stopped, and an operator's changes."""

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from deploy import health, python_packages
from tests.stack.conftest import ROOT, Checkout, assert_failed, edited, stopped_by
from tests.support.ports import free_port
from tests.support.waiting import wait_for

pytestmark = pytest.mark.system


@contextlib.contextmanager
def without_liveness(checkout: Checkout) -> Iterator[None]:
    """Nothing restarts parts: liveness is stopped through supervisord, which then doesn't restart it."""
    checkout.python("-c", "from deploy import supervision; supervision.stop_program('liveness')")
    try:
        yield
    finally:
        checkout.python("-c", "from deploy import supervision; supervision.start_program('liveness')")


def test_no_part_is_root_s_that_can_do_without(running: Checkout) -> None:
    for name in ("bin/prometheus ", "alertmanager --", "bin/node_exporter "):
        facts = running.facts(name)
        assert "0" not in facts["Uid"].split()
        assert {int(facts[kind], 16) for kind in ("CapPrm", "CapAmb")} == {0}


def test_a_part_or_a_supervisor_that_hangs_is_named(running: Checkout) -> None:
    running.status()
    pid = running.pid("bin/prometheus ")
    with without_liveness(running), stopped_by(signal.SIGSTOP, pid):
        status = running.make("status")
    assert status.returncode != 0
    assert re.search("^prometheus +running, no answer ", status.stdout, re.MULTILINE)
    assert "prometheus does not answer, so nothing is known of its targets." in status.stdout
    assert f"prometheus: pid {pid}" in status.stdout

    pid = running.pid("supervisor.supervisord")
    with without_liveness(running), stopped_by(signal.SIGSTOP, pid):
        made = [running.make(command) for command in ("status", "up", "down")]
    for each in made:
        assert_failed(each, f"supervisord (pid {pid}) does not answer", f"kill -CONT {pid}")


def test_pages_of_prometheus_are_complete(running: Checkout) -> None:
    """Debian's package links to separate JavaScript packages: all must have been unpacked."""
    page = running.get("PROMETHEUS_PORT", "/graph")
    files = re.findall(r'(?:src|href)="(/[^"]*/static/[^"]*)"', page.text)
    assert len(files) > 10
    assert [file for file in files if not running.get("PROMETHEUS_PORT", file).ok] == []
    for runbook in (running.folder / "docs" / "runbooks").glob("*.md"):
        served = running.get("PROMETHEUS_PORT", f"/user/runbooks/{runbook.name}")
        assert served.content == runbook.read_bytes(), runbook.name


def test_host_added_to_a_file_is_watched_without_a_restart(running: Checkout) -> None:
    same_exporter = f"localhost:{running.ports['NODE_EXPORTER_PORT']}"
    entry = f'- targets: ["{same_exporter}"]\n  labels: {{host: second, platform: base}}\n'
    with edited(running.folder / "prometheus" / "targets" / "node.yml", entry):
        wait_for(lambda: running.query('up{host="second"} == 1'), 60)
        assert f"Watching second, node at {same_exporter}: up." in running.must("up")


def test_the_last_target_of_a_job_is_let_go_although_the_configuration_is_read_meanwhile(running: Checkout) -> None:
    """As with `make up` right after the change. It would be scraped forever, with its password."""

    def watched() -> bool:
        return "removed" in {target.host for target in health.targets(running.ports["PROMETHEUS_PORT"])}

    entry = '- targets: ["127.0.0.1:1"]\n  labels: {host: removed, platform: base}\n'
    with edited(running.folder / "prometheus" / "targets" / "guest.yml", entry):
        wait_for(watched, 60)
        time.sleep(6)  # until discovered targets are passed on, every 5 s
    time.sleep(0.5)
    os.kill(running.pid("bin/prometheus "), signal.SIGHUP)
    wait_for(lambda: not watched(), 20)


def test_what_is_killed_is_started_again_and_a_supervisor_takes_its_programs_along(running: Checkout) -> None:
    with without_liveness(running):  # liveness would reload it
        os.kill(running.pid("supervisor.supervisord"), signal.SIGKILL)
        running.must("up")
        assert len(running.pids("bin/prometheus ")) == 1
    for killed in ("prometheus-alertmanager", "supervisor.supervisord", "deploy.liveness"):
        before = running.pid(killed)
        os.kill(before, signal.SIGKILL)
        running.status()
        assert running.pid(killed) != before
        assert len(running.pids("deploy.liveness")) == 1
    os.kill(running.pid("supervisor.supervisord"), signal.SIGKILL)
    wait_for(lambda: running.make("down").returncode == 0)  # unless liveness was faster
    wait_for(lambda: running.processes() == {}, 60)  # it stays down


def test_a_stopped_part_is_started_again_and_that_is_said(running: Checkout) -> None:
    stopped = running.pid("--storage.path=.stack/data/alertmanager")
    os.kill(stopped, signal.SIGSTOP)
    wait_for(lambda: stopped not in running.processes(), 60)
    said = "^alertmanager was stopped \\(SIGSTOP\\) at .* and was started again"
    assert re.search(said, running.status(), re.MULTILINE)
    wait_for(lambda: running.query('stack_part_failures_total{part="alertmanager", reason="stopped"} == 1'))
    assert "part failed and is started again" in running.make("logs", "NAME=liveness").stdout


def test_logs_show_the_part_that_is_asked_for(running: Checkout) -> None:
    assert "caller=" in running.must("logs", "NAME=alertmanager")
    unknown = running.make("logs", "NAME=rpometheus")
    assert unknown.returncode != 0
    offered = unknown.stdout.partition("choose from: ")[2]
    assert all(name in offered for name in ("alertmanager", "node_exporter", "prometheus", "supervisord"))


def test_ports_addresses_for_links_and_the_size_of_the_data_can_be_set_and_stay(running: Checkout) -> None:
    moved = free_port()
    running.must("up", f"ALERTMANAGER_PORT={moved}")
    assert requests.get(f"http://127.0.0.1:{moved}/-/ready", timeout=10).ok
    assert f":{moved}" in running.make("status").stdout  # the running ports, not those in the environment
    outside = {name: f"https://monitor.example.org/{name.lower()}" for name in ("PROMETHEUS", "ALERTMANAGER")}
    given = {**{f"{name}_EXTERNAL_URL": url for name, url in outside.items()}, "PROMETHEUS_RETENTION_SIZE": "500MB"}
    for settings in (given, {}):
        running.must("up", **settings)
        flags = running.get("PROMETHEUS_PORT", "/api/v1/status/flags").json()["data"]
        assert flags["web.external-url"] == outside["PROMETHEUS"]
        assert flags["storage.tsdb.retention.size"] in {"500MB", "500MiB"}  # in Prometheus 2 and 3
        # Pages are still at the same place, without a path prefix.
        assert running.get("PROMETHEUS_PORT", "/user/runbooks/ExporterDown.md").ok
        assert running.get("ALERTMANAGER_PORT", "/api/v2/status").ok
    running.must("down")


def test_killed_up_leaves_no_temporary_files_outside_the_checkout(fresh: Checkout, tmp_path: Path) -> None:
    outside = tmp_path / "tmp"
    outside.mkdir()
    scratch = fresh.folder / python_packages.STACK.scratch.relative_to(ROOT)
    with fresh.making("up", TMPDIR=str(outside)) as up:
        wait_for(lambda: [*scratch.glob("tmp*/pip-*.whl")], 60, every=0.02, not_yet=(FileNotFoundError,))
        os.killpg(up.pid, signal.SIGKILL)
    assert list(outside.iterdir()) == []
    fresh.must("up", TMPDIR=str(outside))
    fresh.must("down")


def test_one_up_at_a_time(stopped: Checkout) -> None:
    with stopped.making("up") as first:
        wait_for(lambda: stopped.pids("supervisord"), 60)
        with stopped_by(signal.SIGSTOP, -first.pid):  # it keeps its lock, however slow the second one is
            second = stopped.make("up")
        output, _ = first.communicate(timeout=120)
    assert first.returncode == 0, output
    assert_failed(second, "another `make up` or `make down` is running")


def test_interrupted_up_takes_back_what_it_started(stopped: Checkout) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with stopped.making("up") as up:
            wait_for(lambda: stopped.pids("supervisord"), 60)
            for _ in range(2):  # make forwards SIGTERM, and users press Ctrl-C twice
                os.killpg(up.pid, number)
            output, _ = up.communicate(timeout=60)
        assert (up.returncode != 0, "Interrupted." in output) == (True, True), (number, output)
        wait_for(lambda: stopped.processes() == {})
