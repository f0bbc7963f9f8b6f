"""A Xen host over ssh: xentop's text and the toolstack's answers, for the sources of xentop-exporter.

Each scrape runs one iteration, `xentop -b -i 1`, so nothing runs on the host between scrapes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from virtscope.openvz.procfs import Files, Unread
from virtscope.ssh.connection import NOT_FOUND, Connection, RemotePrograms, fetched
from virtscope.toolkit.collect import SourceError, SourceUnavailable
from virtscope.xen.exporter import live_text
from virtscope.xen.hypervisor import version
from virtscope.xen.netdev import RawNetwork, WhereReadable, by_domid
from virtscope.xen.recorded import Printed
from virtscope.xen.toolstack import ToolstackPoller
from virtscope.xen.xentop import Iteration
from virtscope.xen.xl import TIMEOUT, Xl

XENTOP = "xentop -b -f -n -x -v -i 1"
BEFORE_4_0 = "xentop -b -n -x -v -i 1"  # may truncate names
NET_DEV = "/proc/net/dev"


class XenHost:
    """xentop-exporter's sources over ssh, and the fetch that they read."""

    name = "xentop"

    def __init__(self, connection: Connection, xl_interval: float) -> None:
        self.connection = connection
        self._request = XENTOP
        self._version: str | None = None
        self._version_of = -1  # the connection of its request
        self._fetched: Printed | SourceError = SourceUnavailable("not read yet")
        self._networks: Files | SourceError = SourceUnavailable("not read yet")
        self._poller: ToolstackPoller | None = None
        if xl_interval:
            xl = Xl(RemotePrograms(connection, TIMEOUT), _no_xenstore)
            self._poller = ToolstackPoller(xl_interval, xl)
            self._poller.background.start()
        networks = WhereReadable(self._by_domid, NET_DEV, "xentop")
        self.sources = live_text(self._printed, self._origin, self._poller, networks)

    def fetch(self, deadline: float) -> None:
        """Run xentop and read the networks; raises Unreachable without a connection.

        Other failures are the sources'.
        """
        self._fetched = fetched(lambda: self._print(deadline))
        if self._poller and isinstance(self._fetched, Printed):  # it maps them to domains
            self._networks = fetched(lambda: self.connection.files("net", deadline))

    def close(self) -> None:
        """Stop background requests."""
        if self._poller:
            self._poller.background.close()

    def _print(self, deadline: float) -> Printed:
        begun = time.monotonic()
        text = self._iteration(deadline)
        age = time.monotonic() - begun
        connections = self.connection.connections
        if self._version_of != connections:  # once per connection: it changes only at a reboot
            found = self.connection.files("xen", deadline)
            parts = [found.get(f"version/{part}", b"") for part in ("major", "minor", "extra")]
            self._version = version(*(_first_line(part) if isinstance(part, bytes) else "" for part in parts))
            self._version_of = connections
        return Printed(Iteration(text, age, None), self._version)

    def _iteration(self, deadline: float) -> bytes:
        printed = self.connection.ask(self._request, deadline)
        problem = printed.problem()
        if self._request == XENTOP and "invalid option" in problem and "f" in problem[-4:]:
            self._request = BEFORE_4_0
            return self._iteration(deadline)
        if printed.status == NOT_FOUND:
            raise SourceUnavailable("xentop is not in the host's PATH; install Xen's tools there (Debian: xen-utils)")
        if problem:
            raise SourceError(f"xentop {problem}")
        return printed.output

    def _by_domid(self) -> dict[int, list[RawNetwork]]:
        """Return the host's vifs; raises SourceError like the request, and like netdev.by_domid()."""
        found = self._networks
        if isinstance(found, SourceError):
            raise found

        def nodename(interface: bytes) -> bytes:
            content = found.get(f"{interface.decode('utf-8', 'backslashreplace')}/device/nodename", b"")
            return b"" if isinstance(content, Unread) else content

        text = next((content for path, content in found.items() if path.endswith("/net/dev")), Unread("ENOENT"))
        if isinstance(text, Unread):
            raise SourceUnavailable(f"the host's {NET_DEV} can't be read: {text.errno}")
        return by_domid(text, nodename)

    def _printed(self) -> Printed:
        if isinstance(self._fetched, SourceError):
            raise self._fetched
        return self._fetched

    def _origin(self) -> str:
        return f"ssh:{self.connection.host}:{self._request}"


def _first_line(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace").partition("\n")[0].strip()


def _no_xenstore(_paths: Sequence[str]) -> list[bytes | None]:
    """Replace XenStore, whose socket isn't here; raises SourceUnavailable."""
    raise SourceUnavailable("XenStore is not read over ssh")
