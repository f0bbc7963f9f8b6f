"""The hypervisor's symbols, as Dom0's kernel tells them in /proc/xen/xensyms.

perf doesn't read that file: what it sampled in the hypervisor (pmu_mode hv or all) it shows as addresses of the kernel
that belong to nothing. Format: drivers/xen/xenfs/xensyms.c in Linux's source, an address, a letter and a name. The
range that is the hypervisor's: Documentation/arch/x86/x86_64/mm.rst.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from virtscope.perf.profile.samples import NO_SYMBOL

_LINE = re.compile(r"([0-9a-f]{16}) \w (\S+)", re.ASCII)
_FIRST, _LAST = 0xFFFF800000000000, 0xFFFF87FFFFFFFFFF
_ADDRESS = re.compile(r"(?:0x)?([0-9a-f]{16})", re.ASCII)


class Xensyms:
    """Names addresses of the hypervisor."""

    def __init__(self, text: str) -> None:
        """Take the file's text; "" where there is none, or it can't be read."""
        found = sorted((int(line[1], 16), line[2]) for line in map(_LINE.fullmatch, text.splitlines()) if line)
        self._addresses = [address for address, _ in found]
        self._names = [name for _, name in found]

    def symbol(self, name: str) -> str:
        """Return the hypervisor's symbol for what perf shows as an address in its range; "" for all else."""
        matched = _ADDRESS.fullmatch(name)
        address = int(matched[1], 16) if matched else 0
        if not _FIRST <= address <= _LAST:
            return ""
        at = bisect_right(self._addresses, address)
        return self._names[at - 1] if at else NO_SYMBOL
