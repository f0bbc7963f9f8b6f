"""Builds the disk of the KVM host under test from Debian 12 packages: systemd, libvirt, QEMU and Debian's own kernel.

The result is kept in the cache under a hash of our own files, so that only a change to them builds again (a minute and
a half). Debian's packages are taken as they are at that time.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import programs

HERE = Path(__file__).parent
AGENT = HERE.parent / "xen" / "dom0" / "agent.py"
UNIT = HERE / "inside" / "agent.service"
SUITE = "bookworm"
BUILD_SECONDS = 900
DISK_BYTES = 3 << 30
PACKAGES = (
    *("dbus", "initramfs-tools", "kmod", "linux-image-amd64", "systemd-sysv", "udev"),
    *("iproute2", "libvirt-clients", "libvirt-daemon-driver-qemu", "libvirt-daemon-system", "polkitd", "procps"),
    *("python3", "qemu-system-x86"),
)
UNUSED = ("doc", "man", "locale")  # of /usr/share
MASKED = ("apt-daily-upgrade.timer", "apt-daily.timer", "libvirt-guests.service")


class BuildError(Exception):
    """The image can't be built; the message says which command failed and what it printed."""


@dataclass(frozen=True)
class Image:
    """What QEMU loads: the host's kernel, its initramfs, and its root, a raw disk with ext4."""

    kernel: Path
    initramfs: Path
    disk: Path


def why_not_here() -> str | None:
    """Why this machine can't emulate a KVM host, and what to do about it; None if it can."""
    if os.geteuid() != 0:
        return "the KVM host's disk is built by root: run this as root"
    brings = {
        "qemu-system-x86": "qemu-system-x86_64",
        "nasm": "nasm",
        "mmdebstrap": "mmdebstrap",
        "e2fsprogs": "mke2fs",
    }
    if missing := [package for package, program in brings.items() if shutil.which(program) is None]:
        return f"the emulated KVM host needs: apt-get install --no-install-recommends {' '.join(missing)}"
    if not _sources():
        return "this machine's apt has no mirror of Debian to build the KVM host from"
    return None


def image() -> Image:
    """The image for the files as they are now, built if the cache has none. Raises BuildError."""
    digest = hashlib.sha256()
    for path in (Path(__file__), AGENT, UNIT):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    images = programs.cache("kvm")
    built = images / digest.hexdigest()[:16]
    with programs.exclusively(images):  # of two processes that need an image, one builds it
        if not built.is_dir():
            with tempfile.TemporaryDirectory(dir=images) as folder:
                workdir = Path(folder) / "image"
                workdir.mkdir()
                build(workdir)
                workdir.rename(built)
            for other in images.iterdir():
                if other.is_dir() and other != built:
                    shutil.rmtree(other)
    return Image(built / "vmlinuz", built / "initrd.img", built / "disk.img")


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

    system = root / "etc/systemd/system"
    (system / "multi-user.target.wants").mkdir(exist_ok=True)
    shutil.copy(UNIT, system)
    (system / "multi-user.target.wants" / UNIT.name).symlink_to(f"../{UNIT.name}")
    for unit in MASKED:
        (system / unit).unlink(missing_ok=True)
        (system / unit).symlink_to("/dev/null")
    shutil.copy(AGENT, root / "root")
    (root / "etc/hostname").write_text("kvmhost\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost kvmhost\n")
    (root / "etc/fstab").write_text("/dev/vda / ext4 defaults 0 1\n")
    for folder in ("var/lib/apt/lists", "var/cache/apt"):
        shutil.rmtree(root / folder)

    for name in ("vmlinuz", "initrd.img"):
        [found] = (root / "boot").glob(f"{name}-*")  # there is one kernel
        shutil.copy(found, workdir / name)
    disk = workdir / "disk.img"
    disk.touch()
    os.truncate(disk, DISK_BYTES)
    _run(["mke2fs", "-q", "-t", "ext4", "-d", root, disk])
    shutil.rmtree(root)


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
