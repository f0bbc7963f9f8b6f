"""What an emulated machine with systemd boots from: a Debian system as a disk, which the agent's unit is added to.

The result is kept in the cache under a hash of our own files, so that only a change to them builds again. Debian's
packages are taken as they are at that time.
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

from tools import programs

HERE = Path(__file__).parent
AGENT = HERE.parent / "xen" / "dom0" / "agent.py"
UNIT = HERE / "agent.service"
DISK_BYTES = 3 << 30
DISK_SECONDS = 600
MASKED = ("apt-daily-upgrade.timer", "apt-daily.timer")


@dataclass(frozen=True)
class Image:
    """What QEMU loads: the machine's kernel, its initramfs, and its root, a raw disk with ext4."""

    kernel: Path
    initramfs: Path
    disk: Path


def cached(kind: str, inputs: Sequence[Path], build: Callable[[Path], None]) -> Image:
    """The image of this kind for these files as they are now; if there is none, `build` makes it in an empty folder."""
    digest = hashlib.sha256()
    for path in (Path(__file__), AGENT, UNIT, *inputs):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    images = programs.cache(kind)
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


def finish(root: Path, workdir: Path, hostname: str) -> None:
    """Makes the image of the system in the folder `root`, which has one kernel, and removes the folder."""
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
