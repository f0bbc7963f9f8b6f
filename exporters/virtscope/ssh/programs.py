"""A watched host's programs, run by host.sh: for what asks xl, xm and vzlist in the background."""

from __future__ import annotations

import time
from collections.abc import Sequence

from virtscope.ssh.connection import Connection
from virtscope.toolkit.bounded import Finished
from virtscope.toolkit.collect import SourceError, SourceUnavailable

_NOT_FOUND = 127  # a shell's exit status for it


class RemotePrograms:
    """Runs programs on a host, as Commands does here; which ones, with which arguments, is fixed by host.sh."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self.cpu_seconds = 0.0  # that of the host isn't known
        self._connection = connection
        self._timeout = timeout
        self._closed = False

    def find(self, name: str, _folders: Sequence[str] = ()) -> str:
        """Return the name: where it is, if it is, host.sh knows."""
        return name

    def run(self, program: str, *arguments: str) -> Finished:
        """Run a program to its end; raises as Connection.ask() does, SourceUnavailable where there is none."""
        if self._closed:
            raise SourceError("closed")
        request = " ".join([program, *arguments])
        finished = self._connection.ask(request, time.monotonic() + self._timeout, gives_way=True)
        if finished.status == _NOT_FOUND:
            raise SourceUnavailable(f"{program} is not there")
        return finished

    def close(self) -> None:
        """Run nothing any more; what is running ends with the connection."""
        self._closed = True
