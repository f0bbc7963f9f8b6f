"""Whose rights the parts have where root starts the stack: nobody's, with the capabilities and groups it needs.

Where somebody else starts it, they have that user's. Grafana has those of whoever starts it, root's too: it goes to its
folders by their whole paths, and a checkout below somebody's home is out of nobody's reach. The others go from where
they are started.
"""

from __future__ import annotations

import contextlib
import grp
import os
import re
from collections.abc import Iterable
from pathlib import Path

NOBODY = 65534  # Debian's user and group nobody

# include/uapi/linux/capability.h
_NUMBERS = {"CAP_DAC_OVERRIDE": 1, "CAP_DAC_READ_SEARCH": 2, "CAP_SYSLOG": 34, "CAP_PERFMON": 38}


def setpriv(capabilities: Iterable[str] = (), groups: Iterable[str] = ()) -> list[str]:
    """Options for setpriv, by which root becomes nobody with these capabilities and groups alone.

    None where we aren't root. A capability that root hasn't, and a group that this system hasn't, are left out.
    """
    if os.getuid() != 0:
        return []
    had = _bounding_set()
    kept = "".join(f",+{name.removeprefix('CAP_').lower()}" for name in capabilities if had >> _NUMBERS[name] & 1)
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


def hand_over(folder: Path) -> None:
    """As root, make the folder in which a part keeps its data, and give it with all in it to who the part will be."""
    if os.getuid() != 0:
        return
    if not folder.exists():
        folder.mkdir(parents=True)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
