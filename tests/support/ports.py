"""Loopback ports that nothing listens on."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket

_PORTS = 1_000
_first = 24_000 + _PORTS * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_ports = itertools.cycle(random.sample(range(_first, _first + _PORTS), _PORTS))


def free_port() -> int:
    """A TCP port that nothing listens on at this moment; not the one that was given before.

    It is none that another process of pytest would choose, nor one that the kernel gives to connections
    (ip_local_port_range begins at 32768): these are taken at any moment.
    """
    for port in itertools.islice(_ports, _PORTS):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"none of {_PORTS} ports is free")
