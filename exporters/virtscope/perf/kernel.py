"""The kernel's counters through perf_event_open(2): the one place that makes the system call.

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

# The call's number by architecture, from asm/unistd.h; libc has no function for it. What counts is the architecture
# of this process: a 32-bit Python on a 64-bit kernel calls by its own numbers.
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
    ("inherit_to_sample_id_all", ctypes.c_uint64, 18),  # inclusive; none of them is set
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
    """perf_event_open(2) and what is done with its descriptors. All raise OSError with the kernel's errno."""

    def __init__(self) -> None:
        """Raises SourceUnavailable on an architecture whose system call number isn't known here."""
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
        # Without a period it counts and doesn't sample. No other flag: neither pinned nor inherited.
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
        """Let the leader's group count.

        It is to be whole by then: a counter that joins a running group may stay at 0, without a word, until the kernel
        has another reason to schedule that group again.
        """
        fcntl.ioctl(leader, self._enable, 0)

    def read(self, leader: int, size: int) -> bytes:
        """Return what the kernel says of the leader's group, at most `size` bytes."""
        return os.read(leader, size)

    def close(self, descriptor: int) -> None:
        """Close a counter."""
        os.close(descriptor)


def raise_file_limit() -> int:
    """Let this process open as many files as it may without asking anyone, and return how many these are."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most
