"""The disk of an emulated node."""

from pathlib import Path

from tests.distributions.chroots import DEBIAN_13
from tests.kernels.machine import KERNEL
from tests.support import disk

# apparmor: containerd confines containers by its profile then.
PACKAGES = ("apparmor", "containerd", "qemu-system-x86", "runc")


def built() -> disk.Image:
    """Build it the first time. Raises BuildError and chroots.MissingError."""
    return disk.debian("kubernetes", Path(__file__), DEBIAN_13, KERNEL, *PACKAGES)
