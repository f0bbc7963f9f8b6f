"""Which Xen runs here, from /sys/hypervisor, the libraries that speak its interface, and where its programs lie.

    /sys/hypervisor/type            xen
    /sys/hypervisor/version/major   4
    /sys/hypervisor/version/minor   17
    /sys/hypervisor/version/extra   .7

The files are Linux's (Documentation/ABI/stable/sysfs-hypervisor-xen). Xen's own libraries carry the release in their
names, and several can lie side by side after an upgrade; only the running release's speak the running hypervisor's
interface. So it is asked for by name, where the loader looks: LD_LIBRARY_PATH, ld.so.conf, and the folders it knows.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path

from virtscope.toolkit.collect import SourceUnavailable

_FOLDERS = ("/usr/sbin", "/usr/lib/xen-*/bin", "/usr/lib64/xen*/bin", "/usr/local/sbin")


def require_xen(sysfs: Path) -> None:
    """Raise SourceUnavailable where no Xen runs."""
    file = sysfs / "hypervisor/type"
    kind = _first_line(file)
    if kind != "xen":
        found = f"it says {kind!r}" if kind else "it is absent"
        raise SourceUnavailable(f"no Xen here: {file} should say 'xen', but {found}; run this in Dom0")


def running_release(sysfs: Path) -> str:
    """Return the running hypervisor's release, such as 4.17; "" where it isn't known."""
    folder = sysfs / "hypervisor/version"
    major, minor = _first_line(folder / "major"), _first_line(folder / "minor")
    return f"{major}.{minor}" if major and minor else ""


def running_version(sysfs: Path) -> str | None:
    """Return the running hypervisor's version, such as 4.17.7, as libxenstat has it; None where it isn't known."""
    return version(*(_first_line(sysfs / "hypervisor/version" / part) for part in ("major", "minor", "extra")))


def version(major: str, minor: str, extra: str) -> str | None:
    """Return the version that the kernel's files give in three parts; None where they don't."""
    return f"{major}.{minor}{extra}" if major and minor else None


def load(path: str) -> ctypes.CDLL:
    """Return a library, by name or path; raises SourceUnavailable with the loader's words."""
    try:
        return ctypes.CDLL(path, use_errno=True)
    except OSError as error:
        raise SourceUnavailable(f"{path} can't be used: {error}") from error


def find_program(name: str) -> str | None:
    """Return the path of one of Xen's tools, in PATH or where they lie outside a user's PATH; None where it isn't."""
    folders = [str(folder) for pattern in _FOLDERS for folder in sorted(Path("/").glob(pattern[1:]), reverse=True)]
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *folders]))


def _first_line(path: Path) -> str:
    try:
        return path.read_text().partition("\n")[0].strip()
    except OSError:
        return ""
