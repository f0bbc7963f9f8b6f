"""The host's files below /proc, /sys and so on: live, noted for a recording, or of one.

What can't be read is None, or an empty list: processes and threads end between being listed and being read, and what
takes rights is absent for those without. Reading is by os.open(), as of a thousand small files at a scrape
open() would cost three times as much; and what is read at each scrape stays open, which halves the rest.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Mapping
from typing import Protocol

# The longest files are a command line, which may have 2 MiB, and net/dev, which has 150 bytes for each interface.
_LARGEST = 8 << 20
_LINE = 1024
_CHUNK = 1 << 16
UNREAD_LOOKS = 16  # until a file that isn't read any more is closed


class Files(Protocol):
    """Files by their paths below a root that stands for a machine: "proc/1/stat", "sys/fs/cgroup/cpu.max"."""

    def line(self, path: str) -> bytes | None:
        """Return what the first read gives of a file whose content is less than 1 KiB."""
        ...

    def line_again(self, path: str) -> bytes | None:
        """Return the same of a file that is read again and again."""
        ...

    def looked(self) -> None:
        """End a look: what isn't read again for some of them won't be."""
        ...

    def content(self, path: str) -> bytes | None:
        """Return the whole file."""
        ...

    def names(self, path: str) -> list[str]:
        """Return what is in a folder, in any order."""
        ...

    def link(self, path: str) -> str:
        """Return where a symbolic link leads; "" where that can't be known."""
        ...


class HostFiles:
    """This machine's."""

    def __init__(self, roots: Mapping[str, str]) -> None:
        """`roots` says where the first folder of a path is: {"proc": "/proc", "sys": "/host/sys"}."""
        self._roots = dict(roots)
        self._open: dict[str, tuple[int, int]] = {}  # by path: a descriptor, and the last look at which it was read
        self._look = 0
        self._most_open = resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 2 // 3

    def line_again(self, path: str) -> bytes | None:
        """See Files. A descriptor is that process's or thread's own: it shows no later one of the same number."""
        descriptor, _ = self._open.get(path, (None, 0))
        if descriptor is not None:
            try:
                text = os.pread(descriptor, _LINE, 0)
            except OSError:  # it has ended
                del self._open[path]
                os.close(descriptor)
            else:
                self._open[path] = (descriptor, self._look)
                return text
        if len(self._open) >= self._most_open:
            return self.line(path)
        try:
            descriptor = os.open(self._path(path), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        self._open[path] = (descriptor, self._look)
        try:
            return os.pread(descriptor, _LINE, 0)
        except OSError:
            return None

    def looked(self) -> None:
        """See Files."""
        self._look += 1
        if self._look % UNREAD_LOOKS == 0:
            last, self._open = self._open, {}
            for path, (descriptor, look) in last.items():
                if look < self._look - UNREAD_LOOKS:
                    os.close(descriptor)
                else:
                    self._open[path] = (descriptor, look)

    def line(self, path: str) -> bytes | None:
        """See Files."""
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

    def content(self, path: str) -> bytes | None:
        """See Files; None for more than 8 MiB, too."""
        try:
            descriptor = os.open(self._path(path), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        chunks: list[bytes] = []
        left = _LARGEST
        try:
            while chunk := os.read(descriptor, _CHUNK):
                chunks.append(chunk)
                left -= len(chunk)
                if left < 0:
                    return None
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return b"".join(chunks)

    def names(self, path: str) -> list[str]:
        """See Files."""
        try:
            return os.listdir(self._path(path))  # noqa: PTH208  half of iterdir's cost
        except OSError:
            return []

    def link(self, path: str) -> str:
        """See Files."""
        try:
            return os.readlink(self._path(path))  # noqa: PTH115  strings all the way
        except OSError:
            return ""

    def _path(self, path: str) -> str:
        root, _, rest = path.partition("/")
        return f"{self._roots[root]}/{rest}"


class NotedFiles:
    """Another's files, with what was read of them noted, so that a recording has just that."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.noted: dict[str, bytes] = {}

    def line(self, path: str) -> bytes | None:
        """See Files."""
        return self._note(path, self._files.line(path))

    def line_again(self, path: str) -> bytes | None:
        """See Files."""
        return self.line(path)

    def looked(self) -> None:
        """See Files."""

    def content(self, path: str) -> bytes | None:
        """See Files."""
        return self._note(path, self._files.content(path))

    def names(self, path: str) -> list[str]:
        """See Files; a folder is there again in the recording if a file in it was read."""
        return self._files.names(path)

    def link(self, path: str) -> str:
        """See Files."""
        target = self._files.link(path)
        self._note(path, os.fsencode(target) or None)
        return target

    def _note(self, path: str, content: bytes | None) -> bytes | None:
        if content is not None:
            self.noted[path] = content
        return content


class RecordedFiles:
    """Those of a reading of a recording; show() sets it."""

    def __init__(self) -> None:
        self._content: Mapping[str, bytes] = {}
        self._names: Mapping[str, list[str]] = {}

    def show(self, content: Mapping[str, bytes]) -> None:
        """Let these be the files, by their paths."""
        self._content = content
        self._names = _folders(content)

    def line(self, path: str) -> bytes | None:
        """See Files."""
        return self._content.get(path)

    def line_again(self, path: str) -> bytes | None:
        """See Files."""
        return self._content.get(path)

    def looked(self) -> None:
        """See Files."""

    def content(self, path: str) -> bytes | None:
        """See Files."""
        return self._content.get(path)

    def names(self, path: str) -> list[str]:
        """See Files."""
        return self._names.get(path, [])

    def link(self, path: str) -> str:
        """See Files."""
        return os.fsdecode(self._content.get(path, b""))


def _folders(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return what is in each folder of these paths."""
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
