"""A real Prometheus with the stack's configuration: hosts over ssh are treated like any others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.running_exporter import RunningExporter
from tests.ssh.exporter import over_ssh
from tests.ssh.sshd import Sshd, script
from tests.ssh.xen_tools import XenTools
from tests.support.prometheus import Prometheus
from tests.support.waiting import wait_for
from virtscope.ssh import authorized_key

ROOT = Path(__file__).resolve().parents[2]
OPENVZ = ROOT / "tests/fixtures/openvz/x86_64-2.6.32-nanoseconds/proc"

pytestmark = pytest.mark.system

# Costs of the exporter's process, which doesn't run on a watched host here.
OF_A_PROCESS = "(monitor|target):.+"


def test_rules_and_alerts_take_a_host_over_ssh_as_one_with_an_exporter(tmp_path: Path) -> None:
    tools = XenTools(tmp_path)
    environment = {**os.environ, "PATH": f"{tools.folder}:{os.environ['PATH']}", "XENSTORED_PATH": str(tmp_path)}
    (tmp_path / "openvz").mkdir()
    with (
        RunningExporter(tmp_path, "--source=xentop", f"--path.sysfs={tools.sysfs}", environment=environment) as xentop,
        RunningExporter(tmp_path / "openvz", f"--path.procfs={OPENVZ}", package="virtscope.openvz") as vestat,
        Sshd(tmp_path) as sshd,
    ):
        sshd.add_host("xen", authorized_key.command(script(sys=tools.sysfs, programs=tools.folder)))
        sshd.add_host("openvz", authorized_key.command(script(OPENVZ)))
        with over_ssh(sshd, "xen", "openvz", flags=["--vzlist.interval=0"]) as ssh:
            watched: dict[str, list[dict[str, Any]]] = {
                "xentop": [{"targets": [xentop.address], "labels": {"host": "local"}}],
                "vestat": [{"targets": [vestat.address], "labels": {"host": "local"}}],
                "ssh": [
                    {"targets": [name], "labels": {"host": "over ssh", "platform": name, "__exporter__": ssh.address}}
                    for name in ("xen", "openvz")
                ],
            }
            with Prometheus(tmp_path, watched, interval="5s", group_interval="2s", alert_for="2s") as prometheus:

                def vocabulary(host: str) -> set[tuple[str, ...]]:
                    series = prometheus.query(f'{{__name__=~".+:.+", __name__!~"{OF_A_PROCESS}", host="{host}"}}')
                    metrics = [sorted(each["metric"].items()) for each in series]
                    # A host's own usage is the virtual server with the host's name.
                    return {tuple(f"{name}={value.replace(host, 'HOST')}" for name, value in each) for each in metrics}

                for name in EXPECTED:  # rates are over a minute
                    prometheus.wait_for(f'{name}{{host="over ssh"}}', 180)
                wait_for(lambda: vocabulary("over ssh") ^ vocabulary("local"), 60, until=lambda unlike: not unlike)
                [itself] = prometheus.query('up{job="ssh"}')
                assert itself["metric"]["instance"] == ssh.address
                assert prometheus.value('ssh_connected{job="ssh", target="xen"}') == 1
                assert prometheus.query('{__name__=~"ssh_.+", job!="ssh"}') == []
                # On a busy machine, a scrape may just have failed.
                wait_for(lambda: "over ssh" not in {alert["labels"].get("host") for alert in prometheus.alerts()}, 60)
                sshd.stop()
                prometheus.wait_for('ALERTS{alertname="ExporterDown", alertstate="firing", instance="xen"}', 60)
                prometheus.wait_for('ALERTS{alertname="HostDown", alertstate="firing", host="over ssh"}', 60)


EXPECTED = ("vserver:cpu_usage:rate", "vserver:memory:bytes", "host:overhead_cpu:rate")
