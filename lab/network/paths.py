"""A step as one shell script: it makes a path between two network namespaces, and runs what is measured over it.

The script has a mount namespace of its own with an empty /run, in which the names of the network namespaces are. Nobody
else sees them, and nothing is to be removed: the kernel does, once the last of the script's processes has ended. The
path to a guest is there already, as the user has made it.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deploy.programs import CHECKOUT
from lab.network.outputs import AFTERWARDS
from lab.network.scenario import BRIDGE, LOOPBACK, RECEIVE, VETH, Configuration

PORT, WARM_UP_PORT = 5201, 5202
SERVER, CLIENT, SWITCH = "server", "client", "switch"
ADDRESSES = {SERVER: "192.0.2.1", CLIENT: "192.0.2.2"}  # of TEST-NET-1 (RFC 5737)
MTU = 1500  # of all, loopback too, so that packets are the same on each path
DEVICE = "eth0"
EVENTS = ("instructions", "cycles")
LISTENING = "Server listening on"  # what iperf3 says when it does
LISTEN_SECONDS = 10


@dataclass(frozen=True)
class Ends:
    """The commands of a step: the end that waits, what isn't measured at first, what is, and what says more then."""

    servers: Mapping[int, Sequence[str]]
    """By the port on which each listens."""
    warm_up: Sequence[str]
    client: Sequence[str]
    afterwards: Sequence[str] = ()

    def enclosed(self, by: Callable[[Sequence[str]], list[str]]) -> Ends:
        """The same with each command as this makes it."""
        after = by(self.afterwards) if self.afterwards else ()
        servers = {port: by(server) for port, server in self.servers.items()}
        return Ends(servers, by(self.warm_up), by(self.client), after)


class Cpus(NamedTuple):
    """Where both ends run, as lists for taskset."""

    server: str
    client: str


def ends(path: str) -> tuple[str, str, str, list[tuple[str, str]]]:
    """The namespaces of server and client, the server's address, and all namespaces' devices with offloads."""
    if path == LOOPBACK:
        return SERVER, SERVER, "127.0.0.1", [(SERVER, "lo")]
    devices = [(SERVER, DEVICE), (CLIENT, DEVICE)]
    if path == BRIDGE:
        devices += [(SWITCH, SERVER), (SWITCH, CLIENT)]
    return SERVER, CLIENT, ADDRESSES[SERVER], devices


def make(path: str) -> list[list[str]]:
    """The commands that make a path."""
    if path == LOOPBACK:
        return [_ip("netns add", SERVER), _ip("-n", SERVER, f"link set lo mtu {MTU} up")]
    made = [_ip("netns add", name) for name in (SERVER, CLIENT)]
    if path == VETH:
        made += [_ip("link add", DEVICE, "netns", SERVER, "type veth peer name", DEVICE, "netns", CLIENT)]
    else:
        made += [_ip("netns add", SWITCH), _ip("-n", SWITCH, "link add name bridge type bridge")]
        for end in (SERVER, CLIENT):
            made += [
                _ip("link add", DEVICE, "netns", end, "type veth peer name", end, "netns", SWITCH),
                _ip("-n", SWITCH, "link set", end, f"mtu {MTU} master bridge up"),
            ]
        made += [_ip("-n", SWITCH, "link set bridge up")]
    for end, address in ADDRESSES.items():
        made += [
            _ip("-n", end, "address add", f"{address}/24", "dev", DEVICE),
            _ip("-n", end, "link set", DEVICE, f"mtu {MTU} up"),
        ]
    return made


def iperf3_client(of: Configuration, address: str, seconds: int, port: int = PORT) -> list[str]:
    """The end that connects, and says who sends. Without Nagle's delay, so that small messages stay small."""
    direction = ["--reverse"] if of.direction == RECEIVE else []
    what = [f"--length={of.size}", "--no-delay", f"--time={seconds}", *direction]
    return ["iperf3", f"--client={address}", f"--port={port}", "--json", *what]


