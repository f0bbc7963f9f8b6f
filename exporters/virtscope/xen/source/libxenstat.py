"""Xen's own libxenstat, called in this process by ctypes: a snapshot is a few hypercalls, CPU time in nanoseconds.

Facts and traps of the library: tools/libs/stat/include/xenstat.h and xenstat.c in Xen's source.
- Symbols are versioned and the file name carries the Xen release (libxenstat.so.4.17), so it is looked up at run time.
- Off Xen, xenstat_init() complains on standard error each time, so /sys/hypervisor is asked first.
- xenstat_get_node() waits for hypercalls and for xenstored, which knows the names: it can hang. The caller has a
  deadline.
- For networks it compiles a regular expression anew for each line of /proc/net/dev: 0.1 ms of CPU for each interface,
  at each snapshot (parseNetDevLine in xenstat_linux.c). So it is asked for them only where the caller says so.
"""

from __future__ import annotations

import ctypes
import os
import re
from ctypes import c_bool, c_char_p, c_uint, c_ulonglong, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

from virtscope.toolkit.sources import SourceError, SourceRubbish, SourceUnavailable

# XENSTAT_VCPU | XENSTAT_XEN_VERSION | XENSTAT_VBD
_ALWAYS = 0x1 | 0x4 | 0x8
_NETWORK = 0x2  # XENSTAT_NETWORK

FOLDERS = (
    "/usr/lib/*-linux-gnu*",  # Debian, Ubuntu
    "/usr/lib64",  # Fedora, SUSE, XCP-ng
    "/usr/lib",  # Alpine, Arch
    "/usr/local/lib*",  # built from source
    "/usr/lib/xen-*/lib*",  # Debian's older layout
)


class RawVcpu(NamedTuple):
    """A xenstat_vcpu, as the library gives it."""

    online: int
    ns: int


class RawNetwork(NamedTuple):
    """A xenstat_network. Bytes and packets as Dom0's vif counts them: `rbytes` is what the guest sent."""

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


class RawVbd(NamedTuple):
    """A xenstat_vbd. `error` is None where the library is too old to say (before Xen 4.13)."""

    type: int
    dev: int
    oo_reqs: int
    rd_reqs: int
    wr_reqs: int
    rd_sects: int
    wr_sects: int
    error: bool | None


class RawDomain(NamedTuple):
    """A xenstat_domain; names are bytes, nothing is interpreted."""

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


class Libxenstat:
    """Reads the host through libxenstat, whatever Xen release it belongs to.

    The library is opened at the first read, and again after a failure: an exporter may start before Xen's daemons do.
    """

    def __init__(self, sysfs: str = "/sys", folders: tuple[str, ...] = FOLDERS) -> None:
        self._sysfs = Path(sysfs)
        self._folders = folders
        self._library: _Library | None = None

    def read(self, *, networks: bool) -> RawNode:
        """Return the host as it is now, with its domains' networks if these are asked for.

        Raises SourceUnavailable where there is no Xen, no library or no permission, SourceError when the library fails,
        SourceRubbish when it contradicts itself.
        """
        library = self.open()
        try:
            return library.snapshot(networks)
        except SourceError:
            # A handle may hold a broken connection to xenstored: begin anew next time.
            library.close()
            self._library = None
            raise

    def open(self) -> _Library:
        """Open the library if it isn't open; raises SourceUnavailable as read() does."""
        if self._library is None:
            self._library = self._open()
        return self._library

    def origin(self) -> str:
        """Return the file name of the library in use, such as libxenstat.so.4.17."""
        library = self._library  # another thread may be closing it
        return library.path.name if library else ""

    def _open(self) -> _Library:
        hypervisor = self._sysfs / "hypervisor"
        kind = _first_line(hypervisor / "type")
        if kind != "xen":
            found = f"it says {kind!r}" if kind else "it is absent"
            raise SourceUnavailable(f"no Xen here: {hypervisor}/type should say 'xen', but {found}; run this in Dom0")
        problems = []
        for path in find_libraries("libxenstat", self._folders, running_release(self._sysfs)):
            try:
                return _Library(path)
            except SourceUnavailable as error:
                problems.append(str(error))
        if not problems:
            raise SourceUnavailable(
                "libxenstat.so.* is in no library folder; install Xen's tools (Debian: libxenmisc, in xen-utils)"
            )
        raise SourceUnavailable("; ".join(problems))


def running_release(sysfs: Path) -> str:
    """Return the running hypervisor's release, such as 4.17; "." where there is none."""
    version = sysfs / "hypervisor/version"
    return f"{_first_line(version / 'major')}.{_first_line(version / 'minor')}"


def running_version(sysfs: Path) -> str | None:
    """Return the running hypervisor's version, such as 4.17.7, as libxenstat puts it; None where it isn't told."""
    release = running_release(sysfs)
    return None if release == "." else release + _first_line(sysfs / "hypervisor/version/extra")


