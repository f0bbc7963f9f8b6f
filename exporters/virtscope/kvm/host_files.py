"""The host's files below /proc, /sys and so on: live, live and noted for a recording, or recorded.

Unreadable files are None, or an empty list: processes and threads end between listing and reading, and privileges may
be missing. os.open() costs a third of open() for the thousand small files of a scrape. Files of every scrape stay open,
which halves the rest.
"""

from __future__ import annotations

import os
import resource
import stat
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Callable, Union

LARGEST = 8 << 20  # the longest is net/dev, 150 bytes per interface
_BEGINNING = 128 << 10  # of a command line, which may have 2 MiB; libvirt's has 50 KiB with 100 disks
_PATIENCE = 0.5  # seconds per scrape for blocking files
_MIN_PATIENCE = 0.02  # per file
_MAX_BLOCKED = 32  # blocking files; each holds a thread
_LINE = 1024
_CHUNK = 1 << 16
UNREAD_LOOKS = 16  # until an unused file is closed


class Blocked(Exception):
    """A read of this file is blocking."""


class HostFiles:
    """This machine's files by their paths below roots: "proc/1/stat", "sys/fs/cgroup/cpu.max"."""

    def __init__(self, roots: Mapping[str, str]) -> None:
        """`roots` maps the first folder of a path: {"proc": "/proc", "sys": "/host/sys"}."""
        self._roots = dict(roots)
        self._open: dict[str, tuple[int, int]] = {}  # by path: descriptor, and its last scrape
        self._look = 0
        self._max_open = resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 2 // 3
        self._patience = _PATIENCE
        self._reading: dict[str, threading.Thread] = {}  # files that blocked at the last attempt

    def line_again(self, path: str) -> bytes | None:
        """Like line(), for a file of every scrape, which is kept open.

        A descriptor belongs to its process or thread, and never shows a later one with the same id.
        """
        descriptor, _ = self._open.get(path, (None, 0))
        try:
            if descriptor is None:
                if len(self._open) >= self._max_open:
                    return self.line(path)
                descriptor = os.open(self._path(path), os.O_RDONLY | os.O_CLOEXEC)
            self._open[path] = (descriptor, self._look)
            return os.pread(descriptor, _LINE, 0)
        except OSError:  # it has ended
            if descriptor is not None:
                del self._open[path]
                os.close(descriptor)
                return self.line(path)
            return None

    def looked(self) -> None:
        """End a scrape; closes files unused for some scrapes."""
        self._look += 1
        self._patience = _PATIENCE
        if self._look % UNREAD_LOOKS == 0:
            last, self._open = self._open, {}
            for path, (descriptor, look) in last.items():
                if look < self._look - UNREAD_LOOKS:
                    os.close(descriptor)
                else:
                    self._open[path] = (descriptor, look)

    def line(self, path: str) -> bytes | None:
        """Return the content of a file of less than 1 KiB, by one read."""
        try:
            descriptor = os.open(self._path(path), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return os.read(descriptor, _LINE)
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def content(self, path: str, most: int = LARGEST) -> bytes | None:
        """Return the whole file; None if it is larger than this."""
        found = _read(self._path(path), most + 1)
        return found if found is not None and len(found) <= most else None

    def beginning(self, path: str) -> bytes | None:
        """Return the first 128 KiB of a file whose read may block; raises Blocked.

        Reading a command line waits for threads that change the process's memory map.

        That may hang, for example on a dead NFS server, so a thread reads it and is abandoned if it hangs. Devices
        aren't opened, because opening may have effects, and below PID/root the process controls the files.
        """
        before = self._reading.get(path)
        if before and before.is_alive():
            raise Blocked
        self._reading = {each: reading for each, reading in self._reading.items() if reading.is_alive()}
        if len(self._reading) >= _MAX_BLOCKED:
            raise Blocked
        content: list[bytes | None] = []
        reading = threading.Thread(
            target=lambda: content.append(_beginning(self._path(path), only_regular="/root/" in path)),
            name=f"read {path}",
            daemon=True,
        )
        began = time.monotonic()
        reading.start()
        reading.join(max(self._patience, _MIN_PATIENCE))
        if reading.is_alive():
            self._patience -= time.monotonic() - began
            self._reading[path] = reading
            raise Blocked
        return content[0] if content else None

    def namespace(self, path: str) -> int:
        """Return an identifier of the network namespace of a file below net/; 0 if unknown.

        The inodes of /proc/PID/net differ by namespace and, unlike PID/ns/net, are readable by any user.
        """
        try:
            return os.stat(self._path(path)).st_ino  # noqa: PTH116  as above
        except OSError:
            return 0

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, in any order."""
        try:
            return os.listdir(self._path(path))  # noqa: PTH208  half of iterdir's cost
        except OSError:
            return []

    def link(self, path: str) -> str:
        """Return a symbolic link's target; "" if unknown."""
        try:
            return os.readlink(self._path(path))  # noqa: PTH115  strings all the way
        except OSError:
            return ""

    def _path(self, path: str) -> str:
        root, _, rest = path.partition("/")
        return f"{self._roots[root]}/{rest}"


def _beginning(path: str, *, only_regular: bool) -> bytes | None:
    if not only_regular:
        return _read(path, _BEGINNING)
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read(f"/proc/self/fd/{handle}", _BEGINNING) if stat.S_ISREG(os.fstat(handle).st_mode) else None
    finally:
        os.close(handle)


def _read(path: str, most: int) -> bytes | None:
    """Return at most this many bytes of a file; None if it can't be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    chunks: list[bytes] = []
    try:
        while most > 0 and (chunk := os.read(descriptor, min(_CHUNK, most))):
            chunks.append(chunk)
            most -= len(chunk)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return b"".join(chunks)


class RecordedFiles:
    """The files of a recorded reading, with HostFiles' methods; show() sets it."""

    def __init__(self) -> None:
        self._content: Mapping[str, bytes] = {}
        self._names: Mapping[str, list[str]] = {}

    def show(self, content: Mapping[str, bytes]) -> None:
        """Set the files, by path."""
        self._content = content
        self._names = _folders(content)

    def looked(self) -> None:
        pass

    def line(self, path: str) -> bytes | None:
        return self._content.get(path)

    line_again = line

    def content(self, path: str, most: int = LARGEST) -> bytes | None:
        found = self._content.get(path)
        return found if found is None or len(found) <= most else None

    def beginning(self, path: str) -> bytes | None:
        found = self._content.get(path)
        return found if found is None else found[:_BEGINNING]

    def namespace(self, path: str) -> int:
        """Only namespaces other than the host's are recorded."""
        return hash(path) if path in self._content else 0

    def names(self, path: str) -> list[str]:
        return self._names.get(path, [])

    def link(self, path: str) -> str:
        return os.fsdecode(self._content.get(path, b""))


class NotedFiles:
    """Wraps other files and notes those that were read, for a recording.

    The recording has the folders in which a file was read.
    """

    def __init__(self, files: HostFiles | RecordedFiles) -> None:
        self.noted: dict[str, bytes] = {}
        self.looked, self.namespace, self.names = files.looked, files.namespace, files.names
        self.line = self.line_again = self._noting(files.line)
        self.beginning, self.content = self._noting(files.beginning), self._noting(files.content)
        self._link = self._noting(lambda path: os.fsencode(files.link(path)) or None)

    def link(self, path: str) -> str:
        return os.fsdecode(self._link(path) or b"")

    def _noting(self, read: Callable[..., bytes | None]) -> Callable[..., bytes | None]:
        def noted(path: str, *most: int) -> bytes | None:
            content = read(path, *most)
            if content is not None:
                self.noted[path] = content
            return content

        return noted


# Unreadable files are None, or an empty list.
Files = Union[HostFiles, NotedFiles, RecordedFiles]


def _folders(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the names in each folder of these paths."""
    found: dict[str, dict[str, None]] = {}
    for path in paths:
        below = path
        while below:
            folder, _, name = below.rpartition("/")
            if name in found.setdefault(folder, {}):
                break
            found[folder][name] = None
            below = folder
    return {folder: list(names) for folder, names in found.items()}
