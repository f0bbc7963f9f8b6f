"""The hosts that may be probed, from a file, and a connection for each probed one."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import Metric

from virtscope.ssh.child import Room
from virtscope.ssh.connection import Connection
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable
from virtscope.toolkit.document import WatchedFiles
from virtscope.toolkit.families import family

log = logging.getLogger(__name__)

# A name or an address, never an option, a user or a path. Other settings belong in ssh's configuration.
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}", re.ASCII)


def parse(text: str) -> tuple[str, ...]:
    """Parse the file: one host per line, # for comments; raises SourceMalformed for an invalid host."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    hosts = [line for line in lines if line]
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise SourceMalformed(f"{host[:80]!r} is no host's name or address")
    return tuple(dict.fromkeys(hosts))


class Hosts:
    """The hosts in the file, which is reloaded when it has changed."""

    def __init__(self, file: Path, ssh: Sequence[str]) -> None:
        """`ssh` is the program and its first options."""
        self._file = file
        self._ssh = ssh
        self._room = Room()
        self._lock = threading.Lock()  # guards everything below
        self._read: WatchedFiles | None = None  # the file as it was read
        self._known: tuple[str, ...] = ()
        self._connections: dict[str, Connection] = {}

    def names(self) -> tuple[str, ...]:
        """Return the hosts that may be probed; raises SourceError if the file is unusable.

        Hosts removed from the file are disconnected.
        """
        with self._lock:
            if self._read and self._read.unchanged():
                return self._known
            read = WatchedFiles()
            try:
                known = parse(read.read(self._file).decode())
            except OSError as error:
                raise SourceUnavailable(f"{self._file}: {error.strerror}") from error
            except UnicodeDecodeError as error:
                raise SourceMalformed(f"{self._file} is not UTF-8") from error
            except SourceMalformed as error:
                raise SourceMalformed(f"{self._file}: {error}") from error
            self._read, self._known = read, known
            gone = [self._connections.pop(name) for name in set(self._connections) - set(known)]
            log.info("hosts read", extra={"fields": {"file": self._file, "hosts": len(known)}})
        for connection in gone:
            threading.Thread(target=connection.close, name="closing", daemon=True).start()
        return known

    def connection(self, host: str) -> Connection:
        """Return the connection of a host in names(); it connects at the first request."""
        with self._lock:
            if host not in self._connections:
                self._connections[host] = Connection(host, self._ssh, self._room)
            return self._connections[host]

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            connections = list(self._connections.values())
        for connection in connections:
            connection.kill()
        for connection in connections:
            connection.close()

    def origin(self) -> str:
        """Return the file's path."""
        return str(self._file)

    def families(self) -> list[Metric]:
        """Return the connections' metrics of probed hosts; raises like names()."""
        names = self.names()
        with self._lock:
            probed = [({"target": name}, self._connections[name]) for name in names if name in self._connections]
        return [
            family("ssh_hosts", "Hosts that may be probed.", [({}, len(names))]),
            family(
                "ssh_connected", "1 if the host is connected.", [(labels, each.connected) for labels, each in probed]
            ),
            family(
                "ssh_connections_total",
                "Connections made to the host.",
                [(labels, each.connections) for labels, each in probed],
            ),
            family("ssh_requests_total", "Requests to the host.", [(labels, each.requests) for labels, each in probed]),
            family(
                "ssh_failures_total",
                "Failed requests, by reason: timeout, error (such as no connection), malformed (it can't be parsed).",
                [
                    ({**labels, "reason": reason}, count)
                    for labels, each in probed
                    for reason, count in each.failures.items()
                ],
            ),
            family(
                "ssh_received_bytes_total",
                "Bytes received from the host.",
                [(labels, each.received_bytes()) for labels, each in probed],
            ),
            family(
                "ssh_client_cpu_seconds_total",
                "CPU time of the ssh clients on this machine, in seconds.",
                [(labels, each.cpu_seconds()) for labels, each in probed],
            ),
        ]
