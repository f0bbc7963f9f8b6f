"""/proc/bc: a folder for each container's beancounter, and one for the host's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from virtscope.vestat.source.procfs import Procfs, list_folders, read_optional

CAPABILITIES = "CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH"  # the kernel asks for both, whatever the files' modes

# A container that has ended, but whose memory is not all given back: its id and the kernel's address of it
# (bc_readdir() in kernel/bc/proc.c of 2.6.32). Neither it nor a namesake that was started since is meant by it.
_LEFT_BEHIND = re.compile(r"[0-9]+-[0-9a-f]+")


def read_each(procfs: Procfs, file: str) -> Iterator[tuple[str, str]]:
    """Yield ctid and text of /proc/bc/<id>/`file` of every container, and of the host (ctid "0").

    Containers that end meanwhile are passed over, and so are all where the kernel has no such file. Sub-beancounters,
    which early kernels have, are folders within their container's, and part of its figures. Raises as read_text() does.
    """
    for ctid in list_folders(procfs, "bc", CAPABILITIES):
        if not _LEFT_BEHIND.fullmatch(ctid):
            text = read_optional(procfs, f"bc/{ctid}/{file}", CAPABILITIES)
            if text is not None:
                yield ctid, text
