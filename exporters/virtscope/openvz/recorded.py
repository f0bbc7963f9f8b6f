"""vestat-exporter's files in a recording: reading them, replacing names by pseudonyms, and decoding.

A reading holds all files by path below procfs; an unreadable file has its errno instead:

    {"vz/vestat": "Version: 2.2 ...", "bc/101/ioacct": "...", "bc/resources": {"errno": "EACCES"}}
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path

from virtscope.openvz.procfs import Files, Unread
from virtscope.toolkit.bounded import read_bytes
from virtscope.toolkit.collect import SourceUnavailable
from virtscope.toolkit.record import StandIns
from virtscope.toolkit.recording import named, text

# The first existing file of each line, like the exporter; * is every container's folder.
FILES = (
    ("vz/version",),
    ("vz/stats",),
    ("vz/vestat",),
    ("vz/veinfo",),
    ("vz/latency",),
    ("vz/vzquota",),
    ("bc/resources", "user_beancounters", "bc/*/resources"),
    ("bc/*/ioacct",),
)

_WORD = re.compile(rb"\S+")
_UID = re.compile(rb"(?m)^[ \t]*(?!Version:)([^\s:]+)(?=:)")
_QUOTA_PATH = re.compile(rb"(?m)^([0-9]+: )(?!-- )(.+)$")
_HEADING = 2  # lines of /proc/vz/vestat above its rows


def read(procfs: Path) -> Files:
    """Return the current files without absent ones.

    Raises SourceUnavailable if there are none.
    """
    files: dict[str, bytes | Unread] = {}
    for alternatives in FILES:
        for pattern in alternatives:
            found = dict(_matching(procfs, pattern))
            files.update(found)
            if found:
                break
    if not files:
        raise SourceUnavailable(f"{procfs} has neither vz nor bc: this is no OpenVZ host; run this on the host itself")
    return files


def _matching(procfs: Path, pattern: str) -> Iterator[tuple[str, bytes | Unread]]:
    folder, star, name = pattern.partition("/*/")
    try:
        paths = [f"{folder}/{each.name}/{name}" for each in (procfs / folder).iterdir()] if star else [pattern]
    except OSError as error:
        if not _is_absence(error):
            yield folder, Unread(_name(error))
        return
    for path in sorted(paths):
        try:
            yield path, read_bytes(procfs / path)
        except OSError as error:
            if not _is_absence(error):
                yield path, Unread(_name(error))


def _is_absence(error: OSError) -> bool:
    return isinstance(error, (FileNotFoundError, NotADirectoryError))


def _name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or errno.EIO, "EIO")


def _file(content: object) -> bytes | Unread:
    return Unread(str(content.get("errno"))) if isinstance(content, dict) else text(content)


files = named(_file)


def anonymised(recorded: Files, stand_ins: StandIns) -> Files:
    """Replace addresses, and ids that aren't just digits (UUIDs), in the files by pseudonyms."""
    return {
        _path(path, stand_ins): content if isinstance(content, Unread) else _content(path, content, stand_ins)
        for path, content in recorded.items()
    }


def _path(path: str, stand_ins: StandIns) -> str:
    folder, *below = path.split("/")
    if folder == "bc" and len(below) > 1:
        below[0] = _word(below[0].encode("utf-8", "surrogateescape"), stand_ins).decode("utf-8", "surrogateescape")
    return "/".join([folder, *below])


def _content(path: str, content: bytes, stand_ins: StandIns) -> bytes:
    if path == "vz/veinfo":  # ids and addresses, and numbers between them
        return _WORD.sub(lambda word: _word(word[0], stand_ins), content)
    if path == "vz/vestat":
        lines = content.split(b"\n")
        rows = [_WORD.sub(lambda word: _word(word[0], stand_ins), row) for row in lines[_HEADING:]]
        return b"\n".join(lines[:_HEADING] + rows)
    if path == "vz/vzquota":
        return _QUOTA_PATH.sub(lambda quota: quota[1] + stand_ins(quota[2]), content)
    if path.endswith(("resources", "user_beancounters")):
        return _UID.sub(lambda uid: uid[0][: uid.start(1) - uid.start()] + _word(uid[1], stand_ins), content)
    return content


def _word(word: bytes, stand_ins: StandIns) -> bytes:
    return word if word.isdigit() else stand_ins(word)
