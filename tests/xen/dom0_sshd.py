"""Dom0's own sshd, and the client's files to come in."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.xen.host import XenHost

CONFIG = """\
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin {root}
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


@contextlib.contextmanager
def sshd_in(xen: XenHost, folder: Path, authorized_key: Callable[[str], str], *, root: str) -> Iterator[None]:
    """Runs it; ssh -F FOLDER/config dom0 then comes in as root.

    authorized_key: the line for a public key.
    root: the value of PermitRootLogin.
    """
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True, timeout=30)
    line = authorized_key((folder / "key.pub").read_text())
    xen.machine.put("/root/.ssh/authorized_keys", f"{line}\n".encode())
    xen.machine.put("/etc/ssh/sshd_config", CONFIG.format(root=root).encode())
    xen.dom0("chmod 700 /root /root/.ssh; chmod 600 /root/.ssh/authorized_keys; mkdir -p -m 755 /run/sshd")
    xen.dom0("[ -e /etc/ssh/ssh_host_ed25519_key ] || ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key")
    xen.dom0("/usr/sbin/sshd -E /var/log/sshd")
    host, _, port = xen.machine.ssh.partition(":")
    (folder / "known_hosts").write_text(f"dom0 {xen.dom0('cat /etc/ssh/ssh_host_ed25519_key.pub')}")
    (folder / "config").write_text(CLIENT.format(host=host, port=port, folder=folder))
    yield
    xen.dom0("kill $(cat /run/sshd.pid)")
