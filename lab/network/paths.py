"""A step as one shell script: it makes a path between two network namespaces, and runs the measured programs over it.

The script has its own mount namespace with an empty /run, which holds the names of the network namespaces. They are
invisible to others and need no cleanup: the kernel removes them after the script's last process has ended. The path to
a guest exists already, as the user has set it up.

A web load is nginx with two static files, and vegeta, which requests one of them at a constant rate: each request is
due at its time whether or not earlier ones are answered. Response time counts from the due time, as in wrk2: a delayed
client would be a waiting user.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy import go_programs
from deploy.programs import CHECKOUT
from lab.network.outputs import AFTERWARDS
from lab.network.scenario import BRIDGE, FILES, LOOPBACK, RECEIVE, VETH, Configuration, WebLoad

PORT, WARM_UP_PORT = 5201, 5202
SERVER, CLIENT, SWITCH = "server", "client", "switch"
ADDRESSES = {SERVER: "192.0.2.1", CLIENT: "192.0.2.2"}  # from TEST-NET-1 (RFC 5737)
MTU = 1500  # of all devices, including loopback, so that packets are the same on each path
DEVICE = "eth0"
EVENTS = ("instructions", "cycles")
LISTEN_TRIES = 100  # each 0.1 s
CONFIG = Path(__file__).with_name("nginx.conf")
IN_GUEST = Path(__file__).with_name("nginx.sh")
WEB_PORT = 8080  # as in CONFIG
NGINX = ("/usr/sbin/nginx", "-e", "stderr", "-c", f"/srv/config/{CONFIG.name}")
MAX_AT_ONCE = 1_000  # requests in flight; others wait, which counts as response time
TIMEOUT = 10  # seconds until a request fails
VEGETA = "/srv/config/vegeta"
RESULTS = "/srv/state/results"


@dataclass(frozen=True)
class Ends:
    """The commands of a step: servers, a warm-up, the measured client, and commands for its results afterwards."""

    servers: Mapping[int, Sequence[str]]
    """By listening port."""
    in_guest: Mapping[str, Sequence[str]]
    """The same for a guest, by name."""
    listening: str
    """A server's message when it listens."""
    warm_up: Sequence[str]
    client: Sequence[str]
    afterwards: Sequence[str] = ()


def ends(path: str) -> tuple[str, str, str, list[tuple[str, str]]]:
    """The namespaces of server and client, the server's address, and all namespaces' devices with offloads."""
    if path == LOOPBACK:
        return SERVER, SERVER, "127.0.0.1", [(SERVER, "lo")]
    devices = [(SERVER, DEVICE), (CLIENT, DEVICE)]
    if path == BRIDGE:
        devices += [(SWITCH, SERVER), (SWITCH, CLIENT)]
    return SERVER, CLIENT, ADDRESSES[SERVER], devices


def make(path: str) -> list[list[str]]:
    if path == LOOPBACK:
        return [line.split() for line in (f"ip netns add {SERVER}", f"ip -n {SERVER} link set lo mtu {MTU} up")]
    lines = [f"ip netns add {name}" for name in (SERVER, CLIENT)]
    if path == VETH:
        lines.append(f"ip link add {DEVICE} netns {SERVER} type veth peer name {DEVICE} netns {CLIENT}")
    else:
        lines += [f"ip netns add {SWITCH}", f"ip -n {SWITCH} link add name bridge type bridge"]
        for end in (SERVER, CLIENT):
            lines.append(f"ip link add {DEVICE} netns {end} type veth peer name {end} netns {SWITCH}")
            lines.append(f"ip -n {SWITCH} link set {end} mtu {MTU} master bridge up")
        lines.append(f"ip -n {SWITCH} link set bridge up")
    for end, address in ADDRESSES.items():
        lines.append(f"ip -n {end} address add {address}/24 dev {DEVICE}")
        lines.append(f"ip -n {end} link set {DEVICE} mtu {MTU} up")
    return [line.split() for line in lines]


def iperf3(of: Configuration, address: str, warm_up: int, duration: int) -> Ends:
    """Both ends of a stream. The connecting one decides who sends.

    The warm-up has its own server: after each client iperf3 closes its socket and reopens it, and resets connections
    made in between.
    """

    def client(port: int, seconds: int) -> list[str]:
        direction = ["--reverse"] if of.direction == RECEIVE else []
        # Without Nagle's delay, so that small messages stay small.
        what = ["--json", f"--length={of.size}", "--no-delay", f"--time={seconds}", *direction]
        return ["iperf3", f"--client={address}", f"--port={port}", *what]

    server = ["iperf3", "--server", "--forceflush", f"--bind={address}"]  # reports at once that it listens
    servers = {port: [*server, f"--port={port}"] for port in (WARM_UP_PORT, PORT)}
    in_guest = {shlex.join(command): command for command in servers.values()}
    return Ends(servers, in_guest, "Server listening on", client(WARM_UP_PORT, warm_up), client(PORT, duration))


