"""The cgroups of this machine: where the hierarchy is mounted that a controller counts by, and the folders in it.

That is version 1's hierarchy with the controller where one is mounted, else version 2's: a controller is in one of the
two. By hand: `find /sys/fs/cgroup -type d`.
"""

from __future__ import annotations

import contextlib
import hashlib
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

# Whoever may make cgroups, as root in a container may, can make any number.
MOST_FOLDERS = 20_000
_OF_ONE_TURN = 2  # names that folders have in common which take one turn
_MOST_LABEL = 512  # bytes of a path in a label; whoever may make cgroups can make paths of 4,095

_LEAF_LINKS = 2  # a folder's own name and its "."; each folder in it adds one. (Some file systems always say 1.)

# What of a glob is still to be matched, name by name; None stands for **. A path may be on its way through a glob at
# several places, and through several globs.
_Glob = tuple[Optional[re.Pattern[str]], ...]
_Places = frozenset[_Glob]


class GlobError(Exception):
    """What is no glob over paths of cgroups; one line that holds it and says what is one."""


class Hierarchy(NamedTuple):
    """A hierarchy that is mounted."""

    root: Path  # its mount point
    version: int  # 1 or 2
    above: int  # levels that it begins above what belongs to this process's cgroup namespace


class Folder(NamedTuple):
    """A cgroup's folder."""

    path: str  # below the mount point, such as "/machine.slice/web.scope"; for label()
    inode: int  # since Linux 5.5 the cgroup's id, where a word has 64 bits: another cgroup never has it again
    above: int  # the inode of the folder that it is in
    folder: str  # where it is
    chosen: bool  # by the globs


class _Waiting(NamedTuple):
    """A folder that is still to be looked at."""

    above: str  # the path of the folder that it is in, which those beside it share: many paths may be long
    name: str
    inode: int
    inode_above: int
    wanted: _Places
    unwanted: _Places

    @property
    def chosen(self) -> bool:
        """Whether the globs choose it."""
        return () in self.wanted and () not in self.unwanted

    @property
    def leads_on(self) -> bool:
        """Whether the globs may choose one in it."""
        return any(self.wanted) and (None,) not in self.unwanted


# --- Folders ----------------------------------------------------------------------------------------------------------


class Folders:
    """Walks the folders of a hierarchy, and says once what it had to leave out."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str], *, all_of_them: bool = False) -> None:
        """`include` and `exclude` are globs over paths, which choose; the others are walked too if `all_of_them` are.

        *, ? and [...] stand for characters of one name; ** in place of a name stands for any number of them, none too.
        Raises GlobError.
        """
        self._include = _start(include)
        self._exclude = _start(exclude)
        self._all = all_of_them
        self._problem = ""  # why some cgroups were not looked at, as it was logged last

    def walk(self, root: Path) -> Iterator[Folder]:
        """Yield each folder that is chosen, or all, each before those in it.

        Only folders are read that a glob may choose from, unless all are walked. Those in /a/b take turns with those in
        other such folders: a user who may make cgroups can't have others' left out.
        """
        top = 0
        with contextlib.suppress(OSError):  # which reading it says, too
            top = root.stat().st_ino
        turns = {"": deque([_Waiting("", "", top, 0, self._include, self._exclude)])}
        problem = ""
        for _ in range(MOST_FOLDERS):
            if not turns:
                break
            turn = next(iter(turns))
            queue = turns.pop(turn)
            each = queue.popleft()
            path = f"{each.above}/{each.name}" if each.name else ""
            if each.name and (self._all or each.chosen):
                yield Folder(path, each.inode, each.inode_above, f"{root}{path}", each.chosen)
            below: list[tuple[str, int]] = []
            if self._all or each.leads_on:
                try:
                    below = _below(f"{root}{path}")
                except OSError as error:  # its owner may have closed it, or made it too deep for a path
                    problem = problem or f"{label(str(error.filename))}: {error.strerror}"
            for name, inode in below:
                wanted = _after(each.wanted, name) if each.wanted else each.wanted
                unwanted = _after(each.unwanted, name) if each.unwanted else each.unwanted
                inner = _Waiting(path, name, inode, each.inode, wanted, unwanted)
                if self._all or inner.chosen or inner.leads_on:
                    if path.count("/") < _OF_ONE_TURN:
                        turns[f"{path}/{name}"] = deque([inner])
                    else:
                        queue.append(inner)
            if queue:
                turns[turn] = queue
        if turns:
            problem = f"there are more than {MOST_FOLDERS}" + (
                "" if self._all else " where the globs may choose from: give globs without **"
            )
        if problem and problem != self._problem:
            log.warning("not every cgroup was looked at", extra={"fields": {"why": problem}})
        self._problem = problem


def label(path: str) -> str:
    """Return a path as it is in labels: what isn't UTF-8 is escaped, and the end of a long one is its hash."""
    text = path if path.isascii() else os.fsencode(path).decode(errors="backslashreplace")
    if len(text.encode()) <= _MOST_LABEL:
        return text
    end = f"...{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}"
    return text.encode()[: _MOST_LABEL - len(end)].decode(errors="ignore") + end


