"""The cgroups of this machine: the mount point of a controller's hierarchy, and its folders.

If version 1 has the controller mounted, its hierarchy is used, otherwise version 2's. By hand: `find /sys/fs/cgroup
-type d`.
"""

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

# Root in a container can create any number of cgroups.
MAX_FOLDERS = 20_000
_OF_ONE_TURN = 2  # leading names of a path; folders that share them share one turn
_MAX_LABEL = 512  # bytes of a path in a label; users may create paths of 4,095

# Links of an empty folder: its name and its "."; each subfolder adds one. (Some file systems always report 1.)
_LEAF_LINKS = 2

# The unmatched rest of a glob, name by name; None is **. A path may match several globs so far, each at several places.
_Glob = tuple[Optional[re.Pattern[str]], ...]
_Places = frozenset[_Glob]


class GlobError(Exception):
    """An invalid glob; the message is one line with an example."""


class Hierarchy(NamedTuple):
    """A mounted hierarchy."""

    root: Path  # its mount point
    version: int  # 1 or 2
    above: int  # levels between its root and that of this process's cgroup namespace


class Folder(NamedTuple):
    """A cgroup's folder."""

    path: str  # below the mount point, such as "/machine.slice/web.scope"; for label()
    inode: int  # the cgroup's id since Linux 5.5 on 64 bits, never reused
    above: int  # the parent's inode
    folder: str  # where it is
    chosen: bool  # by the globs


class _Waiting(NamedTuple):
    """A folder to be walked."""

    above: str  # the parent's path, shared by siblings to save memory
    name: str
    inode: int
    inode_above: int
    wanted: _Places
    unwanted: _Places

    @property
    def chosen(self) -> bool:
        """Whether the globs choose it."""
        return _match(self.wanted) and not _match(self.unwanted)

    @property
    def leads_on(self) -> bool:
        """Whether the globs may choose one in it."""
        return any(self.wanted) and not any(place and not any(place) for place in self.unwanted)


# --- Folders ----------------------------------------------------------------------------------------------------------


class Folders:
    """Walks the folders of a hierarchy; logs once why some were skipped."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str], *, all_of_them: bool = False) -> None:
        """`include` and `exclude` are globs over paths; with `all_of_them`, folders that don't match are walked, too.

        *, ? and [...] match characters within a name; ** matches any number of names, also none. Raises GlobError.
        """
        self._include = _start(include)
        self._exclude = _start(exclude)
        self._all = all_of_them
        self._problem = ""  # the last logged reason for skipped cgroups

    def walk(self, root: Path) -> Iterator[Folder]:
        """Yield the chosen folders, or all, parents first.

        Reads only folders in which a glob may match, unless all are walked. Folders below /a/b alternate with those
        below other such paths, so a user who creates many cgroups can't displace others'.
        """
        top = 0
        with contextlib.suppress(OSError):  # which reading it says, too
            top = root.stat().st_ino
        turns = {"": deque([_Waiting("", "", top, 0, self._include, self._exclude)])}
        problem = ""
        for _ in range(MAX_FOLDERS):
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
                except OSError as error:  # its owner may have denied access, or nested it too deep for a path
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
            remedy = "" if self._all else " where the globs may choose from: give globs without **"
            problem = f"there are more than {MAX_FOLDERS}{remedy}"
        if problem and problem != self._problem:
            log.warning("some cgroups were skipped", extra={"fields": {"why": problem}})
        self._problem = problem


def label(path: str) -> str:
    """Return a path as a label's value: escaped if not UTF-8; the end of a long path is replaced by a hash."""
    text = path if path.isascii() else os.fsencode(path).decode(errors="backslashreplace")
    if len(text.encode()) <= _MAX_LABEL:
        return text
    end = f"...{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}"
    return text.encode()[: _MAX_LABEL - len(end)].decode(errors="ignore") + end


def _below(folder: str) -> list[tuple[str, int]]:
    """Return name and inode of each subfolder; none if the folder has gone."""
    try:
        # A leaf cgroup holds dozens of files; reading its link count costs a tenth of listing them.
        if os.stat(folder).st_nlink == _LEAF_LINKS:  # noqa: PTH116  half of Path.stat's cost
            return []
        with os.scandir(folder) as entries:
            return [(entry.name, entry.inode()) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


# --- Globs ------------------------------------------------------------------------------------------------------------


def _start(globs: Sequence[str]) -> _Places:
    """Return the globs as patterns; raises GlobError for one without a name."""
    places = set()
    for glob in globs:
        names = [name for name in glob.split("/") if name]
        if not names:
            raise GlobError(f"{glob!r} chooses no cgroup: give a path such as /machine.slice/*")
        places.add(tuple(None if name == "**" else re.compile(translate(name)) for name in names))
    return frozenset(places)


def _after(places: _Places, name: str) -> _Places:
    """Return the patterns' rest after matching a name."""
    rests = set()
    left = list(filter(None, places))
    for place in left:
        if place[0] is None:
            rests.add(place)
            left += filter(None, [place[1:]])  # as ** may match nothing
        elif place[0].fullmatch(name):
            rests.add(place[1:])
    return frozenset(rests)


def _match(places: _Places) -> bool:
    """Whether nothing is left of a pattern; ** may match nothing."""
    return not all(map(any, places))


# --- Mounts -----------------------------------------------------------------------------------------------------------


def hierarchy(procfs: Path, controller: str) -> Hierarchy:
    """Return the hierarchy of a controller, such as "perf_event".

    Raises like parse_mounts(), and SourceUnavailable if the mount shows only a part of process 1's hierarchy.
    """
    try:
        found = parse_mounts(read_text(procfs / "self/mountinfo", "surrogateescape"), controller)
    except FileNotFoundError as error:
        raise SourceUnavailable(f"{error.filename} is absent: no cgroup can be found") from None
    with contextlib.suppress(OSError):  # process 1 may be hidden
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
    """Return the names from the mount to the root of this process's cgroup namespace; none if not found.

    `own` is this process's path in the namespace. The kernel doesn't report the rest, so this searches for it.
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
    """Return this controller's hierarchy by mountinfo (man proc).

    Of several mounts, takes the one nearest to the root: a container may have mounted its own part, too. Raises
    SourceUnavailable where there is none, SourceMalformed for a malformed line about cgroups.
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
    return Hierarchy(Path(unescaped(best)), version, max(0, -depth))


def unescaped(field: str) -> str:
    """Return a field of mountinfo as it is: the kernel writes spaces as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field)


def _depth(root: str) -> int:
    """Return a mount's depth below the root of the hierarchy, relative to this cgroup namespace.

    /.. is above the namespace's root: the host's whole hierarchy may be mounted.
    """
    return sum(-1 if name == ".." else 1 for name in root.split("/") if name)
