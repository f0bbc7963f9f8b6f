"""A network namespace that routes packets to a container behind a veth and to a guest behind a tap. As root."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

CONTAINER, GUEST = "10.97.2.2", "10.97.3.2"

FLOOD = """
# Sends UDP to an address.
import contextlib, socket, sys
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    with contextlib.suppress(OSError):
        out.sendto(bytes(100), (sys.argv[1], 9))
"""
SEND = """
# Sends a packet now and then.
import socket, sys, time
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print("ready", flush=True)
while True:
    out.sendto(b"x", (sys.argv[1], 9))
    time.sleep(0.1)
"""
TAP = """
# Serves a tap like QEMU: writes a broadcast of the guest, then reads.
import fcntl, os, struct
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000
tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"tap", IFF_TAP | IFF_NO_PI))
os.write(tap, b"\\xff" * 6 + bytes([2, 0, 0, 0, 0, 2]) + b"\\x08\\x00" + bytes(50))
print("ready", flush=True)
while True:
    os.read(tap, 2000)
"""


class Network:
    """Three namespaces: of the router, of the container and of a sender; the `with` block ends them."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as at_end:
            self._router, self._container, self._sender = (_namespace(at_end) for _ in range(3))
            for namespace, device, network in ((self._sender, "sender", 1), (self._container, "container", 2)):
                self._configure(
                    self._router,
                    f"ip link add {device} type veth peer name eth0 netns {namespace}",
                    f"ip addr add 10.97.{network}.1/24 dev {device}",
                    f"ip link set {device} up",
                )
                self._configure(
                    namespace,
                    f"ip addr add 10.97.{network}.2/24 dev eth0",
                    "ip link set eth0 up",
                    f"ip route add default via 10.97.{network}.1",
                )
            self._configure(
                self._router,
                "echo 1 >/proc/sys/net/ipv4/ip_forward",
                "ip tuntap add tap mode tap",
                "ip addr add 10.97.3.1/24 dev tap",
                "ip link set tap up",
                f"ip neigh add {GUEST} lladdr 02:00:00:00:00:02 dev tap",
            )
            self._at_end = at_end.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._at_end.close()

    def bridge(self) -> None:
        """Put the container's veth into a bridge, which has the router's address instead."""
        self._configure(
            self._router,
            "ip link add bridge type bridge",
            "ip addr del 10.97.2.1/24 dev container",
            "ip link set container master bridge",
            "ip addr add 10.97.2.1/24 dev bridge",
            "ip link set bridge up",
        )

    def container(self) -> list[str]:
        """A command: a process of the container that sends few packets."""
        return [*_inside(self._container), sys.executable, "-c", SEND, "10.97.2.1"]

    def guest(self) -> list[str]:
        """A command that serves the tap."""
        return [*_inside(self._router), sys.executable, "-c", TAP]

    def flood(self, address: str) -> list[str]:
        """A command that sends many packets, which the router forwards to this address."""
        return [*_inside(self._sender), sys.executable, "-c", FLOOD, address]

    def flood_from_container(self) -> list[str]:
        """A command: a process of the container that sends many packets to the router itself."""
        return [*_inside(self._container), sys.executable, "-c", FLOOD, "10.97.2.1"]

    def _configure(self, namespace: int, *commands: str) -> None:
        subprocess.run([*_inside(namespace), "sh", "-ec", "\n".join(commands)], check=True)


def _namespace(at_end: contextlib.ExitStack) -> int:
    """The process id of a new network namespace's only process."""
    process = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo ready; exec sleep 3600"], stdout=subprocess.PIPE)
    at_end.callback(process.communicate, timeout=30)
    at_end.callback(process.kill)
    assert process.stdout
    process.stdout.readline()
    return process.pid


def _inside(namespace: int) -> Sequence[str]:
    return ["nsenter", f"--net=/proc/{namespace}/ns/net"]


def has_tun() -> bool:
    """Whether taps can be made here."""
    return Path("/dev/net/tun").exists()