def _below(folder: str) -> list[tuple[str, int]]:
    """Return name and inode of each folder in a cgroup's; none where it has gone meanwhile."""
    try:
        # A cgroup without others in it holds dozens of files; asking for its links costs a tenth of listing them.
        if os.stat(folder).st_nlink == _LEAF_LINKS:  # noqa: PTH116  half of Path.stat's cost
            return []
        with os.scandir(folder) as entries:
            return [(entry.name, entry.inode()) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


# --- Globs ------------------------------------------------------------------------------------------------------------


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


# --- Mounts -----------------------------------------------------------------------------------------------------------


def hierarchy(procfs: Path, controller: str) -> Hierarchy:
    """Return the hierarchy that a controller, such as "perf_event", counts by.

    Raises as parse_mounts(), and SourceUnavailable where the mount has only a part of what process 1 is in.
    """
    try:
        found = parse_mounts(read_text(procfs / "self/mountinfo", "surrogateescape"), controller)
    except FileNotFoundError as error:
        raise SourceUnavailable(f"{error.filename} is absent: no cgroup can be found") from None
    with contextlib.suppress(OSError):  # there may be no process 1 to be seen
        for line in read_text(procfs / "1/cgroup", "surrogateescape").split("\n"):
            _, controllers, path = [*line.split(":", 2), "", "", ""][:3]
            mine = not controllers if found.version == 2 else controller in controllers.split(",")
            if mine and path.split("/").count("..") > found.above:
                raise SourceUnavailable(
                    f"{found.root} has only this container's cgroups, as it has a cgroup namespace of its own: give it "
                    "the host's (--cgroupns=host, in compose cgroup: host) and the host's /sys/fs/cgroup"
                )
    return found


def own_names(mounted: Hierarchy, own: str) -> list[str]:
    """Return the names from the mount to the root of this process's cgroup namespace; none where they aren't found.

    `own` is this process's path in the namespace. The kernel doesn't say more: it is looked for.
    """
    names = [name for name in own.split("/") if name]
    pid = str(os.getpid())
    for each in Folders((), (), all_of_them=True).walk(mounted.root):
        if each.path.count("/") == mounted.above + len(names):
            with contextlib.suppress(OSError):
                if pid in (Path(each.folder) / "cgroup.procs").read_text().split():
                    return each.path.split("/")[1 : mounted.above + 1]
    return []


def parse_mounts(mountinfo: str, controller: str) -> Hierarchy:
    """Return where mountinfo (man proc) says that the hierarchy is which this controller counts by.

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
        elif controller in options.rpartition(" ")[2].split(","):
            mounts[mounted] = (1, _depth(root))
    if not mounts:
        raise SourceUnavailable(
            f"no cgroup2 is mounted, nor the {controller} controller of version 1: no cgroup can be counted"
        )
    best = min(mounts, key=mounts.__getitem__)
    version, depth = mounts[best][0], mounts[best][1]
    return Hierarchy(Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), best)), version, max(0, -depth))


def _depth(root: str) -> int:
    """How many levels below the top of the hierarchy, as far as this cgroup namespace shows it, a mount begins.

    /.. is above what belongs to the namespace: with it the host's whole hierarchy may have been mounted.
    """
    return sum(-1 if name == ".." else 1 for name in root.split("/") if name)
