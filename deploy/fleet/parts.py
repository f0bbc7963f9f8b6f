"""The programs of a fleet: their names, addresses and command lines.

Each runs in the folder that `fleet.generate` writes, with relative paths: its data is in data/NAME, next to the
configuration. No two parts share a port, even on different machines: a whole fleet fits on one machine, and firewall
rules can distinguish parts.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deploy import durations
from deploy.fleet.settings import MAX, REPLICAS, REPLICATION, Settings

# Starts a Prometheus, whose configuration is a link in RUNNING; has the same name in the fleet's folder.
STARTER = Path(__file__).with_name("prometheus.sh")
RUNNING = "running"

Kind = Literal["prometheus", "receive", "query", "rule", "alertmanager"]

# First port of each kind of part, relative to first_port.
_PROMETHEUS = 0
_ALERTMANAGER, _GOSSIP = 200, 210
_QUERY, _QUERY_GRPC = 220, 230
_RULE, _RULE_GRPC = 240, 242
_RECEIVE, _RECEIVE_GRPC, _RECEIVE_WRITE, _RECEIVE_CAPNPROTO = 250, 290, 330, 370

# Labels that only identify the replica which sent a sample. Query drops them and deduplicates series that differ in
# nothing else: of both in a pair, of three receivers, of a host before and after a change of shards.
COPY_LABELS = ("replica", "shard", "receive", "tenant_id")


@dataclass(frozen=True)
class Part:
    """A program of the fleet. `address` is its HTTP API's, as seen by others; `grpc` is its Store API's.

    `program` is one of fleet.programs, `arguments` are its command line. `starter` precedes it on the command line, and
    replaces itself by the program.
    """

    name: str
    kind: Kind
    program: str
    arguments: tuple[str, ...]
    address: str
    grpc: str = ""
    write: str = ""  # a receiver's address for remote write
    gossip: str = ""  # an Alertmanager's address for its cluster
    shard: int | None = None
    replica: str = ""
    starter: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The URL of its HTTP API."""
        return f"http://{self.address}"

    @property
    def data(self) -> str:
        """Its data folder, relative to the fleet's."""
        return f"data/{self.name}"

    @property
    def host(self) -> str:
        """Its machine's name."""
        return self.address.rpartition(":")[0]

    @property
    def is_here(self) -> bool:
        """Whether its address is loopback, so that it runs on this machine."""
        return self.host == "localhost" or self.host.startswith("127.")


def parts(settings: Settings) -> tuple[Part, ...]:
    """All parts in starting order: dependencies first."""
    found_receivers, found_queries = receivers(settings), queries(settings)
    return (
        *found_receivers,
        *found_queries,
        *alertmanagers(settings),
        *rules(settings),
        *(prometheus(settings, shard, replica) for shard in range(settings.shards) for replica in REPLICAS),
    )


def prometheus(settings: Settings, shard: int, replica: str) -> Part:
    """One of the two Prometheus of a shard."""
    name = f"prometheus-{shard}-{replica}"
    port = _PROMETHEUS + len(REPLICAS) * shard + REPLICAS.index(replica)
    host = settings.machine("prometheus", shard=shard, replica=replica)
    address = _at(settings, host, port)
    arguments = (
        f"--config.file={RUNNING}/{name}.yml",
        f"--storage.tsdb.path=data/{name}",
        f"--storage.tsdb.retention.time={settings.retention}",
        f"--web.listen-address={_at(settings, settings.listen, port)}",
        f"--web.external-url=http://{address}",
        "--web.route-prefix=/",
        "--rules.alert.for-grace-period=1m",
        # An Alertmanager that has just started gets inhibiting alerts before it notifies the others (group_wait: 30s).
        "--rules.alert.resend-delay=15s",
        "--enable-feature=concurrent-rule-eval",
        "--web.user-assets=docs",
        "--web.console.templates=consoles",
    )
    # Rates need a minute of scrapes, and records derived from other records come an evaluation later.
    too_low = math.ceil(
        60 + durations.parse(settings.scrape_interval) + 2 * durations.parse(settings.evaluation_interval)
    )
    starter = ("/bin/sh", STARTER.name, name, f"data/{name}", str(too_low))
    return Part(name, "prometheus", "prometheus", arguments, address, shard=shard, replica=replica, starter=starter)


def receivers(settings: Settings) -> tuple[Part, ...]:
    """Thanos Receive: receives the shards' samples, distributes them among receivers, and serves its own."""
    return tuple(_receive(settings, number) for number in range(settings.receivers))


def queries(settings: Settings) -> tuple[Part, ...]:
    """Thanos Query: Prometheus's API for all receivers and the central rules' results."""
    return tuple(_query(settings, number) for number in range(settings.queries))


def rules(settings: Settings) -> tuple[Part, ...]:
    """A pair of Thanos Rule: evaluates the central rules, and stores the results itself."""
    return tuple(_rule(settings, replica) for replica in REPLICAS)


def alertmanagers(settings: Settings) -> tuple[Part, ...]:
    """A cluster of Alertmanagers: all get all alerts, and one notifies."""
    return tuple(_alertmanager(settings, number) for number in range(settings.alertmanagers))


