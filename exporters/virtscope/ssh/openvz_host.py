"""An OpenVZ host over ssh: its procfs files, read by one request, for vestat-exporter's sources."""

from __future__ import annotations

from prometheus_client import Metric

from virtscope.openvz.exporter import Vz, sources
from virtscope.openvz.procfs import RecordedProcfs
from virtscope.openvz.vzlist import TIMEOUT, Vzlist
from virtscope.ssh.connection import Connection, RemotePrograms, fetched
from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.scrape import Source


class OpenvzHost:
    """vestat-exporter's sources over ssh, and the fetch that they read."""

    name = "vestat"

    def __init__(self, connection: Connection, vzlist_interval: float) -> None:
        self.connection = connection
        self._procfs = RecordedProcfs()
        self._failure: SourceError | None = None
        self._names = Vzlist(vzlist_interval, RemotePrograms(connection, TIMEOUT)) if vzlist_interval else None
        if self._names:
            self._names.background.start()
        of_host = sources(self._procfs, Vz(self._procfs, self._names))
        self.sources = [each if each.background else self._fetched(each) for each in of_host]

    def fetch(self, deadline: float) -> None:
        """Read the host's files; raises Unreachable without a connection. Other failures are the sources'."""
        files = fetched(lambda: self.connection.files("openvz", deadline))
        self._failure = files if isinstance(files, SourceError) else None
        if not isinstance(files, SourceError):
            self._procfs.show(files)

    def close(self) -> None:
        """Stop background requests."""
        if self._names:
            self._names.background.close()

    def _fetched(self, source: Source) -> Source:
        def families() -> list[Metric]:
            if self._failure:
                raise self._failure
            return source.read()

        return source._replace(read=families, origin=lambda: f"ssh:{self.connection.host}:{source.origin()}")
