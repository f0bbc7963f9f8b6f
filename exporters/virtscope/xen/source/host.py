"""A host as libxenstat has it, its networks from /proc/net/dev, or libxenstat's where that can't be read."""

from __future__ import annotations

import logging
import threading

from virtscope.toolkit.sources import SourceError
from virtscope.xen.netdev import Vif, with_vifs
from virtscope.xen.source.libxenstat import Libxenstat, RawNode
from virtscope.xen.source.netdev import NetDev

log = logging.getLogger(__name__)


class HostReader:
    """Reads libxenstat's snapshots, and their networks from /proc/net/dev.

    The library reads that file too, and knows no interface that isn't named there: it is asked for networks only where
    the file can't be read or understood.
    """

    def __init__(self, library: Libxenstat, net_dev: NetDev) -> None:
        self._latest: RawNode | None = None  # while the library gives any
        self._idle = threading.Event()  # not before the first read either
        self._library = library
        self._net_dev = net_dev
        self._failure: str | None = None  # why the networks are libxenstat's, "" while they aren't; None: not read yet

    def read(self) -> RawNode:
        """Return the host as it is now; raises SourceError as the library does."""
        self._idle.clear()
        try:
            vifs = self._vifs()
            self._latest = node = self._library.read(networks=vifs is None)
        except SourceError:
            self._latest = None
            raise
        finally:
            self._idle.set()
        return node if vifs is None else with_vifs(node, vifs)

    def latest(self) -> RawNode | None:
        """Return the last snapshot, None if it failed; one that is being taken is waited for, but not for long."""
        self._idle.wait(0.2)
        return self._latest

    def origin(self) -> str:
        """Return the library's file name, and where the networks come from if they aren't its own."""
        return self._library.origin() + (f", networks from {self._net_dev.path}" if self._failure == "" else "")

    def _vifs(self) -> list[tuple[Vif, tuple[int, ...]]] | None:
        """Return the interfaces, or None where libxenstat is to be asked for them; a change of that is logged."""
        failure, vifs = "", None
        try:
            vifs = self._net_dev.read()
        except SourceError as error:
            failure = error.reason
            if failure != self._failure:
                log.warning("networks are libxenstat's", extra={"fields": {"reason": failure, "err": error}})
        if not failure and self._failure:
            log.info("networks are libxenstat's no more", extra={"fields": {"from": self._net_dev.path}})
        self._failure = failure
        return vifs
