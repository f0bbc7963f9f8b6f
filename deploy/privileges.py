"""Whose rights the parts have where root starts the stack: nobody's, with the capabilities and groups it needs.

Where somebody else starts it, they have that user's. Grafana has those of whoever starts it, root's too: it goes to its
folders by their whole paths, and a checkout below somebody's home is out of nobody's reach. The others go from where
they are started.
"""

from __future__ import annotations

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
    """Options for setpriv, by which root becomes nobody with these capabilities and groups alone.

    None where we aren't root. A capability that root hasn't, and a group that this system hasn't, are left out.
    """
    if os.getuid() != 0:
        return []
    had = _bounding_set()
    # By number: setpriv has names from libcap-ng, which in Ubuntu 22.04 is older than CAP_PERFMON and CAP_BPF.
    kept = "".join(f",+cap_{_NUMBERS[name]}" for name in capabilities if had >> _NUMBERS[name] & 1)
    others = []
    for name in groups:
        with contextlib.suppress(KeyError):
            others.append(str(grp.getgrnam(name).gr_gid))
    member = f"--groups={','.join(others)}" if others else "--clear-groups"
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", member, "--no-new-privs"]
    return [*user, *(f"--{kind}=-all{kept}" for kind in ("bounding-set", "inh-caps", "ambient-caps"))]


def _bounding_set() -> int:
    """A bit for each capability that root has to give: in a container, or on an old kernel, not all."""
    (bounding_set,) = re.findall(r"^CapBnd:\s*(\w+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(bounding_set, 16)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The part of our environment that programs run as nobody get: nothing that could be a secret.

    Proxies may hold a password, but a program can't use them without it.
    """
    return {name: value for name, value in given.items() if _FOR_ALL.fullmatch(name)}


def hand_over(folder: Path) -> None:
    """As root, make the folder in which a part keeps its data, and give it with all in it to the part's user.

    What is nobody's already is not entered: nobody's processes may put a link, or a file of root's under another name,
    in there at any moment. So each folder becomes nobody's after all that is in it, and whatever is interrupted is
    completed the next time. Files with several names keep their owner, as the other names may be anywhere.
    """
    if os.getuid() != 0:
        return
    if not folder.exists():
        folder.mkdir(parents=True)
    if not folder.is_dir():
        return  # the part will say what is wrong with it
    # The folder itself may be a link, to another disk: it is in one that isn't nobody's.
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
                os.chown(f"/proc/self/fd/{entry}", NOBODY, NOBODY)  # fchown refuses what O_PATH has opened
        finally:
            os.close(entry)
    os.fchown(folder, NOBODY, NOBODY)


def append_to(file: Path) -> BinaryIO:
    """Open a log for appending that is nobody's, in a folder that nobody may write to; it is made if it isn't there.

    Raises OSError for what is in its place that nobody couldn't write to: a link, a pipe, another user's file.
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
