"""The kernel's counters through perf_event_open(2); the only module that makes the system call.

Structures and numbers are those of include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import resource
from collections.abc import Sequence
from typing import NamedTuple, Union

from virtscope.toolkit.collect import SourceUnavailable

# System call numbers by architecture, from asm/unistd.h; libc has no wrapper. The process's architecture counts: a
# 32-bit Python on a 64-bit kernel uses 32-bit numbers.
_CALL_64 = {
    "x86_64": 298,
    "aarch64": 241,
    "loongarch64": 241,
    "riscv64": 241,
    "ppc64": 319,
    "ppc64le": 319,
    "s390x": 331,
}
_CALL_32 = {
    **dict.fromkeys(("i386", "i586", "i686", "x86_64"), 336),
    **dict.fromkeys(("armv6l", "armv7l", "armv8l", "aarch64"), 364),
}

_Unsigned = Union[ctypes.c_uint32, ctypes.c_uint64]

# struct perf_event_attr as of PERF_ATTR_SIZE_VER1: up to config2, which every kernel since 2.6.33 takes. Its flags are
# C's bit fields: the first is the lowest bit on a little-endian machine and the highest on a big-endian one, as ctypes
# has them too.
ATTR_FIELDS: Sequence[tuple[str, type[_Unsigned]] | tuple[str, type[_Unsigned], int]] = [
    ("type", ctypes.c_uint32),
    ("size", ctypes.c_uint32),
    ("config", ctypes.c_uint64),
    ("sample_period", ctypes.c_uint64),
    ("sample_type", ctypes.c_uint64),
    ("read_format", ctypes.c_uint64),
    ("disabled", ctypes.c_uint64, 1),
    ("inherit_to_sample_id_all", ctypes.c_uint64, 18),  # inclusive; unset
    ("exclude_host", ctypes.c_uint64, 1),
    ("exclude_guest", ctypes.c_uint64, 1),
    ("exclude_callchain_kernel_to_end", ctypes.c_uint64, 43),
    ("wakeup_events", ctypes.c_uint32),
    ("bp_type", ctypes.c_uint32),
    ("config1", ctypes.c_uint64),
    ("config2", ctypes.c_uint64),
]


class _PerfEventAttr(ctypes.Structure):
    _fields_ = ATTR_FIELDS


FORMAT_TOTAL_TIME_ENABLED = 0x1
FORMAT_TOTAL_TIME_RUNNING = 0x2
FORMAT_GROUP = 0x8

PID_CGROUP = 0x4
_CLOEXEC = 0x8


class Attr(NamedTuple):
    """What to count: the fields of struct perf_event_attr that name an event."""

    type: int
    config: int
    config1: int = 0
    config2: int = 0
    exclude_guest: bool = False  # not while a KVM guest runs


class Kernel:
    """perf_event_open(2) and operations on its descriptors. All raise OSError with the kernel's errno."""

    def __init__(self) -> None:
        """Raises SourceUnavailable if the architecture's system call number is unknown."""
        bits = 8 * ctypes.sizeof(ctypes.c_void_p)
        try:
            self._number = (_CALL_64 if bits == 64 else _CALL_32)[platform.machine()]
        except KeyError:
            raise SourceUnavailable(
                f"the number of perf_event_open isn't known for {platform.machine()} at {bits} bits"
            ) from None
        # PERF_EVENT_IOC_ENABLE, _IO('$', 0): PowerPC has a bit for "neither reads nor writes".
        self._enable = 0x2400 | (1 << 29 if platform.machine().startswith("ppc") else 0)
        self._libc: ctypes.CDLL = ctypes.CDLL(None, use_errno=True)
        self._libc.syscall.restype = ctypes.c_long

    def open(self, attr: Attr, target: int, cpu: int, leader: int, flags: int) -> int:
        """Open a counter of `target` (-1, or with PID_CGROUP a cgroup folder's descriptor) on `cpu`.

        It joins the group of the descriptor `leader`, or leads one of its own at -1. Returns its descriptor.
        """
        # Without a period it counts instead of sampling. It is neither pinned nor inherited.
        encoded = _PerfEventAttr(
            type=attr.type,
            size=ctypes.sizeof(_PerfEventAttr),
            config=attr.config,
            read_format=FORMAT_GROUP | FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING,
            disabled=leader < 0,
            exclude_guest=attr.exclude_guest,
            config1=attr.config1,
            config2=attr.config2,
        )
        descriptor = self._libc.syscall(
            ctypes.c_long(self._number),
            ctypes.byref(encoded),
            ctypes.c_int(target),
            ctypes.c_int(cpu),
            ctypes.c_int(leader),
            ctypes.c_ulong(flags | _CLOEXEC),
        )
        if descriptor < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return int(descriptor)

    def start(self, leader: int) -> None:
        """Enable the leader's group.

        The group must be complete: an event added to a running group may silently stay at 0 until the kernel
        reschedules the group.
        """
        fcntl.ioctl(leader, self._enable, 0)

    def read(self, leader: int, size: int) -> bytes:
        """Read the leader's group, at most `size` bytes."""
        return os.read(leader, size)

    def close(self, descriptor: int) -> None:
        """Close a counter."""
        os.close(descriptor)


def raise_file_limit() -> int:
    """Raise the limit on open files to the hard limit, and return it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most
