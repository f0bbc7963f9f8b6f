"""Xen's own libxenstat, called in this process by ctypes: a snapshot is a few hypercalls, CPU time in nanoseconds.

Facts and traps of the library: tools/libs/stat/include/xenstat.h and xenstat.c in Xen's source.
- Symbols are versioned and the file name contains the Xen release (libxenstat.so.4.17, up to Xen 4.13 libxenstat.so.0),
  so the library is looked up at run time.
- Off Xen, xenstat_init() prints an error each time, so /sys/hypervisor is checked first.
- xenstat_get_node() waits for hypercalls and for xenstored, which has the names: it can hang. The caller has a
  deadline.
- The library compiles a regular expression for each line of /proc/net/dev: 0.1 ms of CPU per interface and snapshot
  (parseNetDevLine in xenstat_linux.c). So networks are read from that file here (netdev.py lists other faults of the
  library), and from the library only if the file can't be read or parsed.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Mapping, Sequence
from ctypes import c_bool, c_char_p, c_uint, c_ulonglong, c_void_p
from itertools import compress
from pathlib import Path
from typing import Any, Callable, NamedTuple

from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceUnavailable
from virtscope.xen import hypervisor
from virtscope.xen.devices import block, known_apart, loses_read_sectors
from virtscope.xen.model import Block, Domain, Host, Missing, Vcpu, decoded
from virtscope.xen.netdev import NetDev, RawNetwork, WhereReadable, guests_end

# XENSTAT_VCPU | XENSTAT_XEN_VERSION | XENSTAT_VBD
_ALWAYS = 0x1 | 0x4 | 0x8
_NETWORK = 0x2  # XENSTAT_NETWORK

_UNLIMITED = 2**64 - 1
_BACKENDS = {1: "BlkBack", 2: "BlkTap", 3: "Tapdisk3"}  # as xentop names them


class RawVcpu(NamedTuple):
    """A xenstat_vcpu. Here and below, fields have the names of the library's getters."""

    online: int
    ns: int


class RawVbd(NamedTuple):
    """A xenstat_vbd. `error`: the library couldn't read its counters; None before Xen 4.13, which has no such flag."""

    type: int
    dev: int
    oo_reqs: int
    rd_reqs: int
    wr_reqs: int
    rd_sects: int
    wr_sects: int
    error: bool | None


class RawDomain(NamedTuple):
    """A xenstat_domain, uninterpreted; names are bytes."""

    vcpus: tuple[RawVcpu, ...]
    networks: tuple[RawNetwork, ...]
    vbds: tuple[RawVbd, ...]
    id: int
    name: bytes | None
    cpu_ns: int
    cur_mem: int
    max_mem: int
    ssid: int
    dying: int
    crashed: int
    shutdown: int
    paused: int
    blocked: int
    running: int


class RawNode(NamedTuple):
    """A xenstat_node: the host and its domains at one moment."""

    domains: tuple[RawDomain, ...]
    xen_version: bytes | None
    num_cpus: int
    cpu_hz: int
    tot_mem: int
    free_mem: int


_STATES = RawDomain._fields[-6:]
# Return types of getters, if not unsigned long long.
_RESULTS: dict[str, Any] = {
    **dict.fromkeys(("num_cpus", "id", "ssid", *_STATES, "online", "type", "dev"), c_uint),
    "xen_version": c_char_p,
    "name": c_char_p,
    "error": c_bool,
}


def host(node: RawNode) -> Host:
    """Return the host, without the sectors read if this release returns garbage for them."""
    version = decoded(node.xen_version)
    lost = loses_read_sectors(version)
    domains = tuple([_domain(each, lost) for each in node.domains])
    return Host(version or None, node.num_cpus, node.cpu_hz, node.tot_mem, node.free_mem, domains)