def web(of: WebLoad, address: str, warm_up: int, duration: int, folder: Path) -> Ends:
    """nginx, in a guest on this address only, and vegeta; the files that they read are written to a folder.

    Raises `GoProgramsError`.
    """
    socket = f"[{address}]:{WEB_PORT}" if ":" in address else f"{address}:{WEB_PORT}"
    config, site = folder / "config", folder / "site"
    for made in (config, site):  # readable for everybody
        made.mkdir(mode=0o755)
    shutil.copyfile(CONFIG, config / CONFIG.name)
    shutil.copyfile(go_programs.path("vegeta"), config / "vegeta")
    (config / "vegeta").chmod(0o755)
    (config / "target").write_text(f"GET http://{socket}/{of.size}\n")
    for size in FILES:
        (site / str(size)).write_bytes(b"x" * size)

    def attack(seconds: int, results: str) -> list[str]:
        when = [f"-rate={of.rate}/s", f"-duration={seconds}s", f"-max-workers={MAX_AT_ONCE}", f"-timeout={TIMEOUT}s"]
        return [VEGETA, "attack", "-targets=/srv/config/target", *when, "-max-body=0", f"-output={results}"]

    there = CONFIG.read_text().replace(f"listen {WEB_PORT};", f"listen {socket};")
    return Ends(
        servers={WEB_PORT: NGINX},
        in_guest={"nginx": ["sh", "-c", IN_GUEST.read_text(), "nginx", there, *map(str, FILES)]},
        listening="start worker process ",
        warm_up=attack(warm_up, "/dev/null"),
        client=attack(duration, RESULTS),
        afterwards=[VEGETA, "encode", "-to=csv", RESULTS],
    )


def script(
    path: str | None, offloads: str, of: Ends, enclosed: Callable[[Sequence[str]], list[str]], *, events: bool
) -> str:
    """A whole step: CPU times before and after, the client's output between, and perf's counts.

    path: None for the path to a guest, where the servers already run.
    """
    lines = [shlex.join(["cd", str(CHECKOUT)]), "mount -t tmpfs -o mode=755 tmpfs /run"]
    cpus = sorted(os.sched_getaffinity(0))
    run, apart = (["taskset", "--cpu-list", str(cpu)] for cpu in (cpus[-1], cpus[-2:][0]))
    if path is not None:
        serving, calling, _, devices = ends(path)
        switch = [sys.executable, "-m", "lab.network.offloads", offloads]
        commands = [*make(path), *(["ip", "netns", "exec", where, *switch, device] for where, device in devices)]
        lines += [*map(shlex.join, commands), "trap 'kill $servers 2>/dev/null || true' EXIT"]
        there = ["ip", "netns", "exec", serving]
        for port, server in of.servers.items():
            lines += [
                f"{shlex.join([*there, *apart, *enclosed(server)])} >/run/server 2>&1 &",
                'servers="$servers $!" tries=0',
                f"until {shlex.join([*there, 'grep', '-q', f':{port:04X} 00000000:0000 0A', '/proc/net/tcp'])}; do",
                "  kill -0 $! 2>/dev/null || tries=end",
                f'  [ "$tries" != end ] && [ $((tries += 1)) -lt {LISTEN_TRIES} ] || {{ cat /run/server; exit 1; }}',
                "  sleep 0.1",
                "done",
            ]
        run = ["ip", "netns", "exec", calling, *run]
    perf = ["perf", "stat", "-a", "-x,", f"--event={','.join(EVENTS)}", "--output=/run/events", "--"] if events else []
    return "\n".join(
        [
            *lines,
            f"{shlex.join([*run, *enclosed(of.warm_up)])} >/run/warm-up 2>&1 || {{ cat /run/warm-up; exit 1; }}",
            'grep "^cpu " /proc/stat',
            shlex.join([*perf, *run, *enclosed(of.client)]),
            'grep "^cpu " /proc/stat',
            *(["cat /run/events"] if events else []),
            *([f"echo {AFTERWARDS}", shlex.join(enclosed(of.afterwards))] if of.afterwards else []),
            "",
        ]
    )
