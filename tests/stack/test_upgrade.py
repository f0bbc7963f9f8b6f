"""A clone with every documented setting can be upgraded without conflicts."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from deploy import go_programs
from tests.stack.conftest import ROOT, Checkout
from tests.support import Webhook
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]  # builds Sloth first if it isn't cached

BEFORE = "9487bbdb"  # the last commit whose settings are in tracked files
LOCAL = {
    "targets/node.yml": '- targets: ["localhost:{node}"]\n  labels: {{host: second, platform: base}}\n',
    "prometheus.yml": """\
global: {{scrape_interval: 3s, scrape_timeout: 2s, evaluation_interval: 3s}}
scrape_configs:
  - job_name: node
    basic_auth: {{username: prometheus, password_file: secrets/password}}
  - job_name: mine
    static_configs: [{{targets: ["localhost:{node}"], labels: {{host: third}}}}]
""",
    "alertmanager.yml": """\
route:
  routes:
    - {{matchers: [host = nowhere], receiver: mine, group_wait: 0s}}
receivers:
  - name: mine
    webhook_configs: [{{url: "{receiver}"}}]
  - name: page
    slack_configs:
      - api_url: {receiver}
        text: '{{{{ template "virtscope.grafana" . }}}}'
""",
    "templates/links.tmpl": '{{{{ define "virtscope.grafana" }}}}https://grafana.example.org{{{{ end }}}}\n',
    "rules/mine.yml": "groups: [{{name: mine, rules: [{{record: 'mine:one', expr: vector(1)}}]}}]\n",
    "objectives/desk.yml": "app: desk\nabout: A help desk.\nobjectives: {{mean: {{seconds: 0.1}}}}\nlow_traffic: 1\n",
    "settings.yml": "clockSkewedSeconds: 7\n",
    "perf-exporter.env": 'ARGS="--log.level=debug"\n',
}


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    if subprocess.run(["git", "-C", ROOT, "cat-file", "-e", BEFORE], check=False).returncode:
        pytest.skip(f"this clone has no commit {BEFORE}")
    clone = Checkout(tmp_path_factory.mktemp("s") / "clone", commit=BEFORE)
    yield clone
    clone.make("down")
    clone.kill_all()


def test_settings_outlive_an_upgrade_without_a_conflict(clone: Checkout) -> None:
    with Webhook() as receiver:
        upgrade(clone, receiver)


def upgrade(clone: Checkout, receiver: Webhook) -> None:
    for name, text in LOCAL.items():
        file = clone.folder / "local" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(node=clone.ports["NODE_EXPORTER_PORT"], receiver=receiver.url))
    secret = clone.folder / "prometheus/secrets/password"
    secret.parent.mkdir()
    secret.write_text("a password")
    git(clone.folder, "pull", "--quiet", "--ff-only", str(ROOT), "HEAD")
    assert git(clone.folder, "status", "--porcelain") == ""

    refused = clone.make("up")
    assert "local/generated isn't made of local/objectives/desk.yml" in refused.stdout
    go_programs.path("sloth")
    python = ROOT / ".venv/bin/python"
    made = clone.run(str(python), "-m", "alerts.generator.build", PYTHONPATH="exporters")
    assert made.returncode == 0, made.stdout
    clone.must("up")

    wait_for(lambda: len(clone.query('up{host=~"second|third"} == 1')) == 2, 60)
    config = clone.get("PROMETHEUS_PORT", "/api/v1/status/config").json()["data"]["yaml"]
    for said in ("evaluation_interval: 3s", "password_file:", "job_name: mine"):
        assert said in config
    wait_for(lambda: clone.query("mine:one == 1"), 60)
    groups = clone.get("PROMETHEUS_PORT", "/api/v1/rules").json()["data"]["groups"]
    generated = {group["file"] for group in groups if "generated" in group["file"]}
    assert {f"local/generated/alerts/{name}.yml" for name in ("generated/desk", "rules/monitoring")} <= generated
    assert "7  # clockSkewedSeconds" in (clone.folder / "local/generated/alerts/rules/monitoring.yml").read_text()
    assert [name for name in generated if not name.startswith("local/generated/")] == []
    assert "--log.level=debug" in clone.processes()[clone.pid("virtscope.perf")]
    alerts = [{"labels": {"alertname": "Trial", "host": host, "severity": "critical"}} for host in ("nowhere", "x")]
    requests.post(clone.url("ALERTMANAGER_PORT", "/api/v2/alerts"), json=alerts, timeout=10).raise_for_status()
    receiver.wait_for(lambda message: message.get("receiver") == "mine", 60)
    receiver.wait_for(lambda message: "https://grafana.example.org" in str(message.get("attachments")), 60)
    assert git(clone.folder, "status", "--porcelain") == ""
