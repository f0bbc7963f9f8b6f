"""Builds the disk of a release of Debian that boots its own kernel, with systemd and what sched-exporter needs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.distributions import chroots
from tests.distributions.chroots import DEBIAN_11, Release
from tests.distributions.machine import Machine
from tests.support import disk
from tests.support.disk import Image
from tests.support.needs import need, need_root

SYSTEM = ("dbus", "initramfs-tools", "iproute2", "kmod", "procps", "systemd-sysv", "udev")
KERNEL = "linux-image-cloud-amd64"  # the same scheduler with fewer drivers; boots faster
# What the initramfs loads, and nothing else.
MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "ext4")


class BuildError(Exception):
    """The image can't be built; the message says which command failed and what it printed."""


def need_emulation() -> None:
    """Skip where this machine can't boot other releases."""
    need_root("builds other releases")
    need(qemu_system_x86="qemu-system-x86_64", debootstrap="debootstrap", e2fsprogs="mke2fs")


def image(release: Release) -> Image:
    """The image of this release, built if the cache has none. Raises BuildError and chroots.MissingError."""

    def build(workdir: Path) -> None:
        root = workdir / "root"
        subprocess.run(["cp", "--archive", chroots.root(release), root], check=True)
        libbpf = "libbpf0" if release == DEBIAN_11 else "libbpf1"
        with Machine(root, workdir / "home", workdir / "cache", writable=True) as machine:
            _apt(machine, "update")
            _apt(machine, "install", "--no-install-recommends", *SYSTEM, libbpf)
            (root / "etc/initramfs-tools/conf.d/virtscope").write_text("MODULES=list\n")
            (root / "etc/initramfs-tools/modules").write_text("".join(f"{name}\n" for name in MODULES))
            # The point release's own, which stays: an old release's mirrors list security updates that they lack.
            _apt(machine, "install", "--no-install-recommends", f"--target-release={release.suite}", KERNEL)
        disk.finish(root, workdir, release.suite)

    return disk.cached(f"kernels/{release.suite}", [Path(__file__)], build)


def _apt(machine: Machine, *what: str) -> None:
    quietly = {"DEBIAN_FRONTEND": "noninteractive"}
    done = machine.run(["apt-get", "--yes", "--quiet=2", *what], Path("/"), quietly, user=0)
    if done.returncode != 0:
        raise BuildError(f"apt-get {' '.join(what)} failed with status {done.returncode}:\n{done.stdout}")
