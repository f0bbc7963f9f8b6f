"""A real Prometheus with the stack's configuration: hosts over ssh are treated like any others."""

from pathlib import Path

import pytest

from tests.ssh.exporter import over_ssh
from tests.ssh.sshd import Sshd, script
from tests.ssh.xen_tools import XenTools
from tests.support.prometheus import Prometheus
from tests.support.waiting import wait_for
from virtscope.ssh import authorized_key

ROOT = Path(__file__).resolve().parents[2]
OPENVZ = ROOT / "tests/fixtures/openvz/x86_64-2.6.32-nanoseconds/proc"

pytestmark = pytest.mark.system

EXPECTED = {
    "xen": ("vserver:cpu_usage:rate", "vserver:memory:bytes", "host:overhead_cpu:rate"),
    "openvz": ("vserver:cpu_usage:rate", "vserver:memory:bytes"),
}


def test_rules_and_alerts_take_a_host_over_ssh_as_one_with_an_exporter(tmp_path: Path) -> None:
    """That the pages are the same is in test_same_as_local.py."""
    tools = XenTools(tmp_path)
    with Sshd(tmp_path) as sshd:
        sshd.add_host("xen", authorized_key.command(script(sys=tools.sysfs, programs=tools.folder)))
        sshd.add_host("openvz", authorized_key.command(script(OPENVZ)))
        with over_ssh(sshd, "xen", "openvz", flags=["--vzlist.interval=0"]) as ssh:
            labels = {"host": "over ssh", "__exporter__": ssh.address}
            watched = {
                "ssh": [{"targets": [name], "labels": {"platform": name, **labels}} for name in ("xen", "openvz")]
            }
            with Prometheus(tmp_path, watched, interval="5s", group_interval="2s", alert_for="2s") as prometheus:
                for platform, names in EXPECTED.items():  # rates are over a minute
                    for name in names:
                        prometheus.wait_for(f'{name}{{host="over ssh", platform="{platform}"}}', 180)
                [itself] = prometheus.query('up{job="ssh"}')
                assert itself["metric"]["instance"] == ssh.address
                assert prometheus.value('ssh_connected{job="ssh", target="xen"}') == 1
                assert prometheus.query('{__name__=~"ssh_.+", job!="ssh"}') == []
                # On a busy machine, a scrape may just have failed.
                wait_for(lambda: "over ssh" not in {alert["labels"].get("host") for alert in prometheus.alerts()}, 60)
                sshd.stop()
                prometheus.wait_for('ALERTS{alertname="ExporterDown", alertstate="firing", instance="xen"}', 60)
                prometheus.wait_for('ALERTS{alertname="HostDown", alertstate="firing", host="over ssh"}', 60)
