"""A host's files as host.sh prints them, with `grep "" FILE...`: one process for all.

Each line has its file's name before it; why a file can't be read is on standard error.

    vz/version:042stab120.6
    bc/101/ioacct:         read                                 104857600
    grep: vz/latency: No such file or directory
"""

from __future__ import annotations

import errno
import os
import re
from itertools import groupby

from virtscope.openvz.procfs import Files, Unread
from virtscope.toolkit.bounded import Finished
from virtscope.toolkit.collect import SourceError, SourceMalformed

_LINE = re.compile(rb"(?m)^([^:\n]+):(.*\n?)")
_UNREAD = re.compile(r"grep: ([^:]+): (.+)")
_READ = {0, 2}  # grep's status, the second where some files can't be read; with another it has not come to the end
_NAMES = {os.strerror(number): name for number, name in errno.errorcode.items()}


def files(answer: Finished) -> Files:
    """Return what each file holds, or why it can't be read; those that are absent are left out.

    A last line without a line break has one here: grep adds it. Raises SourceMalformed where this isn't grep's output,
    SourceError where there is none.
    """
    if answer.status not in _READ:
        raise SourceError(f"the host's files can't be read: grep {answer.problem()}")
    found: dict[str, bytes | Unread] = {}
    for complaint in answer.complaints.decode("utf-8", "backslashreplace").splitlines():
        unread = _UNREAD.fullmatch(complaint)
        if unread and (name := _NAMES.get(unread[2], "EIO")) != "ENOENT":
            found[unread[1]] = Unread(name)
    lines = _LINE.findall(answer.output)
    if sum(len(path) + len(line) + 1 for path, line in lines) != len(answer.output):
        raise SourceMalformed(f"the host's files can't be distinguished in {answer.output[:200]!r}")
    for path, of_file in groupby(lines, lambda line: line[0]):
        found[path.decode("utf-8", "backslashreplace")] = b"".join([line for _, line in of_file])
    return found
