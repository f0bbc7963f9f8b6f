"""Finds used ports and the programs that use them."""

import contextlib
import socket
import time
from collections.abc import Iterable
from pathlib import Path

from deploy import StackError
from deploy.parts import Part

LISTEN = "0A"  # TCP state in /proc/net/tcp, see include/net/tcp_states.h


def require_free(parts: Iterable[tuple[Part, int]], patience: float, command: str = "make up") -> None:
    """Raise `StackError` for the first part whose port is still taken after `patience` seconds.

    `command` is the user's, shown with another port as the remedy.
    """
    deadline = time.monotonic() + patience
    for part, port in parts:
        while (reason := _why_not(port)) is not None:
            if time.monotonic() > deadline:
                other = port + 5 if 1024 <= port < 65530 else part.default_port
                raise StackError(
                    f"{part.name} needs port {port}, {reason}; e.g. {command} {part.port_variable}={other}"
                )
            time.sleep(0.2)


def _why_not(port: int) -> str | None:
    """Why no program can listen on a loopback port; None if one can."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # like the programs: allows ports in TIME_WAIT
        try:
            probe.bind(("127.0.0.1", port))
        except PermissionError:
            return "which only root may use: choose one above 1023"
        except OSError:
            owner = _listener(port) or "a program that only root can see"
            return f"which {owner} uses: stop it or choose another port"
    return None


def _listener(port: int) -> str | None:
    """The program that listens on a port, as "name (pid 123)"; None if not visible."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                fields = line.split()
                if int(fields[1].rpartition(":")[2], 16) == port and fields[3] == LISTEN:
                    inodes.add(f"socket:[{fields[9]}]")
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            if any(str(file.readlink()) in inodes for file in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text().strip()} (pid {process.name})"
    return None
