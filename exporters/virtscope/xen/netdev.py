"""Dom0's /proc/net/dev, in which its ends of the guests' interfaces are counted, read at each scrape.

    Inter-|   Receive                                                |  Transmit
     face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier ...
    vif3.0:  213480    1402    0    0    0     0          0         0   478208     498    0    2    0     0       0 ...

The format is that of net/core/net-procfs.c in Linux. libxenstat reads the same file, at a cost (see libxenstat.py) and
in ways that lose interfaces or give them another's counters (xenstat_linux.c, Xen 4.0 to 4.21):

- It looks for a Linux bridge's name in each interface's, to tell what a bond carries. Without a bridge, as on Open
  vSwitch, every vif is passed over (xcp-ng/xcp#379); with one, a vif whose given name (vifname=) holds the bridge's.
- It gives Dom0's own vif0.0, while that is 0, the counters of the bridge, which are counted from the other side.
- All that begins with vif3.0 counts for it, also a VLAN on it (vif3.0.42); before Xen 4.8, an interface that has "vif"
  elsewhere in its name counts as the one before it.
- It knows QEMU's end of an HVM guest's interface by libxl's name, vif3.0-emu, not by that of XAPI and xend, tap3.0.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Callable, NamedTuple

from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceUnavailable
from virtscope.xen.devices import network
from virtscope.xen.model import Network

log = logging.getLogger(__name__)

_COLUMNS = (
    b"bytes packets errs drop fifo frame compressed multicast bytes packets errs drop fifo colls carrier compressed"
)
# Of the sixteen columns of numbers, each way's first four.
_NUMBER = rb"([0-9]{1,20})"
_WAY = rb" +".join([_NUMBER] * 4) + rb"(?: +[0-9]{1,20}){4}"
_LINE = re.compile(rb" *([^ ]+?): *" + _WAY + rb" +" + _WAY + rb" *")
_BY_NAME = re.compile(rb"(?:vif([0-9]{1,5})\.([0-9]{1,5})(-emu)?|tap([0-9]{1,5})\.([0-9]{1,5}))")
_NODENAME = re.compile(rb"backend/vif/([0-9]{1,5})/([0-9]{1,5})\n?")


class RawNetwork(NamedTuple):
    """An interface as Dom0 counts its own end: `rbytes` is what the guest sent. Names are those of xenstat_network."""

    id: int
    rbytes: int
    rpackets: int
    rerrs: int
    rdrop: int
    tbytes: int
    tpackets: int
    terrs: int
    tdrop: int
    emulated: int | None = None  # 1: QEMU's end of an HVM guest's interface; None: libxenstat doesn't say


def guests_end(raw: RawNetwork) -> Network:
    """Return the interface as its guest counts it."""
    return network(raw.id, raw[1:-1], bool(raw.emulated))


class Vif(NamedTuple):
    """Whose interface it is, which of that domain's, and whether it is QEMU's end of it."""

    domid: int
    number: int
    emulated: bool


def parse(text: bytes) -> dict[bytes, tuple[int, ...]]:
    """Return the counters of each interface, as Dom0 counts them: bytes, packets, errors, drops received, then sent.

    Raises SourceMalformed, with the text, where columns or lines are not those that are known.
    """
    header, _, lines = text.partition(b"\n")
    columns, _, lines = lines.partition(b"\n")
    if columns.replace(b"|", b" ").split() != [b"face", *_COLUMNS.split()]:
        raise SourceMalformed(f"net/dev has other columns than those known: {header + columns!r:.300}")
    interfaces: dict[bytes, tuple[int, ...]] = {}
    for line in lines.removesuffix(b"\n").split(b"\n") if lines else ():
        found = _LINE.fullmatch(line)
        if found is None:
            raise SourceMalformed(f"net/dev has a line of another form: {line!r:.300}")
        name, *counters = found.groups()
        interfaces[name] = tuple(map(int, counters))
    return interfaces


def by_name(interface: bytes) -> Vif | None:
    """Return which vif this is the name of (vif3.0; QEMU's end of it: vif3.0-emu, tap3.0), or None if of none."""
    found = _BY_NAME.fullmatch(interface)
    return Vif(int(found[1] or found[4]), int(found[2] or found[5]), not found[1] or bool(found[3])) if found else None


def by_nodename(nodename: bytes) -> Vif | None:
    """Return which vif an interface of any name is, from /sys/class/net/NAME/device/nodename, or None if none."""
    found = _NODENAME.fullmatch(nodename)
    return Vif(int(found[1]), int(found[2]), emulated=False) if found else None


def by_domid(text: bytes, nodename: Callable[[bytes], bytes]) -> dict[int, list[RawNetwork]]:
    """Return all interfaces that are a vif's, by domid, both ends of one among them; raises as parse() does.

    `nodename` gives the content of an interface's device/nodename, b"" where it has none: such as vifname= in xl.cfg
    gives a vif a name of its own.
    """
    found: dict[int, list[RawNetwork]] = {}
    for name, counters in parse(text).items():
        if whose := by_name(name) or by_nodename(nodename(name)):
            found.setdefault(whose.domid, []).append(RawNetwork._make((whose.number, *counters, whose.emulated)))
    return found


class NetDev:
    """Reads Dom0's ends of the guests' interfaces on this machine."""

    def __init__(self, procfs: str = "/proc", sysfs: str = "/sys") -> None:
        self.path = Path(procfs, "net/dev")
        self._class_net = Path(sysfs, "class/net")

    def read(self) -> dict[int, list[RawNetwork]]:
        """Return them by domid; raises SourceUnavailable without such a file (Dom0 is no Linux), and as parse()."""
        try:
            text = self.path.read_bytes()
        except OSError as error:
            raise SourceUnavailable(f"{self.path}: {error.strerror}") from error
        return by_domid(text, self._nodename)

    def _nodename(self, name: bytes) -> bytes:
        try:
            return (self._class_net / name.decode() / "device/nodename").read_bytes()
        except (OSError, UnicodeDecodeError):  # no vif: nothing else has this file
            return b""


class WhereReadable:
    """The guests' interfaces by domid; where they can't be read, the log says so, and whose are shown instead."""

    def __init__(self, read: Callable[[], Mapping[int, Sequence[RawNetwork]]], path: str, otherwise: str) -> None:
        """`otherwise` is the source whose networks are shown then."""
        self._read = read
        self._path = path
        self._otherwise = otherwise
        self._failure: str | None = None  # "" while they can be read; None: not tried yet

    def vifs(self) -> Mapping[int, Sequence[RawNetwork]] | None:
        """Return them; None where the source is to be asked for its own."""
        try:
            found = self._read()
        except SourceError as error:
            if error.reason != self._failure:
                fields = {"reason": error.reason, "err": error}
                log.warning(f"falling back to the networks of {self._otherwise}", extra={"fields": fields})
            self._failure = error.reason
            return None
        if self._failure:
            log.info("reading networks again", extra={"fields": {"from": self._path}})
        self._failure = ""
        return found

    def origin(self) -> str:
        """Return where they come from, in words to put behind the source's own; "" where they are the source's."""
        return f", networks from {self._path}" if self._failure == "" else ""
