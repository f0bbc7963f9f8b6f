"""Xen's own libxenstat, called in this process by ctypes: a snapshot is a few hypercalls, CPU time in nanoseconds.

Facts and traps of the library: tools/libs/stat/include/xenstat.h and xenstat.c in Xen's source.
- Symbols are versioned and the file name carries the Xen release (libxenstat.so.4.17, up to Xen 4.13 libxenstat.so.0),
  so it is looked up at run time.
- Off Xen, xenstat_init() complains on standard error each time, so /sys/hypervisor is asked first.
- xenstat_get_node() waits for hypercalls and for xenstored, which knows the names: it can hang. The caller has a
  deadline.
- For networks it compiles a regular expression again for each line of /proc/net/dev: 0.1 ms of CPU for each interface,
  at each snapshot (parseNetDevLine in xenstat_linux.c). So they are read from that file here (netdev.py says what else
  is wrong with the library's), and from the library only where the file can't be read or understood.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Mapping, Sequence
from ctypes import c_bool, c_char_p, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Callable, Generic, TypeVar

from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceUnavailable
from virtscope.xen import hypervisor
from virtscope.xen.devices import VBD, VIF, block, known_apart, loses_read_sectors, network
from virtscope.xen.model import Block, Domain, Host, Missing, Network, Vcpu, decoded
from virtscope.xen.netdev import NetDev, WhereReadable

# XENSTAT_VCPU | XENSTAT_XEN_VERSION | XENSTAT_VBD
_ALWAYS = 0x1 | 0x4 | 0x8
_NETWORK = 0x2  # XENSTAT_NETWORK

_STATES = ("dying", "crashed", "shutdown", "paused", "blocked", "running")
_VIF_COUNTERS = ("rbytes", "rpackets", "rerrs", "rdrop", "tbytes", "tpackets", "terrs", "tdrop")
_UNLIMITED = 2**64 - 1
_BACKENDS = {1: "BlkBack", 2: "BlkTap", 3: "Tapdisk3"}  # as xentop names them

N = TypeVar("N")


@dataclass(frozen=True)
class Shape(Generic[N]):
    """What is made of what the library's getters give: to be shown, the model's values (MODEL); to be recorded, tuples.

    `fields` are a structure's fields in the order of the getters below, by xenstat.h's names.
    """

    vcpu: Callable[[Sequence[int]], Any]  # of the fields
    network: Callable[[int, Sequence[int]], Any]  # of its number and eight counters
    vbd: Callable[[Sequence[Any]], Any]  # of the fields
    domain: Callable[[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], Sequence[Any]], Any]  # vcpus, networks, vbds
    node: Callable[[tuple[Any, ...], Sequence[Any]], N]  # domains and fields


def vcpu(fields: Sequence[int]) -> Vcpu:
    """Return a vCPU."""
    online, ns = fields
    return Vcpu(bool(online), _cpu_seconds(ns))


def vbd(fields: Sequence[Any]) -> Block:
    """Return a block device; `error` (None before Xen 4.13) says that the library couldn't read its counters."""
    kind, dev, *counters, error = fields
    return block(_BACKENDS.get(kind, "Unidentified"), dev, [None] * len(counters) if error else counters)


def domain(
    vcpus: tuple[Vcpu, ...], networks: tuple[Network, ...], vbds: tuple[Block, ...], fields: Sequence[Any]
) -> Domain:
    """Return a domain, with those of its devices that can be known apart."""
    domid, name, cpu_ns, cur_mem, max_mem, ssid, *states = fields
    shown_networks, shown_vbds = known_apart(networks, VIF), known_apart(vbds, VBD)
    return Domain(
        domid=domid,
        name=decoded(name),
        cpu_seconds=_cpu_seconds(cpu_ns),
        memory_bytes=cur_mem,
        memory_limit_bytes=None if max_mem == _UNLIMITED else max_mem,
        ssid=ssid,
        states=frozenset(compress(_STATES, states)),
        vcpus=vcpus,
        networks=shown_networks,
        blocks=shown_vbds,
        missing=Missing(0, len(networks) - len(shown_networks), len(vbds) - len(shown_vbds)),
    )


def node(domains: tuple[Domain, ...], fields: Sequence[Any]) -> Host:
    """Return the host, without the sectors read where this release gives what means nothing for them."""
    xen_version, num_cpus, cpu_hz, tot_mem, free_mem = fields
    version = decoded(xen_version)
    if loses_read_sectors(version):
        domains = tuple([each._replace(blocks=tuple(map(_without_read_bytes, each.blocks))) for each in domains])
    return Host(version or None, num_cpus, cpu_hz, tot_mem, free_mem, domains)


def _without_read_bytes(device: Block) -> Block:
    return device._replace(read=device.read and device.read._replace(bytes=None))


