"""ssh-exporter: its command line, and the answer to a probe."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Callable

from prometheus_client import Metric

from virtscope.ssh import authorized_key
from virtscope.ssh.connection import Connecting, Unreachable
from virtscope.ssh.hosts import Hosts
from virtscope.ssh.openvz_host import OpenvzHost
from virtscope.ssh.xen_host import XenHost
from virtscope.toolkit import cli
from virtscope.toolkit.collect import Outcome, SourceError, SourceReader
from virtscope.toolkit.pages import Refused
from virtscope.toolkit.scrape import Exporter, Source

log = logging.getLogger(__name__)

DEFAULT_PORT = 10295
FETCH_SECONDS = 30.0  # for a host to connect, and to answer one fetch; independent of scrape timeouts


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter until it is stopped, or print a line for authorized_keys; exits with 1 and one line on error."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["authorized-key"]:
        _print_authorized_key(words[1:])
        return
    given = cli.start(_flags(), words)
    config_file = getattr(given, "config_file", "")
    ssh = ["ssh", *([f"-F{config_file}"] if config_file else [])]
    hosts = Hosts(given.hosts_file, ssh)
    try:
        hosts.names()
    except SourceError as error:
        sys.exit(f"ssh-exporter: {error}")
    with contextlib.ExitStack() as at_end:
        at_end.callback(hosts.close)
        probed = Probed(hosts, given)
        at_end.callback(probed.close)
        own = Exporter("ssh", [Source("hosts", hosts.families, hosts.origin)])
        cli.serve(own, given, probed)


def _flags() -> argparse.ArgumentParser:
    known = cli.parser(
        "ssh-exporter",
        "Exposes Xen and OpenVZ hosts to Prometheus over ssh, with nothing installed on them.",
        DEFAULT_PORT,
        of_this_host=False,
    )
    known.epilog = "For the line in a host's authorized_keys: ssh-exporter authorized-key --help"
    add, unset = partial(cli.add, known), argparse.SUPPRESS
    hosts = "the hosts that may be probed, one a line, as ssh knows them; read again when it changes"
    add("--hosts.file", "FILE", hosts, dest="hosts_file", type=Path, required=True, default=unset)
    config = "ssh's configuration (default: that of the user and of the system)"
    add("--ssh.config.file", "FILE", config, dest="config_file", default=unset)
    for program, default, what in (
        ("xl", "30s", "xl (or xm) for uuids, weights, caps, CPU pools and affinity"),
        ("vzlist", "1m", "vzlist for containers' names"),
    ):
        cli.add_interval(known, program, f"time between two rounds of asking {what}; 0: never", default=default)
    return known


def _print_authorized_key(words: Sequence[str]) -> None:
    known = argparse.ArgumentParser(
        prog="ssh-exporter authorized-key",
        description="Prints the line for root's authorized_keys on a watched host: a key that allows only the "
        "exporter's requests.",
        allow_abbrev=False,
    )
    known.add_argument("key", type=Path, metavar="FILE", help="the public key, such as id_ed25519.pub")
    known.add_argument(
        "--before-7.2",
        dest="before_7_2",
        action="store_true",
        help="for sshd before 7.2 (2016), which lacks `restrict` (`ssh -V` on the host)",
    )
    given = known.parse_args(words)
    try:
        print(authorized_key.line(given.key.read_text(), before_7_2=given.before_7_2))  # noqa: T201  the command's output
    except OSError as error:
        sys.exit(f"ssh-exporter: {given.key}: {error.strerror}")
    except ValueError as error:
        sys.exit(f"ssh-exporter: {given.key}: {error}")


class Target(Exporter):
    """A host as a module exposes it, fetched for each scrape.

    Fetching has its own thread, so that one scrape's timeout doesn't abort a fetch that others wait for.
    """

    def __init__(self, host: OpenvzHost | XenHost) -> None:
        super().__init__(host.name, host.sources, host.connection.host)
        self._host = host
        self._fetches = SourceReader(f"{host.name} of {host.connection.host}", self._fetch, FETCH_SECONDS)

    def scrape(self, seconds: float, *, gzipped: bool = False, shared: bool = False) -> bytes:
        """Return the exposition like Exporter.scrape(); raises Refused if the host is unreachable."""
        try:
            return super().scrape(seconds, gzipped=gzipped, shared=shared)
        except Unreachable as error:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"503: {self._host.connection.host}: {error}") from error

    def close(self) -> None:
        """Stop background requests."""
        self._host.close()
        self._fetches.close()

    def _fetch(self) -> list[Future[Any]]:
        self._host.fetch(time.monotonic() + FETCH_SECONDS)
        return super()._ask()  # they read the fetched values

    def _ask(self) -> list[Future[Any]]:
        return [self._fetches.ask()]

    def _outcomes(self, reads: list[Future[Any]], deadline: float) -> list[Outcome[list[Metric]]]:
        fetched = self._fetches.answer(reads[0], deadline)
        if not isinstance(fetched, Exception):
            return [read.result() for read in fetched]
        if isinstance(fetched, Unreachable):
            raise type(fetched)(str(fetched))  # a new object, as raising the same one accumulates tracebacks
        if not self._host.connection.connected:
            raise Connecting(str(fetched))
        return [fetched] * len(self._host.sources)


class Probed:
    """The probed hosts, each with its exporter since the first probe."""

    def __init__(self, hosts: Hosts, given: argparse.Namespace) -> None:
        self._hosts = hosts
        self._lock = threading.Lock()
        self._targets: dict[tuple[str, str], Target] = {}  # by host and module
        self._modules: dict[str, Callable[[str], Target]] = {
            "openvz": lambda host: Target(OpenvzHost(hosts.connection(host), given.vzlist_interval)),
            "xen": lambda host: Target(XenHost(hosts.connection(host), given.xl_interval)),
        }

    def find(self, target: str, module: str) -> Target:
        """Return the exporter of this host; raises Refused if the host isn't allowed or the module is unknown."""
        try:
            names = self._hosts.names()
        except SourceError as error:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"503: {error}") from error
        if module not in self._modules:
            raise Refused(HTTPStatus.BAD_REQUEST, f"400: the module is one of {', '.join(self._modules)}")
        if target not in names:
            raise Refused(HTTPStatus.NOT_FOUND, "404: this host is not in --hosts.file")
        with self._lock:
            for key in [key for key in self._targets if key[0] not in names]:
                self._targets.pop(key).close()
            if (target, module) not in self._targets:
                self._targets[target, module] = self._modules[module](target)
            return self._targets[target, module]

    def close(self) -> None:
        """Stop background requests."""
        with self._lock:
            for target in self._targets.values():
                target.close()
