"""Block devices whose requests become requests of another disk here, which counts the same waits again."""

from __future__ import annotations

import re
from pathlib import Path

from virtscope.toolkit.bounded import read_text
from virtscope.toolkit.hierarchy import unescaped

# Root of what systemd mounts over folders that a service may not see (ProtectHome=).
_HIDING = "/systemd/inaccessible/"
# File systems that are on no disk of this machine: in memory, of a program, or of another machine.
_WITHOUT_DISK = re.compile(r"tmpfs|ramfs|fuse(\..*)?|nfs4?|cifs|smb3|9p|virtiofs|ceph")


def is_above_a_disk(device: Path, mountinfo: str) -> bool:
    """Whether it is: device mapper's are, and loop devices, unless their file is on a file system without a disk here.

    device: its folder in /sys. mountinfo: text of /proc/self/mountinfo (man proc_pid_mountinfo).
    """
    if device.name.startswith("dm-"):
        return True
    try:
        file = read_text(device / "loop/backing_file", "surrogateescape").rstrip("\n")
    except OSError:  # no loop device; or one that is detached, and what it served before was perhaps above a disk
        return device.name.startswith("loop")
    # ID parent major:minor root mount-point options optional... - type source super-options
    mounts = re.findall(rf"^(?:\S+ ){{3}}(?!{_HIDING})\S+ (\S+) .* - (\S+) ", mountinfo, re.MULTILINE)
    of_file = [
        (len(point), number, kind)
        for number, (point, kind) in enumerate(mounts)  # a later one hides an earlier one
        if file.startswith(f"{unescaped(point).rstrip('/')}/")
    ]
    return not of_file or not _WITHOUT_DISK.fullmatch(max(of_file)[2])