def _cpu_seconds(nanoseconds: int) -> float:
    """Convert CPU time, without bit 63.

    Xen keeps a vCPU's state update flag in that bit and some releases (4.10 to 4.12) let it slip out, which would be a
    jump of 292 years: xen-devel, 2019-10-06, J. Gross; fixed in Xen by commit f28c4c4c10bd.
    """
    return (nanoseconds & ~(1 << 63)) / 1e9


MODEL = Shape(vcpu, network, vbd, domain, node)


class HostReader(Generic[N]):
    """Reads libxenstat's snapshots, with networks from /proc/net/dev, or the library's where that can't be read."""

    def __init__(self, library: Libxenstat[N], net_dev: NetDev[Any]) -> None:
        self._latest: N | None = None  # while the library gives any
        self._idle = threading.Event()  # not before the first read either
        self._library = library
        self._networks = WhereReadable(net_dev.read, str(net_dev.path), "libxenstat")

    def read(self) -> N:
        """Return the host as it is now; raises SourceError as the library does."""
        self._idle.clear()
        try:
            self._latest = self._library.read(self._networks.vifs())
        except SourceError:
            self._latest = None
            raise
        finally:
            self._idle.set()
        return self._latest

    def latest(self) -> N | None:
        """Return the last snapshot, None if it failed; one that is being taken is waited for, but not for long."""
        self._idle.wait(0.2)
        return self._latest

    def origin(self) -> str:
        """Return the library's file name, and where the networks come from if they aren't its own."""
        return self._library.origin() + self._networks.origin()


class Libxenstat(Generic[N]):
    """Reads the host through libxenstat, whatever Xen release it belongs to.

    The library is opened at the first read, and again after a failure: an exporter may start before Xen's daemons do.
    """

    def __init__(self, shape: Shape[N], sysfs: str = "/sys", folder: str = "") -> None:
        """`folder` is where the library lies, if not where the loader looks."""
        self._shape = shape
        self._sysfs = Path(sysfs)
        self._folder = folder
        self._library: _Library[N] | None = None

    def read(self, vifs: Mapping[int, Sequence[Any]] | None) -> N:
        """Return the host as it is now, with these networks by domid, or with the library's own if there are none.

        Raises SourceUnavailable where there is no Xen, no library or no permission, SourceError when the library fails,
        SourceMalformed when it contradicts itself.
        """
        library = self.open()
        try:
            return library.snapshot(vifs)
        except SourceError:
            # A handle may hold a broken connection to xenstored: open another next time.
            library.close()
            self._library = None
            raise

    def open(self) -> _Library[N]:
        """Open the library if it isn't open; raises SourceUnavailable as read() does."""
        if self._library is None:
            self._library = self._open()
        return self._library

    def origin(self) -> str:
        """Return the file name of the library in use, such as libxenstat.so.4.17."""
        library = self._library  # another thread may be closing it
        return library.name if library else ""

    def _open(self) -> _Library[N]:
        hypervisor.require_xen(self._sysfs)
        release = hypervisor.running_release(self._sysfs)
        problems = []
        for name in (f"libxenstat.so.{release}", "libxenstat.so.0"):
            try:
                return _Library(str(Path(self._folder, name)), self._shape)
            except _NoLibrary as error:
                problems.append(str(error))
        raise SourceUnavailable(
            f"{'; '.join(problems)}; install the tools of the running Xen (Debian: libxenmisc{release}, in xen-utils)"
        )


class _NoLibrary(SourceUnavailable):
    """There is no such library, or it isn't one of libxenstat's."""


class _Library(Generic[N]):
    """An opened libxenstat and its handle."""

    def __init__(self, path: str, shape: Shape[N]) -> None:
        self.name = Path(path).name
        try:
            # Two views of one library. CDLL gives up Python's global lock while C runs: right for calls that can
            # hang. PyDLL keeps it, which is cheaper: right for the thousands of getters that only read a field.
            slow: ctypes.CDLL = hypervisor.load(path)
            quick: ctypes.CDLL = ctypes.PyDLL(path)
            self._init = _function(slow, "init", c_void_p)
            self._uninit = _function(slow, "uninit", None, c_void_p)
            self._get_node = _function(slow, "get_node", c_void_p, c_void_p, c_uint)
            self._free_node = _function(slow, "free_node", None, c_void_p)
            self._getters = _Getters(quick, shape)
        except SourceUnavailable as error:
            raise _NoLibrary(str(error)) from error
        except AttributeError as error:
            raise _NoLibrary(f"{path} can't be used: {error}") from error
        self._handle = self._init()
        if not self._handle:
            raise SourceUnavailable(
                f"{self.name}: xenstat_init failed ({os.strerror(ctypes.get_errno())}); "
                "the exporter needs root in Dom0, or CAP_DAC_OVERRIDE, and Xen's daemons running"
            )

    def close(self) -> None:
        self._uninit(self._handle)

    def snapshot(self, vifs: Mapping[int, Sequence[Any]] | None) -> N:
        node = self._get_node(self._handle, _ALWAYS | (_NETWORK if vifs is None else 0))
        if not node:
            raise SourceError(f"xenstat_get_node failed ({os.strerror(ctypes.get_errno())})")
        try:
            return self._getters.node(node, vifs)
        finally:
            self._free_node(node)


