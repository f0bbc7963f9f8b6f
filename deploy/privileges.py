"""Privileges of the parts if root starts the stack: user nobody's, with the capabilities and groups that they need.

If another user starts it, they run as that user. Grafana always runs as the starting user, even root: it uses absolute
paths, and user nobody may have no access to a checkout below a home. The others use paths relative to their working
directory.
"""

import contextlib
import errno
import grp
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

NOBODY = 65534  # Debian's user and group nobody

# include/uapi/linux/capability.h
_NUMBERS = {"CAP_DAC_OVERRIDE": 1, "CAP_DAC_READ_SEARCH": 2, "CAP_SYSLOG": 34, "CAP_PERFMON": 38, "CAP_BPF": 39}

_FOR_ALL = re.compile("PATH|LANG|LANGUAGE|LC_[A-Z]+|TZ|SSL_CERT_(FILE|DIR)|(?i:(https?|all|no)_proxy)")


def setpriv(capabilities: Iterable[str] = (), groups: Iterable[str] = ()) -> list[str]:
    """Options for setpriv, which make root user nobody with only these capabilities and groups.

    Empty if this process isn't root's. Capabilities that root lacks, and groups that don't exist, are left out.
    """
    if os.getuid() != 0:
        return []
    had = _bounding_set()
    # By number: setpriv gets names from libcap-ng, which in Ubuntu 22.04 predates CAP_PERFMON and CAP_BPF.
    kept = "".join(f",+cap_{_NUMBERS[name]}" for name in capabilities if had >> _NUMBERS[name] & 1)
    others = []
    for name in groups:
        with contextlib.suppress(KeyError):
            others.append(str(grp.getgrnam(name).gr_gid))
    member = f"--groups={','.join(others)}" if others else "--clear-groups"
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", member, "--no-new-privs"]
    return [*user, *(f"--{kind}=-all{kept}" for kind in ("bounding-set", "inh-caps", "ambient-caps"))]


def _bounding_set() -> int:
    """A bit for each capability that root can pass on: not all in a container, or on an old kernel."""
    (bounding_set,) = re.findall(r"^CapBnd:\s*(\w+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(bounding_set, 16)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment for programs that run as user nobody, without variables that could be secret.

    Proxies' URLs are included: they may have a password, which programs need.
    """
    return {name: value for name, value in given.items() if _FOR_ALL.fullmatch(name)}


def hand_over(folder: Path) -> None:
    """As root, make a part's data folder, and give it with its content to the part's user.

    Folders of user nobody aren't entered: nobody's processes could put a symbolic link or a hard link of root's file
    there at any moment. So each folder changes its owner after its content, and an interrupted run is completed the
    next time. Files with several hard links keep their owner, as the other names may be anywhere.
    """
    if os.getuid() != 0:
        return
    if not folder.exists():
        folder.mkdir(parents=True)
    if not folder.is_dir():
        return  # the part will report the problem
    # The folder itself may be a symbolic link to another disk, as its parent isn't nobody's.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _hand_over(descriptor)
    finally:
        os.close(descriptor)


def _hand_over(folder: int) -> None:
    if os.fstat(folder).st_uid == NOBODY:
        return
    for name in os.listdir(folder):
        entry = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
        try:
            found = os.fstat(entry)
            if stat.S_ISDIR(found.st_mode):
                inside = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=entry)
                try:
                    _hand_over(inside)
                finally:
                    os.close(inside)
            elif stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                os.chown(f"/proc/self/fd/{entry}", NOBODY, NOBODY)  # fchown refuses O_PATH descriptors
        finally:
            os.close(entry)
    os.fchown(folder, NOBODY, NOBODY)


def append_to(file: Path) -> BinaryIO:
    """Open a log of user nobody for appending, created if missing, in a folder that nobody may write to.

    Raises OSError for a symbolic link, a pipe, or another user's file in its place.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(file, flags | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        descriptor = os.open(file, flags)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != NOBODY:
            os.close(descriptor)
            raise PermissionError(errno.EPERM, "not a file of user nobody", str(file)) from None
    else:
        os.fchown(descriptor, NOBODY, NOBODY)
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "ab")
