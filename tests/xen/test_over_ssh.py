"""ssh-exporter outside the host, through Dom0's sshd and its authorized_keys, with the real xentop and xl."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.running_exporter import RunningExporter
from tests.support.pages import Series
from tests.support.waiting import wait_for
from tests.xen.exporters import Page, second_exporter_in
from tests.xen.host import GUESTS, XenHost
from virtscope.ssh import authorized_key, xen_host

pytestmark = pytest.mark.long

READINGS = 5  # even with all guests paused, Dom0 itself may send them a packet during a reading
CONNECTION_SECONDS, XL_SECONDS = 120, 300
# Metrics about the exporter and its machine: durations, read bytes, child processes.
OF_ITSELF = re.compile(r"process_|xentop_(?!up$|source_up$)")


SSHD = """\
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin forced-commands-only
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
"""
CLIENT = """\
Host dom0
  HostName {host}
  Port {port}
  User root
  HostKeyAlias dom0
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile none
  IdentitiesOnly yes
  IdentityAgent none
  IdentityFile {folder}/key
"""


@pytest.fixture(scope="module")
def sshd(xen: XenHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run Dom0's sshd; ssh -F FOLDER/config dom0 then logs in with a line made as in docs/agentless.md."""
    folder = tmp_path_factory.mktemp("ssh")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True, timeout=30)
    line = authorized_key.line((folder / "key.pub").read_text())
    xen.machine.put("/root/.ssh/authorized_keys", f"{line}\n".encode())
    xen.machine.put("/etc/ssh/sshd_config", SSHD.encode())
    xen.dom0("chmod 700 /root /root/.ssh; chmod 600 /root/.ssh/authorized_keys; mkdir -p -m 755 /run/sshd")
    xen.dom0("[ -e /etc/ssh/ssh_host_ed25519_key ] || ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key")
    xen.dom0("/usr/sbin/sshd -E /var/log/sshd")
    host, _, port = xen.machine.ssh.partition(":")
    (folder / "known_hosts").write_text(f"dom0 {xen.dom0('cat /etc/ssh/ssh_host_ed25519_key.pub')}")
    (folder / "config").write_text(CLIENT.format(host=host, port=port, folder=folder))
    yield folder
    xen.dom0("kill $(cat /run/sshd.pid)")


@pytest.fixture
def over_ssh(sshd: Path) -> Iterator[Callable[[], Page]]:
    """A scrape by ssh-exporter here; in emulation, a new connection may exceed ssh's timeout."""
    (sshd / "hosts").write_text("dom0\n")
    flags = (f"--hosts.file={sshd}/hosts", f"--ssh.config.file={sshd}/config", "--xl.interval=5s")
    environment = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}
    with RunningExporter(sshd, *flags, environment=environment, package="virtscope.ssh") as exporter:

        def probe() -> tuple[int, str]:
            url = "/probe?module=xen&target=dom0"
            answer = exporter.get(url, timeout=60, X_Prometheus_Scrape_Timeout_Seconds="50")
            return answer.status_code, answer.text

        def page() -> Page:
            status, text = wait_for(probe, CONNECTION_SECONDS, every=1, until=lambda answer: answer[0] != 503)
            assert status == 200, text
            return Page.parse(text)

        yield page


def wait_for_xl(read: Callable[[], Page]) -> None:
    """Return once all guests have xl's values."""
    weight = "xen_domain_scheduler_weight"
    wait_for(read, XL_SECONDS, every=1, until=lambda page: all(page.all(weight, domain=guest.name) for guest in GUESTS))


def shown(page: Page) -> Series:
    """Everything except the exporter's metrics about itself."""
    return {key: value for key, value in page.series().items() if not OF_ITSELF.match(key[0])}


def of_guests(series: Series) -> Series:
    names = {guest.name for guest in GUESTS}
    return {key: value for key, value in series.items() if names & set(dict(key[1]).values())}


def test_the_same_metrics_and_values_as_on_the_host(xen: XenHost, over_ssh: Callable[[], Page]) -> None:
    with second_exporter_in(xen, "--source=xentop --xl.interval=5s") as inside:
        wait_for_xl(over_ssh)
        wait_for_xl(inside.page)
        with xen.paused():
            for _ in range(READINGS):
                time.sleep(6)  # until xl and xentop have seen the pause
                before = shown(inside.page_from_now())
                there = shown(over_ssh())
                here = shown(inside.page_from_now())
                if of_guests(before) == of_guests(here):
                    break
            else:
                pytest.fail(f"values changed during each of {READINGS} readings")
    detail = f"ssh:dom0:{xen_host.XENTOP}, networks from {xen_host.NET_DEV}"
    assert detail in over_ssh().labels("xentop_source_info", "detail")
    assert there.keys() == here.keys()
    assert of_guests(there) == of_guests(here)
    for name in ("domain_cpu_seconds_total", "domain_network_receive_bytes_total", "domain_scheduler_weight"):
        assert sum(value for key, value in of_guests(there).items() if key[0] == f"xen_{name}"), "zeros prove nothing"


def test_the_key_does_nothing_else(xen: XenHost, sshd: Path) -> None:
    ssh = ["ssh", f"-F{sshd}/config", "-oBatchMode=yes", "dom0", "touch /touched"]
    requests = "touch /touched\nxl pause 1\nxl list -v\n"
    ended = subprocess.run(ssh, input=requests, stdout=subprocess.PIPE, text=True, timeout=120, check=False)
    nothing = "unknown 0\n\n0\n\n1\n"
    assert ended.stdout.startswith(f"virtscope 1\n{nothing}{nothing}xl list -v ")
    assert GUESTS[0].name in ended.stdout
    xen.dom0("test ! -e /touched")