class _Getters(Generic[N]):
    """The library's field getters, grouped as its header groups them, in the order of a Shape's arguments."""

    def __init__(self, library: ctypes.CDLL, shape: Shape[N]) -> None:
        self._shape = shape

        def getter(name: str, result: Any = c_ulonglong) -> Any:
            return _function(library, name, result, c_void_p)

        def nth(name: str) -> Any:
            return _function(library, name, c_void_p, c_void_p, c_uint)

        self._node = [
            getter("node_xen_version", c_char_p),
            getter("node_num_cpus", c_uint),
            getter("node_cpu_hz"),
            getter("node_tot_mem"),
            getter("node_free_mem"),
        ]
        self._num_domains = getter("node_num_domains", c_uint)
        self._nth_domain = nth("node_domain_by_index")
        self._domain = [getter("domain_id", c_uint), getter("domain_name", c_char_p)]
        self._domain += [getter(f"domain_{name}") for name in ("cpu_ns", "cur_mem", "max_mem")]
        self._domain += [getter(f"domain_{name}", c_uint) for name in ("ssid", *_STATES)]
        self._num_vcpus, self._nth_vcpu = getter("domain_num_vcpus", c_uint), nth("domain_vcpu")
        self._vcpu = [getter("vcpu_online", c_uint), getter("vcpu_ns")]
        self._num_networks, self._nth_network = getter("domain_num_networks", c_uint), nth("domain_network")
        self._network_id = getter("network_id", c_uint)
        self._network = [getter(f"network_{name}") for name in _VIF_COUNTERS]
        self._num_vbds, self._nth_vbd = getter("domain_num_vbds", c_uint), nth("domain_vbd")
        self._vbd = [getter("vbd_type", c_uint), getter("vbd_dev", c_uint)]
        self._vbd += [getter(f"vbd_{name}") for name in ("oo_reqs", "rd_reqs", "wr_reqs", "rd_sects", "wr_sects")]
        try:
            self._vbd.append(getter("vbd_error", c_bool))
        except AttributeError:  # before Xen 4.13
            self._vbd.append(lambda _vbd: None)

    def node(self, node: int, vifs: Mapping[int, Sequence[Any]] | None) -> N:
        domains = _parts(node, self._num_domains, self._nth_domain)
        return self._shape.node(
            tuple([self._read_domain(domain, vifs) for domain in domains]), [get(node) for get in self._node]
        )

    def _read_domain(self, domain: int, vifs: Mapping[int, Sequence[Any]] | None) -> Any:
        shape, vcpu_getters, vbd_getters = self._shape, self._vcpu, self._vbd
        fields = [get(domain) for get in self._domain]
        vcpus = _parts(domain, self._num_vcpus, self._nth_vcpu)
        vbds = _parts(domain, self._num_vbds, self._nth_vbd)
        return shape.domain(
            tuple([shape.vcpu([get(vcpu) for get in vcpu_getters]) for vcpu in vcpus]),
            self._read_networks(domain) if vifs is None else tuple(vifs.get(fields[0], ())),
            tuple([shape.vbd([get(vbd) for get in vbd_getters]) for vbd in vbds]),
            fields,
        )

    def _read_networks(self, domain: int) -> tuple[Any, ...]:
        networks = _parts(domain, self._num_networks, self._nth_network)
        number, counters = self._network_id, self._network
        return tuple([self._shape.network(number(each), [get(each) for get in counters]) for each in networks])


def _parts(whole: int, count: Any, nth: Any) -> list[int]:
    """Return all parts; raises SourceMalformed where one is NULL, which a getter would take for a pointer and crash.

    The library keeps its count when it has no memory for an array, so this also ends a count beyond all reason early.
    """
    parts = []
    for index in range(count(whole)):
        part = nth(whole, index)
        if part is None:
            raise SourceMalformed(f"{count.__name__} says {count(whole)}, but {nth.__name__} {index} is NULL")
        parts.append(part)
    return parts


def _function(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    """Return xenstat_`name` with its types set; raises AttributeError where the library lacks it."""
    function = getattr(library, f"xenstat_{name}")
    function.restype = result
    function.argtypes = arguments
    return function
