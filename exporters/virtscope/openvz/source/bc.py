"""/proc/bc and /proc/user_beancounters: what the containers of a host, and it itself, hold, read and write."""

from __future__ import annotations

import re
from collections.abc import Iterator

from virtscope.openvz import beancounters, ioacct
from virtscope.openvz.beancounters import Beancounters
from virtscope.openvz.ioacct import Ioaccts
from virtscope.openvz.source.procfs import NO_HOST, Procfs, list_folders, read_optional
from virtscope.toolkit.sources import SourceUnavailable

_CAPABILITIES = "CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH"  # the kernel asks for both, whatever the files' modes

# A container that has ended, but whose memory is not all given back: its id and the kernel's address of it
# (bc_readdir() in kernel/bc/proc.c of 2.6.32). Neither it nor a namesake that was started since is meant by it.
_LEFT_BEHIND = re.compile(r"[0-9]+-[0-9a-f]+")


class BeancounterReader:
    """Reads the beancounters of one host again and again, by read()."""

    def __init__(self, procfs: Procfs) -> None:
        self._procfs = procfs
        self._last: Beancounters | None = None

    def read(self) -> Beancounters:
        """Return the beancounters as they are now; what is as it was at the last read is the same object.

        They are those of one source, so that none counts twice: of /proc/bc/resources, which knows more resources; of
        /proc/user_beancounters on kernels that have no such file; of each container's own file where there is neither.
        These are no way around a file that must not be read: the kernel asks for the same capabilities for all three.

        Raises SourceUnavailable where none is there, or may be read, and SourceRubbish as the parser does.
        """
        self._last = self._read()
        return self._last

    def _read(self) -> Beancounters:
        for name in ("bc/resources", "user_beancounters"):
            text = read_optional(self._procfs, name, _CAPABILITIES)
            if text is not None:
                return beancounters.parse(text, self._last)
        each = list(_read_each(self._procfs, "resources", NO_HOST))
        if not each:
            raise SourceUnavailable(
                f"{self._procfs / 'bc'} has no beancounters: this is no OpenVZ host, or run this on the host"
            )
        return beancounters.parse_each(each, self._last)


def read_ioacct(procfs: Procfs) -> Ioaccts:
    """Return what the containers of the host whose procfs this is have read and written.

    Raises SourceUnavailable where the kernel doesn't count it or the files must not be read, SourceRubbish as the
    parser does.
    """
    absence = "this kernel doesn't count I/O by container"
    files = list(_read_each(procfs, "ioacct", absence))
    if not files:
        raise SourceUnavailable(f"{procfs}/bc/*/ioacct are absent: {absence}")
    return ioacct.parse_each(files)


def _read_each(procfs: Procfs, file: str, absence: str) -> Iterator[tuple[str, str]]:
    """Yield ctid and text of /proc/bc/<id>/`file` of every container, and of the host (ctid "0").

    Containers that end meanwhile are passed over, and so are all where the kernel has no such file. Sub-beancounters,
    which early kernels have, are folders within their container's, and part of its figures. Raises as read_text() does;
    `absence` is what it means that there is no /proc/bc.
    """
    for ctid in list_folders(procfs, "bc", _CAPABILITIES, absence):
        if not _LEFT_BEHIND.fullmatch(ctid):
            text = read_optional(procfs, f"bc/{ctid}/{file}", _CAPABILITIES)
            if text is not None:
                yield ctid, text
