"""The boot disk of an emulated machine with systemd: a Debian with the agent's unit.

Images are cached under a hash of our own files, so that only a change to them rebuilds. Debian's packages are those of
the build time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy import programs
from tests.distributions import chroots
from tests.distributions.chroots import Release
from tests.distributions.machine import Machine
from tests.support.needs import need, need_root

HERE = Path(__file__).parent
AGENT = HERE.parent / "xen" / "dom0" / "agent.py"
UNIT = HERE / "agent.service"
DISK_BYTES = 3 << 30
DISK_SECONDS = 600
MASKED = ("apt-daily-upgrade.timer", "apt-daily.timer", "libvirt-guests.service")
SYSTEM = ("dbus", "initramfs-tools", "iproute2", "kmod", "procps", "systemd-sysv", "udev")
# The only modules that the initramfs loads.
MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "ext4")


class BuildError(Exception):
    """The image can't be built; the message says which command failed and what it printed."""


@dataclass(frozen=True)
class Image:
    """Files that QEMU loads: the machine's kernel, its initramfs, and its root, a raw disk with ext4."""

    kernel: Path
    initramfs: Path
    disk: Path


def cached(
    kind: str, inputs: Sequence[Path], build: Callable[[Path], None], *, facts: bytes = b"", kept: int = 1
) -> Path:
    """The folder built from the current state of these files; if it doesn't exist, `build` fills an empty one.

    `facts`: what else it depends on. `kept`: number of folders to keep, for switching between two states of the files.
    """
    digest = hashlib.sha256(facts)
    for path in inputs:
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    images = programs.cache(kind)
    built = images / digest.hexdigest()[:16]
    with programs.exclusively(images):  # if two processes need it, one builds
        if not built.is_dir():
            with tempfile.TemporaryDirectory(dir=images) as folder:
                workdir = Path(folder) / "image"
                workdir.mkdir()
                build(workdir)
                workdir.rename(built)
            others = sorted(filter(Path.is_dir, images.iterdir()), key=lambda path: path.stat().st_mtime)
            for other in others[:-kept]:
                if other != built:
                    shutil.rmtree(other)
    return built


def need_emulation(**brings: str) -> None:
    """Skip if Debian can't be built or emulated, or if one of these programs is missing."""
    need_root("builds a Debian")
    need(qemu_system_x86="qemu-system-x86_64", debootstrap="debootstrap", e2fsprogs="mke2fs", **brings)


def debian(
    kind: str,
    code: Path,
    release: Release,
    kernel: str,
    *packages: str,
    loaded: Sequence[str] = (),
    backported: bool = False,
) -> Image:
    """A release with these packages and this kernel package, which loads these modules at boot.

    `backported`: the kernel is the newest that the release's backports have. `code`: other files that it depends on.
    Raises BuildError and chroots.MissingError.
    """
    suite = f"{release.suite}-backports" if backported else release.suite

    def build(workdir: Path) -> None:
        root = workdir / "root"
        subprocess.run(["cp", "--archive", chroots.root(release), root], check=True)
        with Machine(root, workdir / "home", workdir / "cache", writable=True) as machine:
            if backported:
                sources = root / "etc/apt/sources.list"
                first = sources.read_text().partition("\n")[0]
                (root / "etc/apt/sources.list.d/backports.list").write_text(f"{first.replace(release.suite, suite)}\n")
            _apt(machine, "update")
            _apt(machine, "install", "--no-install-recommends", *SYSTEM, *packages)
            (root / "etc/initramfs-tools/conf.d/virtscope").write_text("MODULES=list\n")
            (root / "etc/initramfs-tools/modules").write_text("".join(f"{name}\n" for name in MODULES))
            # Only the point release, which doesn't change: an old release's mirrors list security updates that they
            # lack.
            _apt(machine, "install", "--no-install-recommends", f"--target-release={suite}", kernel)
        (root / "etc/modules-load.d/tests.conf").write_text("".join(f"{name}\n" for name in loaded))
        _finish(root, workdir, release.suite)

    built = cached(kind, [Path(__file__), AGENT, UNIT, code], build)
    return Image(built / "vmlinuz", built / "initrd.img", built / "disk.img")


def _apt(machine: Machine, *what: str) -> None:
    quietly = {"DEBIAN_FRONTEND": "noninteractive"}
    done = machine.run(["apt-get", "--yes", "--quiet=2", *what], Path("/"), quietly, user=0)
    if done.returncode != 0:
        raise BuildError(f"apt-get {' '.join(what)} failed with status {done.returncode}:\n{done.stdout}")


def _finish(root: Path, workdir: Path, hostname: str) -> None:
    """Build the image of the system in the folder `root`, which has one kernel, and remove the folder."""
    system = root / "etc/systemd/system"
    wanted = system / "multi-user.target.wants"
    wanted.mkdir(exist_ok=True)
    shutil.copy(UNIT, system)
    (wanted / UNIT.name).symlink_to(f"../{UNIT.name}")
    for unit in MASKED:
        (system / unit).unlink(missing_ok=True)
        (system / unit).symlink_to("/dev/null")
    shutil.copy(AGENT, root / "root")
    (root / "etc/hostname").write_text(f"{hostname}\n")
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost {hostname}\n")
    (root / "etc/fstab").write_text("/dev/vda / ext4 defaults 0 1\n")
    for folder in ("var/lib/apt/lists", "var/cache/apt"):
        shutil.rmtree(root / folder)
    for name in ("vmlinuz", "initrd.img"):
        [found] = (root / "boot").glob(f"{name}-*")
        shutil.copy(found, workdir / name)
    disk = workdir / "disk.img"
    disk.touch()
    os.truncate(disk, DISK_BYTES)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, disk], check=True, timeout=DISK_SECONDS)
    shutil.rmtree(root)
