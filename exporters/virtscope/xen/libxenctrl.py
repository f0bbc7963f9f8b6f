"""Xen's libxenctrl, called in this process by ctypes: its handle, and the idle time of physical CPUs.

    int xc_getcpuinfo(xc_interface *, int max_cpus, xc_cpuinfo_t *info, int *nr_cpus);

It fills one `uint64_t idletime` in nanoseconds for each CPU number of the host, 0 for a CPU that is offline
(get_cpu_idle_time in xen/common/sched/core.c). The signature is that of Xen 4.1 and later.
"""

from __future__ import annotations

import ctypes
import logging
import os
from ctypes import c_int, c_uint, c_uint64, c_void_p
from pathlib import Path

from virtscope.toolkit.collect import SourceError, SourceUnavailable
from virtscope.xen import hypervisor

log = logging.getLogger(__name__)

_CPUS = 256  # that are asked for at first; Xen's default limit
_MAX_CPUS = 1 << 16


class Libxenctrl:
    """The running release's libxenctrl and its handle."""

    def __init__(self, sysfs: Path, folder: str = "") -> None:
        """Open the library; `folder` has it, if the loader doesn't find it.

        Raises SourceUnavailable without the library, SourceError if it can't open the hypervisor's interface.
        """
        # Libraries of other releases have another interface to the hypervisor.
        release = hypervisor.running_release(sysfs)
        if not release:
            raise SourceUnavailable(f"no Xen here: {sysfs}/hypervisor/version is absent; run this in Dom0")
        self.name = f"libxenctrl.so.{release}"
        self.functions = hypervisor.load(str(Path(folder, self.name)))
        self._close = self.functions.xc_interface_close
        self._close.argtypes = (c_void_p,)
        opened = self.functions.xc_interface_open
        opened.restype = c_void_p
        opened.argtypes = (c_void_p, c_void_p, c_uint)
        self.handle: int | None = opened(None, None, 0)
        if not self.handle:
            said = os.strerror(ctypes.get_errno())
            raise SourceError(f"{self.name}: xc_interface_open failed ({said}); the exporter needs root in Dom0")

    def close(self) -> None:
        self._close(self.handle)

    def idle_times(self, cpus: int) -> list[int]:
        """Return the idle nanoseconds of at most so many CPUs, 0 for offline ones.

        Raises SourceUnavailable if the library lacks the call, SourceError if it fails.
        """
        call = getattr(self.functions, "xc_getcpuinfo", None)
        if call is None:
            raise SourceUnavailable(f"{self.name} has no xc_getcpuinfo")
        call.argtypes = (c_void_p, c_int, c_void_p, c_void_p)
        times, count = (c_uint64 * cpus)(), c_int(0)
        if call(self.handle, cpus, times, ctypes.byref(count)) < 0:
            raise SourceError(f"xc_getcpuinfo failed ({os.strerror(ctypes.get_errno())})")
        return times[: max(min(count.value, cpus), 0)]


class IdleTimes:
    """Reads the idle time of physical CPUs; the library is opened at the first read, and again after a failure."""

    def __init__(self, sysfs: str = "/sys", folder: str = "") -> None:
        """`folder` has the library, if the loader doesn't find it."""
        self._sysfs, self._folder = Path(sysfs), folder
        self._library: Libxenctrl | None = None
        self._cpus = _CPUS
        self._problem = ""  # logged last

    def read(self) -> list[int] | None:
        """Return the idle nanoseconds of each CPU since boot, 0 for offline ones; None if they can't be read."""
        try:
            if self._library is None:
                self._library = Libxenctrl(self._sysfs, self._folder)
            times = self._library.idle_times(self._cpus)
            while len(times) == self._cpus < _MAX_CPUS:
                self._cpus *= 2
                times = self._library.idle_times(self._cpus)
        except SourceError as error:
            if self._library:
                self._library.close()
            self._library = None
            if self._problem != str(error):
                self._problem = str(error)
                fields = {"err": error, "instead": "the host's CPU time is the sum over Dom0 and guests"}
                log.warning("idle time of CPUs unavailable", extra={"fields": fields})
            return None
        self._problem = ""
        return times
