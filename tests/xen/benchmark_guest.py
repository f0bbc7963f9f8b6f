"""A guest with sshd and the lab's benchmarks, and the user's ssh that finds its way there through Dom0.

Its file system is that of all guests (kernel modules and busybox) with packages unpacked over it: the kernel takes
several archives one behind the other as its initramfs, so nothing of the image is built again.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.emulated import MachineError
from tests.xen.dom0_sshd import sshd_in
from tests.xen.host import XenHost
from tests.xen.image import pack
from tools import programs
from tools.programs import Packages

NAME = "benchmarks"
ADDRESS = "10.9.0.2"  # on Dom0's bridge; those of other guests are above 100
MEMORY = 256  # MiB: its file system takes 85, and lmbench three times its size of files and memory
# sshd as small as there is: in emulation, logging in to OpenSSH's takes longer than the lab waits for it. With dash and
# coreutils, as what busybox starts is busybox too wherever it can be, and its setpriv can't change the user.
PACKAGES = Packages(
    "xen-guest",
    ("coreutils", "dash", "dropbear-bin", "libc6", "stress-ng", "sysbench", "util-linux"),
    follows=r"z?lib(?!llvm|egl-mesa|gl1-mesa|glx).+",
)
UNUSED = ("usr/share", "usr/lib/x86_64-linux-gnu/gconv")
CONNECTION_SECONDS = 240
LMBENCH = "/usr/lib/lmbench"  # in the guest

INIT = f"""\
#!/bin/busybox sh
/bin/busybox --install -s /bin 2>/tmp/there-already
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
for module in $(cat /modules/order); do insmod "/modules/$module"; done
ifconfig lo 127.0.0.1 up
ifconfig eth0 {ADDRESS} up
exec busybox init
"""
INITTAB = "::respawn:/usr/sbin/dropbear -F -R -s\n"
CFG = f"""\
name = "{NAME}"
type = "pv"
kernel = "/guest/vmlinuz"
ramdisk = "/tmp/{NAME}.initramfs"
extra = "console=hvc0 quiet"
memory = {MEMORY}
vif = ["bridge=xenbr0,mac=00:16:3e:00:00:00,script=vif-lite"]
on_crash = "preserve"
"""


@contextlib.contextmanager
def guest_in(xen: XenHost, folder: Path) -> Iterator[Path]:
    """Runs it beside the other guests; yields a folder to be put before PATH, whose ssh reaches it by its name.

    All that is asked of it goes over one connection, as with ControlMaster in the user's own ssh_config.
    """
    with sshd_in(xen, folder, str.strip, root="prohibit-password"):
        config, key = folder / "config", folder / "key"
        with config.open("a") as more:
            more.write(
                f"""
                Host {NAME}
                  HostName {ADDRESS}
                  ProxyJump dom0
                  User root
                  StrictHostKeyChecking accept-new
                  UserKnownHostsFile {folder}/known_guests
                  GlobalKnownHostsFile none
                  IdentitiesOnly yes
                  IdentityAgent none
                  IdentityFile {key}
                  ControlPath {folder}/control
                """
            )
        xen.machine.put(f"/tmp/{NAME}.files", files(folder / "root", (folder / "key.pub").read_text()))
        xen.machine.put(f"/tmp/{NAME}.cfg", CFG.encode())
        xen.dom0(f"cd /tmp && cat /guest/initramfs {NAME}.files >{NAME}.initramfs && rm {NAME}.files")
        xen.dom0(f"xl create -q /tmp/{NAME}.cfg", timeout=300)
        try:
            xen.wait_for_guests([xen.dom0(f"xl domid {NAME}").strip()])
            bin_folder = folder / "bin"
            bin_folder.mkdir()
            ssh = bin_folder / "ssh"
            ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {shlex.quote(str(config))} "$@"\n')
            ssh.chmod(0o755)
            connect(ssh)
            yield bin_folder
            subprocess.run([ssh, "-O", "exit", NAME], check=False, timeout=60)
        finally:
            xen.dom0(f"xl destroy {NAME}; rm /tmp/{NAME}.*")


def files(root: Path, key: str) -> bytes:
    """What is unpacked over the image's guest, as a compressed archive for the kernel."""
    root.mkdir()
    for packages in (PACKAGES, programs.LMBENCH):
        subprocess.run(["cp", "-a", f"{programs.root(packages)}/.", root], check=True, timeout=120)
    for unused in UNUSED:
        shutil.rmtree(root / unused)
    for name, content in {
        "init": INIT,
        "etc/inittab": INITTAB,
        "etc/hosts": "127.0.0.1 localhost\n",
        "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
        "etc/shells": "/bin/sh\n",
        "root/.ssh/authorized_keys": key,
        "etc/dropbear/made-at-first-login": "",
        "var/tmp/empty": "",
    }.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    (root / "init").chmod(0o755)
    for private in (root / "root", root / "root/.ssh"):
        private.chmod(0o700)
    packed = root.with_name("files")
    pack(root, packed)
    shutil.rmtree(root)
    return subprocess.run(["zstd", "--quiet", "--stdout", packed], check=True, capture_output=True, timeout=120).stdout


def connect(ssh: Path) -> None:
    """Make the connection that all others share. Raises `MachineError`."""
    deadline = time.monotonic() + CONNECTION_SECONDS
    command = [str(ssh), "-M", "-N", "-f", "-o", "BatchMode=yes", "-o", "ConnectTimeout=60", NAME]
    while (made := subprocess.run(command, stdin=subprocess.DEVNULL, check=False)).returncode:
        if time.monotonic() > deadline:
            raise MachineError(f"no connection to {NAME}: ssh ended with status {made.returncode}")
        time.sleep(2)
