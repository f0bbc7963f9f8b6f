"""Where samples fell: what every kind of report is read into."""

from __future__ import annotations

from typing import NamedTuple

NO_SYMBOL = "(no symbols)"  # as opreport calls what lies in an image without any


class Place(NamedTuple):
    """Where a sample fell."""

    event: str
    image: str  # a file's name without its folder, "[kernel.kallsyms]", "xen-syms"; as the report has it
    symbol: str  # NO_SYMBOL where the report has none
    space: str  # "user", "kernel", "hypervisor", "guest_user", "guest_kernel"; "" where the report doesn't say
    domain: str = ""  # the domid that Xenoprof sampled from outside; "" is the system that the profiler ran on


Profile = dict[Place, int]  # how many samples fell there
