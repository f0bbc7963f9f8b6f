"""Reads Dom0's ends of the guests' interfaces from /proc/net/dev at each scrape.

    Inter-|   Receive                                                |  Transmit
     face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier ...
    vif3.0:  213480    1402    0    0    0     0          0         0   478208     498    0    2    0     0       0 ...

Format: net/core/net-procfs.c in Linux. libxenstat reads the same file, at a cost (see libxenstat.py), and loses or
mixes up interfaces (xenstat_linux.c, Xen 4.0 to 4.21):

- To recognise a bond, it looks for a Linux bridge's name in each interface's name. Without a bridge, as with Open
  vSwitch, it skips every vif (xcp-ng/xcp#379); with a bridge, it skips vifs whose vifname= contains the bridge's name.
- While Dom0's own vif0.0 is 0, it gets the counters of the bridge, which count from the other side.
- All names that begin with vif3.0 count as vif3.0, also a VLAN on it (vif3.0.42). Before Xen 4.8, an interface with
  "vif" elsewhere in its name counts as the previous interface.
- It recognises QEMU's end of an HVM guest's interface by libxl's name, vif3.0-emu, not by XAPI's and xend's, tap3.0.
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
# The first four of the eight columns of each direction.
_NUMBER = rb"([0-9]{1,20})"
_WAY = rb" +".join([_NUMBER] * 4) + rb"(?: +[0-9]{1,20}){4}"
_LINE = re.compile(rb" *([^ ]+?): *" + _WAY + rb" +" + _WAY + rb" *")
# A vif's domain and number; vif3.0-emu and tap3.0 are QEMU's end of it.
_BY_NAME = re.compile(rb"(?:vif|(tap)(?!.*-))([0-9]{1,5})\.([0-9]{1,5})(-emu)?")
_NODENAME = re.compile(rb"()backend/vif/([0-9]{1,5})/([0-9]{1,5})()\n?")


class RawNetwork(NamedTuple):
    """Dom0's end of an interface: `rbytes` were sent by the guest. Fields have xenstat_network's names."""

    id: int
    rbytes: int
    rpackets: int
    rerrs: int
    rdrop: int
    tbytes: int
    tpackets: int
    terrs: int
    tdrop: int
    emulated: int | None = None  # 1: QEMU's end of an HVM guest's interface; None: unknown to libxenstat


def guests_end(raw: RawNetwork) -> Network:
    """Return the interface from the guest's point of view."""
    return network(raw.id, raw[1:-1], bool(raw.emulated))


def parse(text: bytes) -> dict[bytes, tuple[int, ...]]:
    """Return Dom0's counters of each interface: bytes, packets, errors, drops received, then sent.

    Raises SourceMalformed, with the text, for unknown columns or lines.
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


def by_domid(text: bytes, nodename: Callable[[bytes], bytes]) -> dict[int, list[RawNetwork]]:
    """Return all vifs by domid, including both ends of an interface; raises like parse().

    `nodename` returns the content of an interface's device/nodename, b"" if missing: a vif can have any name, by
    vifname= in xl.cfg.
    """
    found: dict[int, list[RawNetwork]] = {}
    for name, counters in parse(text).items():
        if vif := _BY_NAME.fullmatch(name) or _NODENAME.fullmatch(nodename(name)):
            tap, domid, number, emu = vif.groups()
            found.setdefault(int(domid), []).append(RawNetwork._make((int(number), *counters, bool(tap or emu))))
    return found


class NetDev:
    """Reads Dom0's ends of the guests' interfaces on this machine."""

    def __init__(self, procfs: str = "/proc", sysfs: str = "/sys") -> None:
        self.path = Path(procfs, "net/dev")
        self._class_net = Path(sysfs, "class/net")

    def read(self) -> dict[int, list[RawNetwork]]:
        """Return them by domid; raises SourceUnavailable without the file (Dom0 isn't Linux), and like parse()."""
        try:
            text = self.path.read_bytes()
        except OSError as error:
            raise SourceUnavailable(f"{self.path}: {error.strerror}") from error
        return by_domid(text, self._nodename)

    def _nodename(self, name: bytes) -> bytes:
        try:
            return (self._class_net / name.decode() / "device/nodename").read_bytes()
        except (OSError, UnicodeDecodeError):  # not a vif: only vifs have this file
            return b""


class WhereReadable:
    """The guests' interfaces by domid; logs when they can't be read, and which source is used instead."""

    def __init__(self, read: Callable[[], Mapping[int, Sequence[RawNetwork]]], path: str, otherwise: str) -> None:
        """`otherwise` is the source of networks if they can't be read."""
        self._read = read
        self._path = path
        self._otherwise = otherwise
        self._failure: str | None = None  # "" while they can be read; None: not tried yet

    def vifs(self) -> Mapping[int, Sequence[RawNetwork]] | None:
        """Return them; None: use the source's own."""
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
        """Return their origin as a suffix for the source's; "" if they are the source's own."""
        return f", networks from {self._path}" if self._failure == "" else ""
