"""Finds the running Xen release (/sys/hypervisor), its libraries and its programs.

    /sys/hypervisor/type            xen
    /sys/hypervisor/version/major   4
    /sys/hypervisor/version/minor   17
    /sys/hypervisor/version/extra   .7

The files are Linux's (Documentation/ABI/stable/sysfs-hypervisor-xen). Xen's libraries have the release in their names,
and several releases can be installed after an upgrade; only the running release's library works with the running
hypervisor. So it is loaded by its full name from the loader's folders: LD_LIBRARY_PATH, ld.so.conf, the default ones.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path

from virtscope.toolkit.bounded import first_line
from virtscope.toolkit.collect import SourceUnavailable

_FOLDERS = ("/usr/sbin", "/usr/lib/xen-*/bin", "/usr/lib64/xen*/bin", "/usr/local/sbin")


def require_xen(sysfs: Path) -> None:
    """Raise SourceUnavailable if no Xen runs."""
    file = sysfs / "hypervisor/type"
    kind = first_line(file)
    if kind != "xen":
        found = f"it says {kind!r}" if kind else "it is absent"
        raise SourceUnavailable(f"no Xen here: {file} should say 'xen', but {found}; run this in Dom0")


def running_release(sysfs: Path) -> str:
    """Return the running hypervisor's release, such as 4.17; "" if unknown."""
    folder = sysfs / "hypervisor/version"
    major, minor = first_line(folder / "major"), first_line(folder / "minor")
    return f"{major}.{minor}" if major and minor else ""


def running_version(sysfs: Path) -> str | None:
    """Return the running hypervisor's version, such as 4.17.7, in libxenstat's form; None if unknown."""
    return version(*(first_line(sysfs / "hypervisor/version" / part) for part in ("major", "minor", "extra")))


def version(major: str, minor: str, extra: str) -> str | None:
    """Join the contents of the kernel's three version files; None if major or minor is missing."""
    return f"{major}.{minor}{extra}" if major and minor else None


def load(path: str) -> ctypes.CDLL:
    """Load a library by name or path; raises SourceUnavailable with the loader's message."""
    try:
        return ctypes.CDLL(path, use_errno=True)
    except OSError as error:
        raise SourceUnavailable(f"{path} can't be used: {error}") from error


def find_program(name: str) -> str | None:
    """Return the path of a Xen tool, in PATH or in folders outside a user's PATH; None if missing."""
    folders = [str(folder) for pattern in _FOLDERS for folder in sorted(Path("/").glob(pattern[1:]), reverse=True)]
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *folders]))
