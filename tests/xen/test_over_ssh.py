"""ssh-exporter outside the host, through Dom0's sshd and its authorized_keys, with the real xentop and xl."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.xen.host import GUESTS, XenHost
from virtscope.ssh import authorized_key

pytestmark = pytest.mark.long


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
    xen.put("/root/.ssh/authorized_keys", f"{line}\n".encode())
    xen.put("/etc/ssh/sshd_config", SSHD.encode())
    xen.dom0("chmod 700 /root /root/.ssh; chmod 600 /root/.ssh/authorized_keys; mkdir -p -m 755 /run/sshd")
    xen.dom0("[ -e /etc/ssh/ssh_host_ed25519_key ] || ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key")
    xen.dom0("/usr/sbin/sshd -E /var/log/sshd")
    host, _, port = xen.ssh.partition(":")
    (folder / "known_hosts").write_text(f"dom0 {xen.dom0('cat /etc/ssh/ssh_host_ed25519_key.pub')}")
    (folder / "config").write_text(CLIENT.format(host=host, port=port, folder=folder))
    yield folder
    xen.dom0("kill $(cat /run/sshd.pid)")


def test_the_key_does_nothing_else(xen: XenHost, sshd: Path) -> None:
    ssh = ["ssh", f"-F{sshd}/config", "-oBatchMode=yes", "dom0", "touch /touched"]
    requests = "touch /touched\nxl pause 1\nxl list -v\n"
    ended = subprocess.run(ssh, input=requests, stdout=subprocess.PIPE, text=True, timeout=120, check=False)
    nothing = "unknown 0\n\n0\n\n1\n"
    assert ended.stdout.startswith(f"virtscope 1\n{nothing}{nothing}xl list -v ")
    assert GUESTS[0].name in ended.stdout
    xen.dom0("test ! -e /touched")