def iperf3(of: Configuration, address: str, warm_up: int, duration: int) -> Ends:
    """Both ends of a stream; each is to be enclosed, but the servers in a guest.

    The warm-up has a server of its own: after each client iperf3 closes its socket and opens it again, and resets who
    has connected meanwhile.
    """
    server = ["iperf3", "--server", "--forceflush", f"--bind={address}"]  # which says at once that it listens
    servers = {port: [*server, f"--port={port}"] for port in (WARM_UP_PORT, PORT)}
    before = iperf3_client(of, address, warm_up, WARM_UP_PORT)
    return Ends(servers, before, iperf3_client(of, address, duration))


def device(said: str) -> str:
    """The device in what `ip route get` prints of an address; empty if there is none.

    >>> device("192.0.2.5 dev virbr0 src 192.0.2.1 uid 0 \\\\    cache")
    'virbr0'
    """
    found = re.search(r"(?<!\S)dev (\S+)", said)
    return found[1] if found else ""


def script(path: str, offloads: str, of: Ends, cpus: Cpus, *, events: bool) -> str:
    """A whole step on this machine: CPU times before and after, what the client says between, and perf's counts."""
    serving, calling, _, devices = ends(path)
    switch = [
        ["ip", "netns", "exec", where, sys.executable, "-m", "lab.network.offloads", offloads, device]
        for where, device in devices
    ]
    there = ["ip", "netns", "exec", serving]
    lines = [
        shlex.join(["cd", str(CHECKOUT)]),
        "mount -t tmpfs -o mode=755 tmpfs /run",
        *map(shlex.join, (*make(path), *switch)),
        "trap 'kill $servers 2>/dev/null || true' EXIT",
        *(line for port, server in of.servers.items() for line in _serve(there, server, port, cpus)),
        *_measured(["ip", "netns", "exec", calling, "taskset", "--cpu-list", cpus.client], of, events=events),
    ]
    return "\n".join(lines) + "\n"


def _serve(there: Sequence[str], server: Sequence[str], port: int, cpus: Cpus) -> list[str]:
    """The lines that start a server, and go on once it listens; `there` comes before what runs there."""
    listening = [*there, "grep", "-q", f":{port:04X} 00000000:0000 0A", "/proc/net/tcp"]
    return [
        f"{shlex.join([*there, 'taskset', '--cpu-list', cpus.server, *server])} >/run/server 2>&1 &",
        'servers="$servers $!" tries=0',
        f"until {shlex.join(listening)}; do",
        "  kill -0 $! 2>/dev/null || tries=end",
        f'  [ "$tries" != end ] && [ $((tries += 1)) -lt {LISTEN_SECONDS * 10} ] || {{ cat /run/server; exit 1; }}',
        "  sleep 0.1",
        "done",
    ]


def script_to_guest(of: Ends, cpus: Cpus, *, events: bool) -> str:
    """The same with the servers in a guest, where they run already."""
    lines = [
        shlex.join(["cd", str(CHECKOUT)]),
        "mount -t tmpfs -o mode=755 tmpfs /run",
        *_measured(["taskset", "--cpu-list", cpus.client], of, events=events),
    ]
    return "\n".join(lines) + "\n"


def _measured(run: Sequence[str], of: Ends, *, events: bool) -> list[str]:
    """The part of a script in which the servers listen; `run` comes before what the client's end runs."""
    perf = ["perf", "stat", "-a", "-x,", f"--event={','.join(EVENTS)}", "--output=/run/events", "--"] if events else []
    return [
        f"{shlex.join([*run, *of.warm_up])} >/run/warm-up 2>&1 || {{ cat /run/warm-up; exit 1; }}",
        'grep "^cpu " /proc/stat',
        shlex.join([*perf, *run, *of.client]),
        'grep "^cpu " /proc/stat',
        *(["cat /run/events"] if events else []),
        *([f"echo {AFTERWARDS}", shlex.join(of.afterwards)] if of.afterwards else []),
    ]


def _ip(*words: str) -> list[str]:
    """A command of ip(8); what has blanks is several words."""
    return ["ip", *(part for word in words for part in word.split())]
