"""Omissions and typos that no program reports: `make up` and `make status` print a line for each."""

import os
import shutil

import pytest

from tests.stack.conftest import Checkout, edited

pytestmark = pytest.mark.system


def said(checkout: Checkout, words: str) -> list[list[str]]:
    """The lines of `make up` and of `make status` with these words."""
    both = (checkout.make(command).stdout.splitlines() for command in ("up", "status"))
    return [[line.removeprefix("But ") for line in lines if words in line] for lines in both]


def test_targets_that_no_rule_or_job_takes(running: Checkout) -> None:
    address = f"localhost:{running.ports['NODE_EXPORTER_PORT']}"
    for job, entry, words, complaint in (
        ("node", f'{{targets: ["{address}"], labels: {{host: typo, platform: zen}}}}', f"{address} (job node)",
         "has platform zen, which no rule knows: did you mean xen?"),
        ("node", '{targets: ["localhost:1"], labels: {host: h, platform: xen, vserver: web01}}',
         "localhost:1 is not scraped", "local/targets/node.yml is for hosts"),
        ("ssh", "{targets: [localhost1], labels: {platform: zen}}",
         "localhost1 is not scraped", "for platforms xen and openvz, and its entry has zen"),
    ):  # fmt: skip
        with edited(running.folder / "prometheus" / "targets" / f"{job}.yml", f"- {entry}\n"):
            for lines in said(running, words):
                [line] = lines
                assert complaint in line
            assert running.make("status").returncode != 0, complaint
    assert said(running, "is not scraped") == [[], []]


def test_a_password_that_isn_t_there_or_can_t_be_read(running: Checkout) -> None:
    configuration = running.folder / "prometheus" / "prometheus.yml"
    job = "  - job_name: vestat\n"
    named = "    basic_auth: {username: prometheus, password_file: secrets/password}\n"
    password = running.folder / "prometheus" / "secrets" / "password"
    wrong = "prometheus/prometheus.yml names secrets/password as password_file, which "
    with edited(configuration, configuration.read_text().replace(job, job + named)):
        assert said(running, wrong) == [[f"{wrong}isn't there"]] * 2
        password.parent.mkdir()
        password.touch(0o600)
        try:
            if os.geteuid() == 0:  # Prometheus runs as nobody
                assert [["can't read" in line for line in lines] for lines in said(running, wrong)] == [[True]] * 2
            password.chmod(0o644)
            assert said(running, wrong) == [[], []]
        finally:
            shutil.rmtree(password.parent)
    running.must("up")


def test_a_secret_that_isn_t_there_and_a_template_that_nobody_defines(running: Checkout) -> None:
    own, secret = (running.folder / "local" / name for name in ("alertmanager.yml", "slack-url"))
    page = """\
receivers:
  - name: page
    slack_configs: [{channel: operators, api_url_file: local/slack-url, text: '{{ template "virtscope.NAME" . }}'}]
"""
    near = "; did you mean virtscope.headline?"
    own.touch()
    try:
        with edited(own, page.replace("NAME", "heading")):
            assert said(running, "local/alertmanager.yml ") == 2 * [[
                "local/alertmanager.yml names local/slack-url as api_url_file, which isn't there",
                "local/alertmanager.yml uses template virtscope.heading, which no file defines" + near,
            ]]  # fmt: skip
        secret.write_text("http://127.0.0.1:9/hook\n")
        with edited(own, page.replace("NAME", "title")):
            assert said(running, "local/alertmanager.yml ") == [[], []]
    finally:
        own.unlink()
        secret.unlink(missing_ok=True)
        running.must("up")


def test_a_log_that_isn_t_there(running: Checkout) -> None:
    sensor = running.folder / "telegraf" / "local" / "shop.conf"
    sensor.parent.mkdir(exist_ok=True)
    text = (running.folder / "telegraf" / "sensors" / "nginx_access_log.conf").read_text()
    sensor.write_text(text.replace("/var/log/nginx/access.log", "/var/log/nowhere/access.log /etc/hostname"))
    try:
        status = running.make("status").stdout.splitlines()
    finally:
        sensor.unlink()
    missing = "telegraf/local/shop.conf is to read /var/log/nowhere/access.log, which isn't there"
    assert [line for line in status if "is to read" in line] == [missing]
