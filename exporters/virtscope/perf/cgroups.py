"""The cgroups to be counted, found as they come and go, in the hierarchy that perf_event counts by.

That is the version 1 hierarchy with the controller perf_event where one is mounted, else version 2's, where counting
needs no controller to be turned on: Documentation/admin-guide/cgroup-v2.rst, "perf_event".

By hand: `find /sys/fs/cgroup -type d` for the paths, and for one of them `perf stat -a -e cycles -G machine.slice/web`.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from fnmatch import translate
from pathlib import Path
from typing import NamedTuple, Optional

from virtscope.toolkit.bounded import read_text
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable

log = logging.getLogger(__name__)

# Whoever may make cgroups, as root in a container may, can make any number. The deepest are left out.
MOST_FOLDERS = 20_000

_LEAF_LINKS = 2  # a folder's own name and its "."; each folder in it adds one. (Some file systems always say 1.)

# What of a glob is still to be matched, name by name; None stands for **. A path may be on its way through a glob at
# several places, and through several globs.
_Glob = tuple[Optional[re.Pattern[str]], ...]
_Places = frozenset[_Glob]


class GlobError(Exception):
    """What is no glob over paths of cgroups; one line that holds it and says what is one."""


class Cgroup(NamedTuple):
    """A cgroup in its lifetime: another one made later under the same path has another inode.

    The inode stays its own for as long as a counter of the cgroup is open, whatever happens to its folder.
    """

    path: str  # below the mount point, such as "/machine.slice/web.scope"; what isn't UTF-8 is escaped
    inode: int


class Cgroups:
    """Finds the chosen cgroups, and opens their folders: the kernel is given a cgroup as a descriptor of its folder."""

    def __init__(self, procfs: Path, include: Sequence[str], exclude: Sequence[str]) -> None:
        """`include` and `exclude` are globs over paths.

        *, ? and [...] stand for characters of one name; ** in place of a name stands for any number of them, none too.
        Raises GlobError.
        """
        self._procfs = procfs
        self._include = _start(include)
        self._exclude = _start(exclude)
        self._folders: dict[Cgroup, str] = {}  # of the last find()
        self._problem = ""  # why some cgroups were not looked at, as it was logged last

    def find(self) -> list[Cgroup]:
        """Return the chosen cgroups that are there now, in the order of their paths.

        Only folders are read that a glob may choose from. Raises SourceUnavailable where no hierarchy is mounted that
        perf_event could count by.
        """
        self._folders = dict(self._chosen(hierarchy(self._procfs))) if self._include else {}
        # A name may be what another one, which isn't UTF-8, is escaped to. Their series would be the same.
        first: dict[str, Cgroup] = {}
        for cgroup in sorted(self._folders):
            first.setdefault(cgroup.path, cgroup)
        return list(first.values())

    def open(self, cgroup: Cgroup) -> int:
        """Return a descriptor, for the caller to close, of the folder of a cgroup that the last find() returned.

        Raises FileNotFoundError where it has gone meanwhile, also if another one has its name now.
        """
        folder = self._folders[cgroup]
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if os.fstat(descriptor).st_ino != cgroup.inode:
            os.close(descriptor)
            raise FileNotFoundError(errno.ENOENT, "another cgroup has its name", folder)
        return descriptor

    def _chosen(self, root: Path) -> Iterator[tuple[Cgroup, str]]:
        """Yield each chosen cgroup with its folder, those of a level before those below them."""
        waiting = deque([("", self._include, self._exclude)])
        problem = ""
        for _ in range(MOST_FOLDERS):
            if not waiting:
                break
            path, include, exclude = waiting.popleft()
            try:
                below = _below(f"{root}{path}")
            except OSError as error:  # its owner may have closed it, or made it too deep for a path
                problem = problem or f"{error.filename}: {error.strerror}"
                continue
            for name, inode in below:
                wanted, unwanted = _after(include, name), _after(exclude, name)
                cgroup = f"{path}/{name}"
                if () in wanted and () not in unwanted:
                    yield Cgroup(os.fsencode(cgroup).decode(errors="backslashreplace"), inode), f"{root}{cgroup}"
                if any(wanted) and (None,) not in unwanted:  # below it may be one that is chosen
                    waiting.append((cgroup, wanted, unwanted))
        if waiting:
            problem = f"there are more than {MOST_FOLDERS} where the globs may choose from: give globs without **"
        if problem and problem != self._problem:
            log.warning("not every cgroup was looked at", extra={"fields": {"why": problem}})
        self._problem = problem


def hierarchy(procfs: Path) -> Path:
    """Return where the hierarchy is mounted that perf_event counts by; raises as parse_mounts()."""
    try:
        return parse_mounts(read_text(procfs / "self/mountinfo", "surrogateescape"))
    except FileNotFoundError as error:
        raise SourceUnavailable(f"{error.filename} is absent: no cgroup can be found") from None


def parse_mounts(mountinfo: str) -> Path:
    """Return where mountinfo (man proc) says that the hierarchy is which perf_event counts by.

    Of several mounts of it that is taken which shows the most: a container may have its own part mounted as well.
    Raises SourceUnavailable where there is none, SourceMalformed for a malformed line about cgroups.
    """
    mounts: dict[str, tuple[int, int]] = {}  # version and depth by mount point: a later one hides an earlier one
    for line in mountinfo.split("\n"):  # only these newlines are not escaped
        # ID parent major:minor root mount-point options optional... - type source super-options
        before, _, after = line.partition(" - cgroup")
        if not after:
            continue
        words = before.split(" ")
        if len(words) < 6:
            raise SourceMalformed(f"/proc/self/mountinfo has a line {line[:80]!r}")
        root, mounted = words[3:5]
        version_2, _, options = after.partition(" ")
        if version_2 == "2":
            mounts[mounted] = (2, _depth(root))
        elif "perf_event" in options.rpartition(" ")[2].split(","):
            mounts[mounted] = (1, _depth(root))
    if not mounts:
        raise SourceUnavailable(
            "no cgroup2 is mounted, nor the perf_event controller of version 1: no cgroup can be counted"
        )
    best = min(mounts, key=mounts.__getitem__)
    return Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), best))


def _depth(root: str) -> int:
    """How many levels below the top of the hierarchy, as far as this cgroup namespace shows it, a mount begins.

    /.. is above what belongs to the namespace: with it the host's whole hierarchy may have been mounted.
    """
    return sum(-1 if name == ".." else 1 for name in root.split("/") if name)


def _start(globs: Sequence[str]) -> _Places:
    """Begin with a path at the globs; raises GlobError for one without a name."""
    places = set()
    for glob in globs:
        names = [name for name in glob.split("/") if name]
        if not names:
            raise GlobError(f"{glob!r} chooses no cgroup: give a path such as /machine.slice/*")
        places.add(tuple(None if name == "**" else re.compile(translate(name)) for name in names))
    return _with_nothing_for_stars(places)


def _after(places: _Places, name: str) -> _Places:
    """Go on by a name."""
    gone = set()
    for place in places:
        if not place:
            continue
        first = place[0]
        if first is None:
            gone.add(place)
        elif first.fullmatch(name):
            gone.add(place[1:])
    return _with_nothing_for_stars(gone)


def _with_nothing_for_stars(places: set[_Glob]) -> _Places:
    """Add the places at which a path is too where a ** stands for no name."""
    waiting = list(places)
    while waiting:
        place = waiting.pop()
        if place and place[0] is None and place[1:] not in places:
            places.add(place[1:])
            waiting.append(place[1:])
    return frozenset(places)


def _below(folder: str) -> list[tuple[str, int]]:
    """Return name and inode of each folder in a cgroup's; none where it has gone meanwhile."""
    try:
        # A cgroup without others in it holds dozens of files; asking for its links costs a tenth of listing them.
        if Path(folder).stat().st_nlink == _LEAF_LINKS:
            return []
        with os.scandir(folder) as entries:
            return [(entry.name, entry.inode()) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
