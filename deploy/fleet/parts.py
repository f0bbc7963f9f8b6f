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
BUILT_AS = {"prometheus": "prometheus3", "alertmanager": "alertmanager034", "thanos": "thanos"}  # by deploy.go_programs

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

    `starter` precedes the program on the command line, and replaces itself by it.
    """

    name: str
    kind: Kind
    arguments: tuple[str, ...]
    address: str
    grpc: str = ""
    write: str = ""  # a receiver's address for remote write
    shard: int = -1  # a Prometheus's, from 0
    replica: str = ""
    starter: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """Its program, a key of `BUILT_AS`."""
        return self.kind if self.kind in {"prometheus", "alertmanager"} else "thanos"

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
    return (
        *receivers(settings),
        *queries(settings),
        *alertmanagers(settings),
        *rules(settings),
        *(prometheus(settings, shard, replica) for shard in range(settings.shards) for replica in REPLICAS),
    )


def prometheus(settings: Settings, shard: int, replica: str) -> Part:
    """One of the two Prometheus of a shard."""
    name = f"prometheus-{shard}-{replica}"
    port = _PROMETHEUS + len(REPLICAS) * shard + REPLICAS.index(replica)
    address = settings.address("prometheus", port, shard=shard, replica=replica)
    arguments = (
        f"--config.file={RUNNING}/{name}.yml",
        f"--storage.tsdb.path=data/{name}",
        f"--storage.tsdb.retention.time={settings.retention}",
        f"--web.listen-address={settings.own(port)}",
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
    return Part(name, "prometheus", arguments, address, shard=shard, replica=replica, starter=starter)


def receivers(settings: Settings) -> tuple[Part, ...]:
    """Thanos Receive: receives the shards' samples, distributes them among receivers, and serves its own."""
    return tuple(_receive(settings, number) for number in range(settings.receivers))


def _receive(settings: Settings, number: int) -> Part:
    name = f"receive-{number}"
    http, grpc, write = (port + number for port in (_RECEIVE, _RECEIVE_GRPC, _RECEIVE_WRITE))
    address, stores, writes = (settings.address("receive", port, number=number) for port in (http, grpc, write))
    arguments = (
        "receive",
        f"--tsdb.path=data/{name}",
        f"--tsdb.retention={settings.retention}",
        f'--label=receive="{number}"',
        f"--http-address={settings.own(http)}",
        f"--grpc-address={settings.own(grpc)}",
        f"--remote-write.address={settings.own(write)}",
        # Unused, and by default on all addresses.
        f"--receive.capnproto-address=127.0.0.1:{settings.first_port + _RECEIVE_CAPNPROTO + number}",
        f"--receive.local-endpoint={stores}",
        "--receive.hashrings-file=hashring.json",
        "--receive.hashrings-algorithm=ketama",
        f"--receive.replication-factor={REPLICATION}",
        # A write that timed out is retried, though parts of it may be stored: without this window, samples older than
        # the newest are refused, and Prometheus drops the whole write.
        "--tsdb.out-of-order.time-window=1h",
    )
    return Part(name, "receive", arguments, address, stores, writes)


def writes_to(settings: Settings, shard: int, replica: str) -> Part:
    """The receiver that a Prometheus writes to; the two of a pair have different ones."""
    return _receive(settings, (len(REPLICAS) * shard + REPLICAS.index(replica)) % settings.receivers)


def queries(settings: Settings) -> tuple[Part, ...]:
    """Thanos Query: Prometheus's API for all receivers and the central rules' results."""
    stores = [part.grpc for part in receivers(settings)]
    stores += [settings.address("rule", _RULE_GRPC + at, replica=replica) for at, replica in enumerate(REPLICAS)]
    return tuple(
        Part(
            f"query-{number}",
            "query",
            (
                "query",
                f"--http-address={settings.own(_QUERY + number)}",
                f"--grpc-address={settings.own(_QUERY_GRPC + number)}",
                *(f"--endpoint={store}" for store in stores),
                *(f"--query.replica-label={label}" for label in COPY_LABELS),
                # Merges the samples of all copies. The default follows one copy while it has samples, and after a
                # switch to another copy skips up to twice the previous gap: minutes for a guest that was down.
                "--deduplication.func=chain",
            ),
            settings.address("query", _QUERY + number, number=number),
            settings.address("query", _QUERY_GRPC + number, number=number),
        )
        for number in range(settings.queries)
    )


def rules(settings: Settings) -> tuple[Part, ...]:
    """A pair of Thanos Rule: evaluates the central rules, and stores the results itself."""
    return tuple(_rule(settings, number, replica) for number, replica in enumerate(REPLICAS))


def _rule(settings: Settings, number: int, replica: str) -> Part:
    name = f"rule-{replica}"
    http, grpc = _RULE + number, _RULE_GRPC + number
    # With two Queries, each Rule of the pair asks another one. A Query that has just started returns no data for a
    # second, which resets the pending alerts of its Rule.
    asked = queries(settings)[number :: len(REPLICAS)] or queries(settings)
    arguments = (
        "rule",
        f"--data-dir=data/{name}",
        f"--tsdb.retention={settings.retention}",
        f'--label=replica="{replica}"',
        "--alert.label-drop=replica",
        f"--http-address={settings.own(http)}",
        f"--grpc-address={settings.own(grpc)}",
        f"--eval-interval={settings.evaluation_interval}",
        "--rule-file=rules/central/*.yml",
        *(f"--query={part.url}" for part in asked),
        f"--alert.query-url={asked[0].url}",
        *(f"--alertmanagers.url={part.url}" for part in alertmanagers(settings)),
    )
    address, stores = (settings.address("rule", port, replica=replica) for port in (http, grpc))
    return Part(name, "rule", arguments, address, stores, replica=replica)


def alertmanagers(settings: Settings) -> tuple[Part, ...]:
    """A cluster of Alertmanagers: all get all alerts, and one notifies."""
    numbers = range(settings.alertmanagers)
    gossip = [settings.address("alertmanager", _GOSSIP + number, number=number) for number in numbers]
    addresses = [settings.address("alertmanager", _ALERTMANAGER + number, number=number) for number in numbers]
    return tuple(
        Part(
            f"alertmanager-{number}",
            "alertmanager",
            (
                "--config.file=alerts/alertmanager.yml",
                f"--storage.path=data/alertmanager-{number}",
                "--data.maintenance-interval=1m",
                f"--web.listen-address={settings.own(_ALERTMANAGER + number)}",
                f"--web.external-url=http://{addresses[number]}",
                "--web.route-prefix=/",
                f"--cluster.listen-address={settings.own(_GOSSIP + number)}",
                *(f"--cluster.peer={other}" for other in gossip if other != gossip[number]),
            ),
            addresses[number],
        )
        for number in numbers
    )


assert _PROMETHEUS + len(REPLICAS) * MAX["shards"] <= _ALERTMANAGER
