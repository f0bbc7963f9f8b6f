"""Dom0's /proc/net/dev, in which its ends of the guests' interfaces are counted, to plain tuples. Pure functions only.

    Inter-|   Receive                                                |  Transmit
     face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier ...
    vif3.0:  213480    1402    0    0    0     0          0         0   478208     498    0    2    0     0       0 ...

The format is that of net/core/net-procfs.c in Linux. libxenstat reads the same file, at a cost (see
source/libxenstat.py) and in ways that lose interfaces or give them another's figures (xenstat_linux.c, Xen 4.0 to
4.21):

- It looks for a Linux bridge's name in each interface's, to tell what a bond carries. Without a bridge, as on Open
  vSwitch, that name is empty, which is found in every name: every vif is passed over (xcp-ng/xcp#379). With one, a vif
  is passed over whose given name (vifname=) holds the bridge's.
- It gives Dom0's own vif0.0, while that is 0, the figures of the bridge, which are counted from the other side.
- It takes all that begins with vif3.0 for that interface, a VLAN on it too (vif3.0.42), which then counts twice.
- Before Xen 4.8 an interface that has "vif" elsewhere in its name counts as the one before it.
- It knows QEMU's end of an HVM guest's interface by libxl's name, vif3.0-emu, not by that of XAPI and xend, tap3.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from virtscope.toolkit.sources import SourceRubbish
from virtscope.xen.source.libxenstat import RawNetwork, RawNode

_COLUMNS = (
    b"bytes packets errs drop fifo frame compressed multicast bytes packets errs drop fifo colls carrier compressed"
)
# Of the sixteen columns of figures, each way's first four.
_NUMBER = rb"([0-9]{1,20})"
_WAY = rb" +".join([_NUMBER] * 4) + rb"(?: +[0-9]{1,20}){4}"
_LINE = re.compile(rb" *([^ ]+?): *" + _WAY + rb" +" + _WAY + rb" *")
_BY_NAME = re.compile(rb"(?:vif([0-9]{1,5})\.([0-9]{1,5})(-emu)?|tap([0-9]{1,5})\.([0-9]{1,5}))")
_NODENAME = re.compile(rb"backend/vif/([0-9]{1,5})/([0-9]{1,5})\n?")


class Vif(NamedTuple):
    """Whose interface it is, which of that domain's, and whether it is QEMU's end of it."""

    domid: int
    number: int
    emulated: bool


def parse(text: bytes) -> dict[bytes, tuple[int, ...]]:
    """Return the figures of each interface, as Dom0 counts them: bytes, packets, errors, drops received, then sent.

    Raises SourceRubbish, with the text, where columns or lines are not those that are known.
    """
    header, _, lines = text.partition(b"\n")
    columns, _, lines = lines.partition(b"\n")
    if columns.replace(b"|", b" ").split() != [b"face", *_COLUMNS.split()]:
        raise SourceRubbish(f"net/dev has other columns than those known: {header + columns!r:.300}")
    interfaces: dict[bytes, tuple[int, ...]] = {}
    *whole, rest = lines.split(b"\n")
    for line in [*whole, rest] if rest else whole:
        found = _LINE.fullmatch(line)
        if found is None:
            raise SourceRubbish(f"net/dev has a line of another form: {line!r:.300}")
        name, *figures = found.groups()
        interfaces[name] = tuple(map(int, figures))
    return interfaces


def by_name(interface: bytes) -> Vif | None:
    """Return which vif this is the name of (vif3.0; QEMU's end of it: vif3.0-emu, tap3.0), or None if of none."""
    found = _BY_NAME.fullmatch(interface)
    return Vif(int(found[1] or found[4]), int(found[2] or found[5]), not found[1] or bool(found[3])) if found else None


def by_nodename(nodename: bytes) -> Vif | None:
    """Return which vif an interface of any name is, from /sys/class/net/NAME/device/nodename, or None if none."""
    found = _NODENAME.fullmatch(nodename)
    return Vif(int(found[1]), int(found[2]), emulated=False) if found else None


def with_vifs(node: RawNode, interfaces: Iterable[tuple[Vif, tuple[int, ...]]]) -> RawNode:
    """Return a host that has no networks with these.

    Both ends of a vif stand beside each other under one number, as libxenstat has them, but marked. Interfaces of
    domains that are not there (any more, or yet) are left out.
    """
    by_domain: dict[int, list[RawNetwork]] = {}
    for vif, figures in interfaces:
        by_domain.setdefault(vif.domid, []).append(RawNetwork(vif.number, *figures)._replace(emulated=vif.emulated))
    return node._replace(
        domains=tuple(domain._replace(networks=tuple(by_domain.get(domain.id, ()))) for domain in node.domains)
    )
