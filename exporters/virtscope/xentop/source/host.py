"""A host as libxenstat has it, with the networks of /proc/net/dev that libxenstat loses."""

from __future__ import annotations

import logging
import threading

from virtscope.shell.sources import SourceError
from virtscope.xentop.netdev import lost_by_libxenstat, with_vifs
from virtscope.xentop.source.libxenstat import Libxenstat, RawNode
from virtscope.xentop.source.netdev import NetDev

log = logging.getLogger(__name__)


class HostReader:
    """Reads libxenstat's snapshots, their networks completed from /proc/net/dev."""

    def __init__(self, library: Libxenstat, net_dev: NetDev) -> None:
        self._latest: RawNode | None = None  # while the library gives any
        self._idle = threading.Event()  # not before the first read either
        self._library = library
        self._net_dev = net_dev
        self._networks_from = ""
        self._complaint = ""

    def read(self) -> RawNode:
        """Return the host as it is now; raises SourceError as the library does."""
        self._idle.clear()
        try:
            self._latest = node = self._library.read()
        except SourceError:
            self._latest = None
            raise
        finally:
            self._idle.set()
        return self._completed(node)

    def latest(self) -> RawNode | None:
        """Return the last snapshot, None if it failed; one that is being taken is waited for, but not for long."""
        self._idle.wait(0.2)
        return self._latest

    def origin(self) -> str:
        """Return the library's file name, and where the networks come from that it has lost."""
        return self._library.origin() + self._networks_from

    def _completed(self, node: RawNode) -> RawNode:
        complaint = ""
        try:
            completed = with_vifs(node, self._net_dev.read())
        except SourceError as error:  # what libxenstat has of networks is still good
            completed, complaint = node, str(error)
        if complaint and complaint != self._complaint:
            log.warning("networks are libxenstat's alone", extra={"fields": {"err": complaint}})
        self._complaint = complaint
        self._networks_from = f", networks from {self._net_dev.path}" if lost_by_libxenstat(node, completed) else ""
        return completed