def _domain(raw: RawDomain, read_sectors_lost: bool) -> Domain:
    """Return a domain, without devices that share a name."""
    networks = known_apart([guests_end(each) for each in raw.networks])
    blocks = known_apart([_block(each, read_sectors_lost) for each in raw.vbds])
    return Domain(
        domid=raw.id,
        name=decoded(raw.name),
        cpu_seconds=_cpu_seconds(raw.cpu_ns),
        memory_bytes=raw.cur_mem,
        memory_limit_bytes=None if raw.max_mem == _UNLIMITED else raw.max_mem,
        ssid=raw.ssid,
        states=frozenset(compress(_STATES, raw[-6:])),
        vcpus=tuple([Vcpu(bool(online), _cpu_seconds(ns)) for online, ns in raw.vcpus]),
        networks=networks,
        blocks=blocks,
        missing=Missing(0, len(raw.networks) - len(networks), len(raw.vbds) - len(blocks)),
    )


def _block(raw: RawVbd, read_sectors_lost: bool) -> Block:
    kind, dev, *counters, error = raw
    known: list[int | None] = [None] * len(counters) if error else [*counters]
    if read_sectors_lost:
        known[3] = None
    return block(_BACKENDS.get(kind, "Unidentified"), dev, known)


def _cpu_seconds(nanoseconds: int) -> float:
    """Convert CPU time, without bit 63.

    Xen keeps a vCPU's state update flag in that bit. Xen 4.10 to 4.12 can return it, a jump of 292 years: xen-devel,
    2019-10-06, J. Gross; fixed in Xen by commit f28c4c4c10bd.
    """
    return (nanoseconds & ~(1 << 63)) / 1e9


class Libxenstat:
    """Reads the host through any Xen release's libxenstat, and networks from /proc/net/dev if readable.

    The library is opened at the first read, and again after a failure: an exporter may start before Xen's daemons.
    """

    def __init__(self, net_dev: NetDev, sysfs: str = "/sys", folder: str = "") -> None:
        """`folder` has the library, if the loader doesn't find it."""
        self._sysfs = Path(sysfs)
        self._folder = folder
        self._networks = WhereReadable(net_dev.read, str(net_dev.path), "libxenstat")
        self._library: _Library | None = None
        self._latest: RawNode | None = None  # None after a failed read
        self._idle = threading.Event()  # not before the first read either

    def read(self) -> RawNode:
        """Return the current state of the host.

        Raises SourceUnavailable without Xen, library or permission, SourceError when the library fails, SourceMalformed
        when its answers are inconsistent.
        """
        self._idle.clear()
        try:
            self._latest = node = self.open().snapshot(self._networks.vifs())
            return node
        except SourceError:
            self._latest = None
            # The handle's connection to xenstored may be broken: open another next time.
            if self._library:
                self._library.close()
            self._library = None
            raise
        finally:
            self._idle.set()

    def latest(self) -> RawNode | None:
        """Return the last snapshot, None if it failed; waits briefly for a snapshot in progress."""
        self._idle.wait(0.2)
        return self._latest

    def open(self) -> _Library:
        """Open the library if it isn't open; raises SourceUnavailable like read()."""
        if self._library is None:
            self._library = self._open()
        return self._library

    def origin(self) -> str:
        """Return the file name of the library in use, such as libxenstat.so.4.17, and the source of networks."""
        library = self._library  # another thread may be closing it
        return (library.name if library else "") + self._networks.origin()

    def _open(self) -> _Library:
        hypervisor.require_xen(self._sysfs)
        release = hypervisor.running_release(self._sysfs)
        problems = []
        for name in (f"libxenstat.so.{release}", "libxenstat.so.0"):
            try:
                return _Library(str(Path(self._folder, name)))
            except _NoLibrary as error:
                problems.append(str(error))
        raise SourceUnavailable(
            f"{'; '.join(problems)}; install the tools of the running Xen (Debian: libxenmisc{release}, in xen-utils)"
        )


class _NoLibrary(SourceUnavailable):
    """The library is missing, or isn't libxenstat."""