def writes_to(settings: Settings, shard: int, replica: str) -> Part:
    """The receiver that a Prometheus writes to; the two of a pair have different ones."""
    number = (len(REPLICAS) * shard + REPLICAS.index(replica)) % settings.receivers
    return receivers(settings)[number]


def _receive(settings: Settings, number: int) -> Part:
    name = f"receive-{number}"
    host = settings.machine("receive", number=number)
    grpc = _at(settings, host, _RECEIVE_GRPC + number)
    arguments = (
        "receive",
        f"--tsdb.path=data/{name}",
        f"--tsdb.retention={settings.retention}",
        f'--label=receive="{number}"',
        f"--http-address={_at(settings, settings.listen, _RECEIVE + number)}",
        f"--grpc-address={_at(settings, settings.listen, _RECEIVE_GRPC + number)}",
        f"--remote-write.address={_at(settings, settings.listen, _RECEIVE_WRITE + number)}",
        # Unused, and by default on all addresses.
        f"--receive.capnproto-address={_at(settings, '127.0.0.1', _RECEIVE_CAPNPROTO + number)}",
        f"--receive.local-endpoint={grpc}",
        "--receive.hashrings-file=hashring.json",
        "--receive.hashrings-algorithm=ketama",
        f"--receive.replication-factor={REPLICATION}",
        # A write that timed out is retried, though parts of it may be stored: without this window, samples older than
        # the newest are refused, and Prometheus drops the whole write.
        "--tsdb.out-of-order.time-window=1h",
    )
    address, write = _at(settings, host, _RECEIVE + number), _at(settings, host, _RECEIVE_WRITE + number)
    return Part(name, "receive", "thanos", arguments, address, grpc, write)


def _query(settings: Settings, number: int) -> Part:
    host = settings.machine("query", number=number)
    stores = [part.grpc for part in receivers(settings)]
    stores += [
        _at(settings, settings.machine("rule", replica=replica), _rule_ports(replica)[1]) for replica in REPLICAS
    ]
    arguments = (
        "query",
        f"--http-address={_at(settings, settings.listen, _QUERY + number)}",
        f"--grpc-address={_at(settings, settings.listen, _QUERY_GRPC + number)}",
        *(f"--endpoint={store}" for store in stores),
        *(f"--query.replica-label={label}" for label in COPY_LABELS),
        # Merges the samples of all copies. The default follows one copy while it has samples, and after a switch to
        # another copy skips up to twice the previous gap: minutes for a guest that was down.
        "--deduplication.func=chain",
    )
    address, grpc = _at(settings, host, _QUERY + number), _at(settings, host, _QUERY_GRPC + number)
    return Part(f"query-{number}", "query", "thanos", arguments, address, grpc)


def _rule(settings: Settings, replica: str) -> Part:
    name = f"rule-{replica}"
    host, (port, grpc_port) = settings.machine("rule", replica=replica), _rule_ports(replica)
    # With two Queries, each Rule of the pair asks another one. A Query that has just started returns no data for a
    # second, which resets the pending alerts of its Rule.
    found_queries = queries(settings)
    found_queries = found_queries[REPLICAS.index(replica) :: len(REPLICAS)] or found_queries
    arguments = (
        "rule",
        f"--data-dir=data/{name}",
        f"--tsdb.retention={settings.retention}",
        f'--label=replica="{replica}"',
        "--alert.label-drop=replica",
        f"--http-address={_at(settings, settings.listen, port)}",
        f"--grpc-address={_at(settings, settings.listen, grpc_port)}",
        f"--eval-interval={settings.evaluation_interval}",
        "--rule-file=rules/central/*.yml",
        *(f"--query={part.url}" for part in found_queries),
        f"--alert.query-url={found_queries[0].url}",
        *(f"--alertmanagers.url={part.url}" for part in alertmanagers(settings)),
    )
    return Part(
        name, "rule", "thanos", arguments, _at(settings, host, port), _at(settings, host, grpc_port), replica=replica
    )


def _rule_ports(replica: str) -> tuple[int, int]:
    number = REPLICAS.index(replica)
    return _RULE + number, _RULE_GRPC + number


def _alertmanager(settings: Settings, number: int) -> Part:
    name = f"alertmanager-{number}"
    all_gossip = [
        _at(settings, settings.machine("alertmanager", number=other), _GOSSIP + other)
        for other in range(settings.alertmanagers)
    ]
    address = _at(settings, settings.machine("alertmanager", number=number), _ALERTMANAGER + number)
    arguments = (
        "--config.file=alerts/alertmanager.yml",
        f"--storage.path=data/{name}",
        "--data.maintenance-interval=1m",
        f"--web.listen-address={_at(settings, settings.listen, _ALERTMANAGER + number)}",
        f"--web.external-url=http://{address}",
        "--web.route-prefix=/",
        f"--cluster.listen-address={_at(settings, settings.listen, _GOSSIP + number)}",
        *(f"--cluster.peer={gossip}" for gossip in all_gossip if gossip != all_gossip[number]),
    )
    return Part(name, "alertmanager", "alertmanager", arguments, address, gossip=all_gossip[number])


def _at(settings: Settings, host: str, port: int) -> str:
    return f"{host}:{settings.first_port + port}"


assert _PROMETHEUS + len(REPLICAS) * MAX["shards"] <= _ALERTMANAGER
