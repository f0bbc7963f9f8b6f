"""Capabilities of this process: those for loading the program, and dropping them for good.

Numbers and structures are those of include/uapi/linux/capability.h and prctl.h. By hand: `grep Cap /proc/PID/status`.
"""

import contextlib
import ctypes
import os
import resource
from collections.abc import Iterator
from pathlib import Path

CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF = 21, 38, 39

_SELF = Path("/proc/self")  # always below /proc: with another host's --path.procfs this process has another id
_VERSION_3 = 0x20080522
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38


class PrivilegesError(Exception):
    """Dropping capabilities failed."""


def effective() -> int:
    """Return the effective capabilities, a bit each."""
    return _capabilities(_SELF / "status")["CapEff"]


def raise_memory_lock() -> None:
    """Raise the limit of locked memory, which includes BPF maps before Linux 5.11."""
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    _, most = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    for limits in (unlimited, (most, most)):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_MEMLOCK, limits)
            return


def keep_only(kept: int) -> None:
    """Drop all capabilities except these (a bit each), irrevocably.

    This affects only the calling thread and threads started later, so call it before starting others. Raises
    PrivilegesError if any thread keeps more.
    """
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)  # child processes get none either
    for number in range(64):
        if not kept >> number & 1:
            _prctl(_PR_CAPBSET_DROP, number)  # needs CAP_SETPCAP, which root has
    found = _capabilities(_SELF / "status")
    if _has_more(found, kept):  # otherwise skip the call, which a seccomp filter might refuse
        permitted = found["CapPrm"] & kept
        _set(permitted, permitted)  # not inheritable, so not ambient either
    for task in os.listdir(_SELF / "task"):  # noqa: PTH208  names are enough
        found = _capabilities(_SELF / "task" / task / "status")
        if _has_more(found, kept):
            raise PrivilegesError(f"a thread still has capabilities that were given up: {found}")


def _has_more(found: dict[str, int], kept: int) -> bool:
    return any(found.get(name, 0) & ~kept for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"))


@contextlib.contextmanager
def none_in_use() -> Iterator[None]:
    """Disable this thread's capabilities within the block, to test what works without."""
    found = _capabilities(_SELF / "status")
    _set(0, found["CapPrm"])
    try:
        yield
    finally:
        _set(found["CapEff"], found["CapPrm"])


_libc: ctypes.CDLL = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, argument: int) -> None:
    _libc.prctl(option, *map(ctypes.c_ulong, (argument, 0, 0, 0)))


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def _set(in_use: int, permitted: int) -> None:
    words = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable; lower halves first
    for half in (0, 1):
        words[3 * half] = in_use >> 32 * half & 0xFFFFFFFF
        words[3 * half + 1] = permitted >> 32 * half & 0xFFFFFFFF
    header = _Header(_VERSION_3, 0)
    if _libc.capset(ctypes.byref(header), words):
        error = ctypes.get_errno()
        raise PrivilegesError(f"capabilities can't be given up: {os.strerror(error)}")


def _capabilities(status: Path) -> dict[str, int]:
    """Return the sets of capabilities in /proc/PID/status by their names there, such as CapEff."""
    lines = (line.partition(":") for line in status.read_text(errors="replace").splitlines())
    return {name: int(value, 16) for name, _, value in lines if name.startswith("Cap")}
