"""What is forgotten or mistyped where no program complains: `make up` and `make status` say it, in a line each."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.stack.conftest import Checkout, eventually


@contextlib.contextmanager
def edited(file: Path, text: str) -> Iterator[None]:
    """The file with this text; it is as before afterwards."""
    before = file.read_text()
    file.write_text(text)
    try:
        yield
    finally:
        file.write_text(before)


@contextlib.contextmanager
def targets(checkout: Checkout, job: str, text: str) -> Iterator[None]:
    with edited(checkout.folder / "prometheus" / "targets" / f"{job}.yml", text):
        yield


def said(checkout: Checkout, *commands: str) -> list[list[str]]:
    """The lines of each command."""
    return [checkout.make(command).stdout.splitlines() for command in commands or ("up", "status")]


def test_a_target_is_listed_by_the_up_right_after_it_was_added(running: Checkout) -> None:
    address = f"localhost:{running.ports['NODE_EXPORTER_PORT']}"
    with targets(running, "node", f'- targets: ["{address}"]\n  labels: {{host: added, platform: base}}\n'):
        [up] = said(running, "up")
    assert f"Watching added, node at {address}: up." in up


def test_a_platform_that_no_rule_knows(running: Checkout) -> None:
    address = f"localhost:{running.ports['NODE_EXPORTER_PORT']}"
    with targets(running, "node", f'- targets: ["{address}"]\n  labels: {{host: typo, platform: zen}}\n'):
        up, status = said(running)
        wrong = f"{address} (job node) has platform zen, which no rule knows: did you mean xen?"
        assert f"But {wrong}" in up
        assert wrong in status
        assert running.make("status").returncode != 0


def test_a_guest_in_a_file_for_hosts(running: Checkout) -> None:
    with targets(running, "node", '- targets: ["localhost:1"]\n  labels: {host: h, platform: xen, vserver: web01}\n'):
        for lines in said(running):
            [line] = [line for line in lines if "localhost:1 is not scraped" in line]
            assert "prometheus/targets/node.yml is for hosts" in line


def test_a_host_over_ssh_of_a_platform_that_is_not_read_so(running: Checkout) -> None:
    with targets(running, "ssh", "- targets: [localhost1]\n  labels: {platform: zen}\n"):
        for lines in said(running):
            [line] = [line for line in lines if "localhost1 is not scraped" in line]
            assert "for platforms xen and openvz, and its entry has zen" in line


def test_a_password_that_isn_t_there_or_can_t_be_read(running: Checkout) -> None:
    configuration = running.folder / "prometheus" / "prometheus.yml"
    job = "  - job_name: vestat\n"
    named = "    basic_auth: {username: prometheus, password_file: secrets/password}\n"
    password = running.folder / "prometheus" / "secrets" / "password"
    with edited(configuration, configuration.read_text().replace(job, job + named)):
        wrong = "prometheus/prometheus.yml names secrets/password as password_file, which "
        for lines in said(running):
            assert [line.removeprefix("But ") for line in lines if wrong in line] == [f"{wrong}isn't there"]
        password.parent.mkdir()
        password.touch(0o600)
        try:
            can_t = os.geteuid() == 0
            for lines in said(running):
                assert [line for line in lines if wrong in line and "can't read" in line] != [] or not can_t
            password.chmod(0o644)
            for lines in said(running):
                assert [line for line in lines if wrong in line] == []
        finally:
            shutil.rmtree(password.parent)
    assert running.make("up").returncode == 0


def test_a_log_that_isn_t_there(running: Checkout) -> None:
    sensor = running.folder / "telegraf" / "local" / "shop.conf"
    sensor.parent.mkdir(exist_ok=True)
    text = (running.folder / "telegraf" / "sensors" / "nginx_access_log.conf").read_text()
    sensor.write_text(text.replace("/var/log/nginx/access.log", "/var/log/nowhere/access.log /etc/hostname"))
    try:
        [status] = said(running, "status")
    finally:
        sensor.unlink()
    assert [line for line in status if "is to read" in line] == [
        "telegraf/local/shop.conf is to read /var/log/nowhere/access.log, which isn't there"
    ]
    assert eventually(lambda: running.make("status").returncode == 0)


def test_without_any_there_is_no_such_line(running: Checkout) -> None:
    for lines in said(running):
        assert [line for line in lines if "which" in line or "is not scraped" in line or "stored" in line] == []
