"""A scrape over ssh equals that of the exporter on the host itself, with any shell on the host."""

import os
import re
from pathlib import Path

import pytest

from tests.e2e.running_exporter import RunningExporter
from tests.ssh.exporter import over_ssh
from tests.ssh.sshd import Sshd, script
from tests.ssh.xen_tools import XenTools
from tests.support.waiting import wait_for
from virtscope.ssh import authorized_key

OPENVZ = sorted((Path(__file__).resolve().parents[1] / "fixtures/openvz").iterdir())
SHELLS = ("/bin/dash", "/bin/bash", "/bin/busybox sh")

# Sources, ages, earlier values, costs, and the process itself.
VARYING = re.compile(
    r"(# \w+ )?(process_\w+|xentop_iteration_age_seconds|xentop_child_starts_total"
    r"|(vestat|xentop)_(source_(cpu_)?seconds_total|source_(info|age_seconds|(reads|errors)_total)|encode_seconds_total))\b"
)


def comparable(page: str) -> list[str]:
    return [line for line in page.splitlines() if not VARYING.match(line)]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The exporter's page of each OpenVZ host, generated on the host itself."""
    pages = {}
    for host in OPENVZ:
        folder = tmp_path_factory.mktemp("local")
        with RunningExporter(folder, f"--path.procfs={host}/proc", package="virtscope.openvz") as exporter:
            pages[host.name] = comparable(exporter.get().text)
    return pages


@pytest.mark.parametrize("shell", SHELLS)
def test_every_openvz_host(shell: str, local: dict[str, list[str]], tmp_path: Path) -> None:
    with Sshd(tmp_path) as sshd:
        for host in OPENVZ:
            sshd.add_host(host.name, authorized_key.command(script(host / "proc"), shell))
        with over_ssh(sshd, *local, flags=["--vzlist.interval=0"]) as exporter:
            for name, here in local.items():
                probed = exporter.get(f"/probe?module=openvz&target={name}")
                assert comparable(probed.text) == here
                assert f'vestat_source_info{{detail="ssh:{name}:/proc' in probed.text
                assert "process_" not in probed.text, "the exporter's own process is no host's"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_xen_host(shell: str, tmp_path: Path) -> None:
    tools = XenTools(tmp_path)
    environment = {**os.environ, "PATH": f"{tools.folder}:{os.environ['PATH']}", "XENSTORED_PATH": str(tmp_path)}
    flags = ("--source=xentop", f"--path.procfs={tools.procfs}", f"--path.sysfs={tools.sysfs}")
    complete = 'xen_domain_scheduler_weight{domain="web01"'

    with RunningExporter(tmp_path, *flags, environment=environment) as exporter:
        wait_for(lambda: complete in exporter.get().text, 60)
        here = comparable(exporter.get().text)
    with Sshd(tmp_path) as sshd:
        command = script(tools.procfs, tools.sysfs, tools.folder)
        sshd.add_host("dom0", authorized_key.command(command, shell))
        with over_ssh(sshd, "dom0") as exporter:
            wait_for(lambda: complete in exporter.get("/probe?module=xen&target=dom0").text, 60)
            page = exporter.get("/probe?module=xen&target=dom0").text
    assert comparable(page) == here
    detail = "ssh:dom0:xentop -b -f -n -x -v -i 1, networks from /proc/net/dev"
    assert f'xentop_source_info{{detail="{detail}",source="xentop"}} 1.0\n' in page
    assert 'xen_domain_network_receive_bytes_total{domain="db01",domid="",vif="0"} 463424.0\n' in page
    assert 'xen_host_info{version="4.17.5"} 1.0\n' in page
