"""Domains' CPU wait, by a call that XenServer and XCP-ng add to Xen and its libxenctrl (ctypes).

Stock Xen has no such call. XenServer's patch queue (mixed-domain-runstates.patch in github.com's
xenserver/xen.pg and xcp-ng-rpms/xen; XenServer 7.1 to 8, XCP-ng 7.5 to 9, Xen 4.7 to 4.19) adds a domctl and two C
functions:

    int xc_get_runstate_info(xc_interface *, uint32_t domid, xc_runstate_info_t *);        all of them
    int xc_get_runstate_info_ext(xc_interface *, uint32_t domid, struct xen_domctl *);     since autumn 2025

The first returns 64 bytes, whose form "cannot change": state and missed_changes (32 bits each), state_entry_time and
time[6] (64 bits, nanoseconds). The second returns the whole domctl: a header of 16 bytes, the same 64 bytes, and
runnable, running and nonaffine (64 bits each), which are means over the domain's vCPUs.

Upstream hasn't assigned the domctl's number, so it may mean anything in another Xen: this module only calls the
library's function. A domain's counters start as if it had run since the host's boot: only differences are meaningful.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable
from ctypes import c_uint32, c_void_p
from pathlib import Path
from typing import NamedTuple

from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceUnavailable
from virtscope.xen.libxenctrl import Libxenctrl
from virtscope.xen.model import RUNSTATES, Waiting

_INFO = struct.Struct("=IIQ6Q")
_DOMCTL_HEADER = struct.Struct("=8xH6x")  # command and interface version, the domain, padding
_MEANS = struct.Struct("=QQ")
_AMPLE = 4096  # bytes; a domctl has 144, and a larger one of another release must not overflow the buffer

INSTEAD = "run node_exporter in the guests, whose steal the rules take"


class RawRunstate(NamedTuple):
    """A domain's run states; times in nanoseconds."""

    domid: int
    state: int
    missed_changes: int
    times: tuple[int, ...]  # in each of RUNSTATES
    runnable: int | None  # mean over all vCPUs, online or not; None: the hypervisor doesn't count it


def waiting(account: RawRunstate, name: str, vcpus: int) -> Waiting:
    """Return the times of the domain of this name. A domain in destruction has no vCPUs left."""
    runnable = account.runnable
    return Waiting(
        domid=account.domid,
        name=name,
        runstate_seconds={state: time / 1e9 for state, time in zip(RUNSTATES, account.times)},
        missed_changes=account.missed_changes,
        runnable_seconds=runnable * vcpus / 1e9 if runnable is not None and vcpus else None,
    )


class Runstate:
    """Reads from the hypervisor how long each domain was in each run state.

    The library is opened at the first read, and again after a failure. Whether it has the call is checked once: only an
    update of Xen can add it.
    """

    def __init__(self, sysfs: str = "/sys", folder: str = "") -> None:
        """`folder` has the library, if the loader doesn't find it."""
        self._sysfs = Path(sysfs)
        self._folder = folder
        self._library: _Library | None = None
        self._absence = ""

    def read(self, domids: Iterable[int]) -> list[RawRunstate]:
        """Return the run states of these domains, without domains that have ended.

        Raises SourceUnavailable if library or hypervisor lack the call, SourceError if it fails, SourceMalformed if its
        result is invalid.
        """
        library = self.open()
        try:
            return [account for account in map(library.runstate, domids) if account]
        except SourceError as error:
            library.close()
            self._library = None
            if isinstance(error, SourceUnavailable):
                self._absence = str(error)
            raise

    def open(self) -> _Library:
        """Open the library if it isn't open; raises SourceUnavailable and SourceError like read()."""
        if self._absence:
            raise SourceUnavailable(self._absence)
        if self._library is None:
            try:
                self._library = _Library(Libxenctrl(self._sysfs, self._folder))
            except SourceUnavailable as error:
                self._absence = f"{error}; {INSTEAD}"
                raise SourceUnavailable(self._absence) from error
        return self._library

    def origin(self) -> str:
        """Return the library and the function in use."""
        library = self._library  # another thread may be closing it
        return f"{library.name}, {library.function}" if library else ""


class _Library:
    """An opened libxenctrl that has the call; closed again if it hasn't."""

    def __init__(self, library: Libxenctrl) -> None:
        self.name, self.close, self._handle = library.name, library.close, library.handle
        known = [
            name for name in ("xc_get_runstate_info_ext", "xc_get_runstate_info") if hasattr(library.functions, name)
        ]
        if not known:
            library.close()
            raise SourceUnavailable(
                f"{self.name} has no xc_get_runstate_info, which only XenServer and XCP-ng add to Xen"
            )
        self.function = known[0]
        self._call = getattr(library.functions, self.function)
        self._call.argtypes = (c_void_p, c_uint32, c_void_p)

    def runstate(self, domid: int) -> RawRunstate | None:
        """Return a domain's run states, None if there is no such domain (any more)."""
        answer = ctypes.create_string_buffer(_AMPLE)
        if self._call(self._handle, domid, answer) < 0:
            code = ctypes.get_errno()
            if code == errno.ESRCH:
                return None
            if code in {errno.ENOSYS, errno.EOPNOTSUPP}:
                raise SourceUnavailable(f"{self.name} has {self.function}, but this hypervisor not; {INSTEAD}")
            if code in {errno.EACCES, errno.EPERM}:  # a library of another release, or a policy (XSM)
                raise SourceUnavailable(f"the hypervisor refuses {self.function} of {self.name}; {INSTEAD}")
            raise SourceError(f"{self.function} failed for domain {domid} ({os.strerror(code)})")
        if self.function == "xc_get_runstate_info":
            return _account(domid, answer.raw, 0)
        [whose] = _DOMCTL_HEADER.unpack_from(answer)
        if whose != domid:
            raise SourceMalformed(f"{self.function} answered for domain {whose}, not {domid}: {_hex(answer.raw)}")
        account = _account(domid, answer.raw, _DOMCTL_HEADER.size)
        runnable, running = _MEANS.unpack_from(answer, _DOMCTL_HEADER.size + _INFO.size)
        if runnable >= 1 << 63:
            raise SourceMalformed(f"{self.function} gave what is no time as runnable: {_hex(answer.raw)}")
        # Between an update and the reboot, the library is newer than the hypervisor, which leaves these at 0.
        return account._replace(runnable=runnable if running else None)


def _account(domid: int, answer: bytes, offset: int) -> RawRunstate:
    state, missed_changes, entered, *times = _INFO.unpack_from(answer, offset)
    if state > 5 or any(time >= 1 << 63 for time in (entered, *times)):
        raise SourceMalformed(f"what came for domain {domid} is no account of run states: {_hex(answer)}")
    return RawRunstate(domid, state, missed_changes, tuple(times), None)


def _hex(answer: bytes) -> str:
    return answer[:128].hex(" ", -8)
