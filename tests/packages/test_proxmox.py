"""Proxmox's installer on a booted Debian 13 with a fake pveversion: it does what it prints, and undoes all of it."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from deploy.packages import deb
from tests.distributions.chroots import DEBIAN_13
from tests.packages.conftest import Boot, CleanHost, Packages
from tests.support.waiting import wait_for

PVEVERSION = """\
cat >/usr/local/bin/pveversion <<'END'
#!/bin/sh
echo 'pve-manager/9.0.3/025864202ebb6109 (running kernel: 6.14.8-2-pve)'
END
chmod +x /usr/local/bin/pveversion"""
FOLDER, PORT = "/srv/dist", 8000
NEEDED = "prometheus-node-exporter wget systemd"
INSTALL = f"sh {FOLDER}/install-proxmox.sh --yes 2>&1"
START_SECONDS = 60
REMOVE = f"{INSTALL} --remove"
FROM_URL = f"sh {FOLDER}/install-proxmox.sh --yes --from http://127.0.0.1:{PORT}"

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(1800),  # the first time the release is downloaded
    pytest.mark.parametrize("host", [DEBIAN_13], indirect=True, ids=["trixie"]),
]


def test_it_does_what_it_prints_and_removes_all_of_it(host: CleanHost, boot: Boot, packages: Packages) -> None:
    published = host.root / FOLDER[1:]
    published.mkdir()
    sums, _script = deb.publish([Path(shutil.copy(package, published)) for package in packages.now.values()])
    host.apt(f"install --no-install-recommends --download-only {FOLDER}/*.deb {NEEDED}")
    host.apt("install --no-install-recommends adduser wget")  # as Proxmox has them
    machine = boot()
    before, accounts = machine.files(), _accounts(machine)

    # On another host, from a folder without or with other checksums, and without an answer: nothing.
    tampered = f"cp -r {FOLDER} /srv/bad; echo x >>/srv/bad/{packages.now['kvm-exporter'].name}"
    for command, said in (
        (INSTALL, "no Proxmox VE host"),
        (f"{PVEVERSION}; {INSTALL} --frm x", "unknown"),
        (f"{INSTALL} --from /srv", "no /srv/SHA256SUMS"),
        (f"{FROM_URL} 2>&1", "needs --sha256"),
        (f"sh {FOLDER}/install-proxmox.sh </dev/null 2>&1", "give --yes"),
        (f"{tampered}; {INSTALL} --from /srv/bad", "another checksum"),
    ):
        done = machine.run(command)
        assert done.returncode != 0, command
        assert said in done.stdout, command
    assert machine.files() - before == {"/usr/local/bin/pveversion"}

    before = machine.files()
    machine.must(f"cd {FOLDER} && setsid python3 -m http.server --bind 127.0.0.1 {PORT} >/dev/null 2>&1 &")
    checksum = hashlib.sha256(sums.read_bytes()).hexdigest()
    printed = machine.must(f"sleep 2; {FROM_URL} --sha256 {checksum} 2>&1")
    new = machine.files() - before
    for written in ("kvm-exporter.service.d/proxmox.conf", "virtscope-disks.service"):
        assert f"/etc/systemd/system/{written}" in printed
        assert f"/etc/systemd/system/{written}" in new
    active = machine.must("systemctl is-active kvm-exporter prometheus-node-exporter virtscope-disks")
    assert active.split() == ["active"] * 3
    assert "www-data" in machine.must("systemctl show --property=SupplementaryGroups kvm-exporter")
    wait_for(lambda: _ports(machine)["0100007F"], START_SECONDS, until=lambda ports: {10297, 9100} <= ports)
    assert _ports(machine).keys() == {"0100007F"}, "on loopback only"
    assert "there is nothing to remove" not in machine.must(INSTALL), "again, as an upgrade"

    machine.must(REMOVE)
    assert sorted(machine.files() ^ before) == []
    assert _accounts(machine) == accounts
    assert machine.must("systemctl list-units --all --plain --no-legend '*exporter*' 'virtscope*'") == ""
    assert "nothing to remove" in machine.run(REMOVE).stdout

    # Without what apt needs it says so, and this is undone, too.
    failing = "printf '#!/bin/sh\nexit 100\n' >/usr/local/bin/apt-get; chmod +x /usr/local/bin/apt-get"
    done = machine.run(f"{failing}; {INSTALL}; status=$?; rm /usr/local/bin/apt-get; exit $status")
    assert done.returncode != 0
    assert "--remove undoes what was done" in done.stdout
    machine.must(REMOVE)
    assert sorted(machine.files() ^ before) == []

    # A node_exporter that is there already stays as it is.
    machine.apt("install --no-install-recommends prometheus-node-exporter")
    before = machine.files()
    assert "nothing for prometheus-node-exporter" in machine.must(INSTALL)
    machine.must(REMOVE)
    assert sorted(machine.files() ^ before) == []


def _ports(host: CleanHost) -> dict[str, set[int]]:
    """The ports at which something listens, by address as the kernel prints it."""
    found: dict[str, set[int]] = {}
    for line in host.must("cat /proc/net/tcp /proc/net/tcp6").splitlines():
        if " 0A " in line:
            address, _, port = line.split()[1].rpartition(":")
            found.setdefault(address, set()).add(int(port, 16))
    return found


def _accounts(host: CleanHost) -> list[str]:
    return sorted(host.must("cat /etc/passwd /etc/group").splitlines())
