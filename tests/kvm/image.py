"""Builds the disk of the KVM host under test from Debian 12 packages, in a minute and a half.

They are systemd, libvirt, QEMU, Debian's own kernel, and what the exporters need.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support import disk
from tests.support.disk import Image
from tests.support.needs import missing, need, need_root

SUITE = "bookworm"
BUILD_SECONDS = 900
PACKAGES = (
    *("dbus", "initramfs-tools", "kmod", "linux-image-amd64", "systemd-sysv", "udev"),
    *("iproute2", "libvirt-clients", "libvirt-daemon-driver-qemu", "libvirt-daemon-system", "polkitd", "procps"),
    *("libbpf1", "python3", "qemu-system-x86"),
)
MODULES = ("kvm_amd", "vhost_net", "tun")  # loaded at boot
UNUSED = ("doc", "man", "locale")  # of /usr/share


class BuildError(Exception):
    """The image can't be built; the message says which command failed and what it printed."""


def need_emulation() -> None:
    """Skip where this machine can't emulate a KVM host."""
    need_root("builds the KVM host's disk")
    need(qemu_system_x86="qemu-system-x86_64", nasm="nasm", mmdebstrap="mmdebstrap", e2fsprogs="mke2fs")
    if not _sources():
        missing("this machine's apt has no mirror of Debian to build the KVM host from")


def image() -> Image:
    """The image for the files as they are now, built if the cache has none. Raises BuildError."""
    return disk.cached("kvm", [Path(__file__)], build)


def build(workdir: Path) -> None:
    """Leaves `vmlinuz`, `initrd.img` and `disk.img` in the empty folder `workdir`."""
    root = workdir / "root"
    sources = workdir / "sources.list"
    sources.write_text(_sources())
    # As this machine's apt reaches its mirrors.
    settings = workdir / "apt.conf"
    dumped = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True).stdout
    settings.write_text("".join(re.findall(r"^Acquire::(?:https?|Check-).*\n", dumped, re.MULTILINE)))
    left_out = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in UNUSED]
    command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", f"--aptopt={settings}", *left_out]
    _run(
        [*command, '--aptopt=APT::Install-Recommends "false"', f"--include={','.join(PACKAGES)}", SUITE, root, sources]
    )

    (root / "etc/systemd/system/libvirt-guests.service").symlink_to("/dev/null")
    (root / "etc/modules-load.d/kvm.conf").write_text("".join(f"{name}\n" for name in MODULES))
    disk.finish(root, workdir, "kvmhost")


def _sources() -> str:
    """This machine's mirror of Debian, as apt's sources for the suite; "" if it has none."""
    folder = Path("/etc/apt")
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    text = "".join(file.read_text() for file in files if file.suffix in {".list", ".sources"} and file.exists())
    found = re.search(r"^(?:URIs:|deb(?: +\[.*?\])?) *(\S+/debian)/?\s", text, re.MULTILINE)
    if found is None:
        return ""
    suites = {SUITE: found[1], f"{SUITE}-updates": found[1], f"{SUITE}-security": f"{found[1]}-security"}
    return "".join(f"deb {uri} {name} main\n" for name, uri in suites.items())


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
    if done.returncode != 0:
        raise BuildError(f"{command[0]} failed with status {done.returncode}:\n{done.stdout}{done.stderr}")
