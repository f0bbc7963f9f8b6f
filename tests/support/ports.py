"""Free loopback ports by range: no two pytest processes get the same one.

All are below those that the kernel gives to connections (ip_local_port_range starts at 32768), which can be taken at
any moment.
"""

import itertools
import os
import random
import socket

_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_WORKERS = max(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), 6)
_ROWS, _SINGLE, _END = 12_000, 24_000, 32_000


def _own(first: int, end: int) -> range:
    """This process's part of these ports."""
    width = (end - first) // _WORKERS
    return range(first + _WORKER * width, first + (_WORKER + 1) * width)


_single = itertools.cycle(random.sample(own := _own(_SINGLE, _END), len(own)))
_in_rows: set[int] = set()


def free_port() -> int:
    """A free TCP port that was not returned recently."""
    for port in itertools.islice(_single, len(own)):
        if _is_free(port):
            return port
    raise RuntimeError(f"none of {len(own)} ports is free")


def free_ports(count: int) -> int:
    """The first of this many consecutive free ports. They are never returned again, because their program may be
    restarted."""
    mine = _own(_ROWS, _SINGLE)
    for first in random.sample(mine[:-count], len(mine) - count):
        row = range(first, first + count)
        if _in_rows.isdisjoint(row) and all(map(_is_free, row)):
            _in_rows.update(row)
            return first
    raise RuntimeError(f"no {count} ports in a row are free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
