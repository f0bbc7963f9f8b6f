"""The disk of the Proxmox host."""

from pathlib import Path

from tests.distributions.chroots import DEBIAN_13
from tests.kernels.machine import KERNEL
from tests.support import disk

PACKAGES = ("busybox-static", "fdisk", "lvm2", "lxc", "qemu-system-x86", "qemu-utils", "thin-provisioning-tools")


def built() -> disk.Image:
    """Build it the first time. Raises BuildError and chroots.MissingError."""
    return disk.debian("proxmox", Path(__file__), DEBIAN_13, KERNEL, *PACKAGES)
