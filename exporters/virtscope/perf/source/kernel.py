"""The kernel's counters through perf_event_open(2): the one place that makes the system call.

Everything above takes a `Kernel`, so that tests can put one of their own below it. Structures and numbers are those of
include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import NamedTuple, Protocol

from virtscope.shell.sources import SourceUnavailable

# The call's number on each architecture, by asm/unistd.h; libc has no function for it.
_CALL = {"x86_64": 298, "i386": 336, "i686": 336, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}

_ATTR_BYTES = 72  # PERF_ATTR_SIZE_VER1: up to config2, which every kernel since 2.6.33 takes

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


class Kernel(Protocol):
    """perf_event_open(2) and what is done with its descriptors. All raise OSError with the kernel's errno."""

    def open(self, attr: Attr, target: int, cpu: int, leader: int, flags: int) -> int:
        """Open a counter of `target` (-1, or with PID_CGROUP a cgroup folder's descriptor) on `cpu`.

        It joins the group of the descriptor `leader`, or leads one of its own at -1. Returns its descriptor.
        """

    def read(self, leader: int, size: int) -> bytes:
        """Return what the kernel says of the leader's group, at most `size` bytes."""

    def close(self, descriptor: int) -> None:
        """Close a counter."""


class Linux:
    """The kernel this runs on."""

    def __init__(self) -> None:
        """Raises SourceUnavailable on an architecture whose system call number isn't known here."""
        try:
            self._number = _CALL[platform.machine()]
        except KeyError:
            raise SourceUnavailable(f"perf_event_open has no number here for {platform.machine()}") from None
        self._libc: ctypes.CDLL = ctypes.CDLL(None, use_errno=True)
        self._libc.syscall.restype = ctypes.c_long

    def open(self, attr: Attr, target: int, cpu: int, leader: int, flags: int) -> int:
        read_format = FORMAT_GROUP | FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING
        # type, size, config, sample_period, sample_type, read_format, flags, wakeup_events, bp_type, config1, config2
        encoded = struct.pack(
            "=IIQQQQQIIQQ", attr.type, _ATTR_BYTES, attr.config, 0, 0, read_format, 0, 0, 0, attr.config1, attr.config2
        )
        descriptor = self._libc.syscall(
            ctypes.c_long(self._number),
            encoded,
            ctypes.c_int(target),
            ctypes.c_int(cpu),
            ctypes.c_int(leader),
            ctypes.c_ulong(flags | _CLOEXEC),
        )
        if descriptor < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return int(descriptor)

    def read(self, leader: int, size: int) -> bytes:
        return os.read(leader, size)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)
