"""A Debian 13 like a Proxmox VE 9 host: QEMUs in qemu.slice, a container of LXC, LVM-thin, and /etc/pve.

QEMU is Debian's, emulates (TCG) and has Proxmox's command line; /etc/pve is a folder instead of pmxcfs.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.kernels.machine import COMMAND_LINE, HARDWARE
from tests.proxmox import image
from tests.support.emulated import EmulatedMachine
from tests.support.pages import Page
from tests.support.privileges import UNITS
from tests.support.waiting import wait_for

HERE = Path(__file__).parent
PORT = 10297
EXPORTER_SECONDS = 240
INSTALLER = HERE.parents[1] / "deploy/packages/proxmox/install-proxmox.sh"
PROGRAM = '#!/bin/sh\nPYTHONPATH=/opt/virtscope exec python3 -m virtscope.kvm "$@"\n'
STORAGE_BYTES = 1 << 30
# Storage local-lvm of Proxmox's installer: LVM-thin on a partition. "local" is a folder on the root's ext4.
LOCAL_LVM = """\
set -e
echo ,,V | sfdisk --quiet /dev/vdb
vgcreate --quiet pve /dev/vdb1
lvcreate --quiet --type thin-pool --size 512M --name data pve
lvcreate --quiet --thin --virtualsize 128M --name vm-100-disk-0 pve/data
qemu-img create -q -f raw /srv/vm-101-disk-0.raw 128M
"""
# As pve-container writes it.
CONTAINER = """\
lxc.uts.name = {name}
lxc.rootfs.path = dir:/var/lib/lxc/{ctid}/rootfs
lxc.net.0.type = none
lxc.cgroup.relative = 0
lxc.cgroup.dir.monitor = lxc.monitor/{ctid}
lxc.cgroup.dir.container = lxc/{ctid}
lxc.cgroup.dir.container.inner = ns
lxc.apparmor.profile = unconfined
lxc.init.cmd = /bin/busybox sleep infinity
"""
# Only these tests use QEMU's monitor: virtscope must not, as a connection blocks `qm`.
REQUEST = """\
import json, socket, sys
vmid, command = sys.argv[1:]
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(f"/run/{vmid}.qmp")
    lines = connection.makefile("rw")
    lines.readline()  # the greeting
    asked = {"command-line": f'qemu-io disk "{command}"'}
    for words in ({"execute": "qmp_capabilities"}, {"execute": "human-monitor-command", "arguments": asked}):
        lines.write(json.dumps(words) + "\\n")
        lines.flush()
        while "event" in (answer := json.loads(lines.readline())):
            pass
        if answer.get("return"):  # an error; else {} or ""
            sys.exit(str(answer))
"""


class ProxmoxHost(EmulatedMachine):
    """The host, whose disk is built the first time. `exporter` is kvm-exporter's address on this machine."""

    def __init__(self, workdir: Path) -> None:
        """Raises BuildError and chroots.MissingError."""
        made = image.built()
        storage = workdir / "storage.img"
        storage.touch()
        os.truncate(storage, STORAGE_BYTES)
        hardware: list[str | Path] = [
            *HARDWARE,
            *("-drive", f"file={made.disk},format=raw,if=virtio,snapshot=on"),
            *("-drive", f"file={storage},format=raw,if=virtio"),
            *("-kernel", made.kernel, "-initrd", made.initramfs, "-append", COMMAND_LINE),
        ]
        super().__init__("the Proxmox host", workdir, [PORT], hardware)
        self.exporter = self.forwarded[PORT]
        self._workdir = workdir

    def prepare(self) -> None:
        """Make the storages, and what QEMU needs for Proxmox's option."""
        library = self._workdir / "vmid.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, HERE / "vmid.c"], check=True)
        self.put("/usr/local/lib/vmid.so", library.read_bytes())
        self.run(LOCAL_LVM)

    def configure(self, path: str, content: str) -> None:
        """Write a file of /etc/pve, with the owner and mode that pmxcfs shows."""
        self.put(f"/etc/pve/{path}", content.encode())
        self.run("chown -R root:www-data /etc/pve; chmod -R u=rwX,g=rX,o= /etc/pve")

    def start_vm(self, vmid: int, name: str, drive: str) -> None:
        """Start a guest as `qm start` does, which then emulates a BIOS without a bootable disk."""
        qemu = (
            f"/usr/bin/qemu-system-x86_64 -id {vmid} -name {name},debug-threads=on -accel tcg -smp 1 -m 32 "
            "-nodefaults -display none -daemonize "
            f"-qmp unix:/run/{vmid}.qmp,server=on,wait=off "
            f"-drive {drive},id=disk,if=none,format=raw -device virtio-blk-pci,drive=disk"
        )
        scope = f"systemd-run --quiet --scope --slice=qemu.slice --unit={vmid} --property=CPUWeight=100"
        self.run(f"{scope} env LD_PRELOAD=/usr/local/lib/vmid.so {qemu}")

    def start_container(self, ctid: int, name: str) -> None:
        folder = f"/var/lib/lxc/{ctid}"
        self.put(f"{folder}/config", CONTAINER.format(ctid=ctid, name=name).encode())
        self.run(f"mkdir -p {folder}/rootfs/bin; cp /bin/busybox {folder}/rootfs/bin; lxc-start --name {ctid} --daemon")

    def use_disk(self, vmid: int, command: str) -> None:
        """Let QEMU make a request to the guest's disk, such as "write 0 1M" (qemu-io's command)."""
        self.put("/run/request.py", REQUEST.encode())
        self.run(f"python3 /run/request.py {vmid} '{command}'")

    def counted(self, vmid: int) -> str:
        """The io.stat of a guest's cgroup; "" without the controller io."""
        return self.run(f"cat /sys/fs/cgroup/qemu.slice/{vmid}.scope/io.stat 2>/dev/null || true")

    def start_kvm_exporter(self, tar: bytes) -> None:
        """Unpack tests.xen.package's tar file and start the exporter by its unit, in the group www-data."""
        unit = "kvm-exporter.service"
        self.install(tar)
        self.put("/opt/virtscope/bin/kvm-exporter", PROGRAM.encode())
        self.put(f"/etc/systemd/system/{unit}", (UNITS / unit).read_bytes())
        self.put(f"/etc/systemd/system/{unit}.d/proxmox.conf", b"[Service]\nSupplementaryGroups=www-data\n")
        self.put("/etc/virtscope/kvm-exporter.env", f"ARGS=--web.listen-address=0.0.0.0:{PORT}\n".encode())
        self.run("chmod 755 /opt/virtscope/bin/kvm-exporter; systemctl daemon-reload; systemctl start kvm-exporter")
        wait_for(lambda: Page.of(self.exporter).all("kvm_host_guests"), EXPORTER_SECONDS, every=0.5, explain=self.log)

    def log(self) -> str:
        return self.run("journalctl --no-pager --unit=kvm-exporter --lines=40")