class _Library:
    """An opened libxenstat and its handle."""

    def __init__(self, path: str) -> None:
        self.name = Path(path).name
        try:
            # Two views of one library. CDLL releases Python's global lock during calls, for calls that can hang.
            # PyDLL keeps the lock, which is cheaper, for the thousands of getters that only read a field.
            slow: ctypes.CDLL = hypervisor.load(path)
            quick: ctypes.CDLL = ctypes.PyDLL(path)
            self._init = _function(slow, "init", c_void_p)
            self._uninit = _function(slow, "uninit", None, c_void_p)
            self._get_node = _function(slow, "get_node", c_void_p, c_void_p, c_uint)
            self._free_node = _function(slow, "free_node", None, c_void_p)
            self._node = _getters(quick, "node", RawNode._fields[1:])
            self._domain = _getters(quick, "domain", RawDomain._fields[3:])
            self._vcpu = _getters(quick, "vcpu", RawVcpu._fields)
            self._network = _getters(quick, "network", RawNetwork._fields[:-1])
            self._vbd = _getters(quick, "vbd", RawVbd._fields[:-1])
            self._domains = _parts(quick, "node_num_domains", "node_domain_by_index")
            self._vcpus, self._networks, self._vbds = (
                _parts(quick, f"domain_num_{part}s", f"domain_{part}") for part in ("vcpu", "network", "vbd")
            )
        except SourceUnavailable as error:
            raise _NoLibrary(str(error)) from error
        except AttributeError as error:
            raise _NoLibrary(f"{path} can't be used: {error}") from error
        try:
            self._vbd += _getters(quick, "vbd", ("error",))
        except AttributeError:  # before Xen 4.13
            self._vbd.append(lambda _vbd: None)
        self._handle = self._init()
        if not self._handle:
            raise SourceUnavailable(
                f"{self.name}: xenstat_init failed ({os.strerror(ctypes.get_errno())}); "
                "the exporter needs root in Dom0, or CAP_DAC_OVERRIDE, and Xen's daemons running"
            )

    def close(self) -> None:
        self._uninit(self._handle)

    def snapshot(self, vifs: Mapping[int, Sequence[RawNetwork]] | None) -> RawNode:
        """Return the host, with these networks by domid; None: with the library's."""
        node = self._get_node(self._handle, _ALWAYS | (_NETWORK if vifs is None else 0))
        if not node:
            raise SourceError(f"xenstat_get_node failed ({os.strerror(ctypes.get_errno())})")
        try:
            domains = tuple([self._read_domain(domain, vifs) for domain in self._domains(node)])
            return RawNode(domains, *[get(node) for get in self._node])
        finally:
            self._free_node(node)

    def _read_domain(self, domain: int, vifs: Mapping[int, Sequence[RawNetwork]] | None) -> RawDomain:
        vcpu, network, vbd = self._vcpu, self._network, self._vbd
        fields = [get(domain) for get in self._domain]
        if vifs is None:
            networks = tuple([RawNetwork(*[get(each) for get in network]) for each in self._networks(domain)])
        else:
            networks = tuple(vifs.get(fields[0], ()))
        return RawDomain(
            tuple([RawVcpu._make([get(each) for get in vcpu]) for each in self._vcpus(domain)]),
            networks,
            tuple([RawVbd._make([get(each) for get in vbd]) for each in self._vbds(domain)]),
            *fields,
        )


def _parts(library: ctypes.CDLL, count_name: str, nth_name: str) -> Callable[[int], list[int]]:
    """Return a function that lists all parts of an object; it raises SourceMalformed for NULL, which crashes getters.

    The library keeps its count if it has no memory for the array, so this check also stops at absurd counts.
    """
    count = _function(library, count_name, c_uint, c_void_p)
    nth = _function(library, nth_name, c_void_p, c_void_p, c_uint)

    def parts(whole: int) -> list[int]:
        found = []
        for index in range(count(whole)):
            part = nth(whole, index)
            if part is None:
                raise SourceMalformed(f"{count.__name__} says {count(whole)}, but {nth.__name__} {index} is NULL")
            found.append(part)
        return found

    return parts


def _getters(library: ctypes.CDLL, of: str, fields: Sequence[str]) -> list[Any]:
    return [_function(library, f"{of}_{field}", _RESULTS.get(field, c_ulonglong), c_void_p) for field in fields]


def _function(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    """Return xenstat_`name` with its types set; raises AttributeError if the library lacks it."""
    function = getattr(library, f"xenstat_{name}")
    function.restype = result
    function.argtypes = arguments
    return function