def find_libraries(name: str, folders: tuple[str, ...], release: str) -> list[Path]:
    """Return every library of Xen's of this name, such as libxenstat, in `folders` (globs) and LD_LIBRARY_PATH.

    That of the running `release` comes first, then the newest: several can lie side by side after an upgrade, and only
    the running hypervisor's own speaks its interface.
    """
    places = [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    places += [folder for pattern in folders for folder in Path("/").glob(pattern.lstrip("/"))]
    found: dict[Path, Path] = {}
    for folder in places:
        for path in sorted(folder.glob(f"{name}.so.*")):  # of a file's names the shortest: libxenstat.so.4.17
            found.setdefault(path.resolve(), path)

    def preference(path: Path) -> tuple[bool, list[int]]:
        version = path.name.partition(".so.")[2]
        belongs = version == release or version.startswith(release + ".")
        return belongs, [int(part) for part in re.findall(r"\d+", version)]

    return sorted(found.values(), key=preference, reverse=True)


def _first_line(path: Path) -> str:
    try:
        return path.read_text().partition("\n")[0].strip()
    except OSError:
        return ""


class _Library:
    """An opened libxenstat and its handle."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Two views of one library. CDLL gives up Python's global lock while C runs: right for calls that can
            # hang. PyDLL keeps it, which is cheaper: right for the thousands of getters that only read a field.
            slow: ctypes.CDLL = ctypes.CDLL(str(path), use_errno=True)
            quick: ctypes.CDLL = ctypes.PyDLL(str(path))
            self._init = _function(slow, "init", c_void_p)
            self._uninit = _function(slow, "uninit", None, c_void_p)
            self._get_node = _function(slow, "get_node", c_void_p, c_void_p, c_uint)
            self._free_node = _function(slow, "free_node", None, c_void_p)
            self._getters = _Getters(quick)
        except (OSError, AttributeError) as error:
            raise SourceUnavailable(f"{path} can't be used: {error}") from error
        self._handle = self._init()
        if not self._handle:
            raise SourceUnavailable(
                f"{path.name}: xenstat_init failed ({os.strerror(ctypes.get_errno())}); "
                "the exporter needs root in Dom0, or CAP_DAC_OVERRIDE, and Xen's daemons running"
            )

    def close(self) -> None:
        self._uninit(self._handle)

    def snapshot(self, networks: bool) -> RawNode:
        node = self._get_node(self._handle, _ALWAYS | (_NETWORK if networks else 0))
        if not node:
            raise SourceError(f"xenstat_get_node failed ({os.strerror(ctypes.get_errno())})")
        try:
            return self._getters.node(node, networks)
        finally:
            self._free_node(node)


class _Getters:
    """The library's field getters, grouped as its header groups them."""

    def __init__(self, library: ctypes.CDLL) -> None:
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
        # In the order of RawDomain's fields; likewise below.
        self._domain = [getter("domain_id", c_uint), getter("domain_name", c_char_p)]
        self._domain += [getter(f"domain_{name}") for name in ("cpu_ns", "cur_mem", "max_mem")]
        self._domain += [
            getter(f"domain_{name}", c_uint)
            for name in ("ssid", "dying", "crashed", "shutdown", "paused", "blocked", "running")
        ]
        self._num_vcpus, self._nth_vcpu = getter("domain_num_vcpus", c_uint), nth("domain_vcpu")
        self._vcpu = [getter("vcpu_online", c_uint), getter("vcpu_ns")]
        self._num_networks, self._nth_network = getter("domain_num_networks", c_uint), nth("domain_network")
        self._network = [getter("network_id", c_uint)]
        self._network += [getter(f"network_{name}") for name in RawNetwork._fields[1:-1]]
        self._num_vbds, self._nth_vbd = getter("domain_num_vbds", c_uint), nth("domain_vbd")
        self._vbd = [getter("vbd_type", c_uint), getter("vbd_dev", c_uint)]
        self._vbd += [getter(f"vbd_{name}") for name in ("oo_reqs", "rd_reqs", "wr_reqs", "rd_sects", "wr_sects")]
        try:
            self._vbd.append(getter("vbd_error", c_bool))
        except AttributeError:  # before Xen 4.13
            self._vbd.append(lambda _vbd: None)

    def node(self, node: int, networks: bool) -> RawNode:
        domains = _parts(node, self._num_domains, self._nth_domain)
        return RawNode(
            tuple(self._read_domain(domain, networks) for domain in domains), *[get(node) for get in self._node]
        )

    def _read_domain(self, domain: int, with_networks: bool) -> RawDomain:
        vcpus = _parts(domain, self._num_vcpus, self._nth_vcpu)
        networks = _parts(domain, self._num_networks, self._nth_network) if with_networks else []
        vbds = _parts(domain, self._num_vbds, self._nth_vbd)
        return RawDomain(
            tuple(RawVcpu(*[get(vcpu) for get in self._vcpu]) for vcpu in vcpus),
            tuple(RawNetwork(*[get(network) for get in self._network]) for network in networks),
            tuple(RawVbd(*[get(vbd) for get in self._vbd]) for vbd in vbds),
            *[get(domain) for get in self._domain],
        )


def _parts(whole: int, count: Any, nth: Any) -> list[int]:
    """Return all parts; raises SourceRubbish where one is NULL, which a getter would take for a pointer and crash.

    The library keeps its count when it has no memory for an array, so this also ends a count beyond all reason early.
    """
    parts = []
    for index in range(count(whole)):
        part = nth(whole, index)
        if part is None:
            raise SourceRubbish(f"{count.__name__} says {count(whole)}, but {nth.__name__} {index} is NULL")
        parts.append(part)
    return parts


def _function(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    """Return xenstat_`name` with its types set; raises AttributeError where the library lacks it."""
    function = getattr(library, f"xenstat_{name}")
    function.restype = result
    function.argtypes = arguments
    return function
