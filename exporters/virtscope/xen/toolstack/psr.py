"""`xl psr-cmt-show`: each domain's share of the last-level cache and of the memory's bandwidth, per socket.

    Total RMID: 71
    Name                                        ID        Socket 0        Socket 1
    Total L3 Cache Size                                   30720 KB        30720 KB
    web01                                        1         2592 KB         4032 KB

The format is that of tools/xl/xl_psr.c in Xen's source (4.5 to 4.8: tools/libxl/xl_cmdimpl.c). Bandwidth is measured
over 10 ms, in KB/s; a KB has 1024 bytes.
"""

from __future__ import annotations

from virtscope.xen.toolstack import columns

KINDS = ("cache-occupancy", "total-mem-bandwidth", "local-mem-bandwidth")

_UNITS = {b"KB", b"KB/s"}
_PASSED_OVER = (b"Total RMID:", b"Total L3 Cache Size ")


def parse(output: bytes) -> tuple[dict[int, dict[int, int]], list[bytes]]:
    """Return bytes, or bytes per second, by domid and socket, and the lines that are not understood.

    Where a socket can't be read, xl leaves it out without a mark, so that it isn't known whose figures the others are.
    """
    figures: dict[int, dict[int, int]] = {}
    unknown = []
    sockets: list[int] = []
    for line in filter(None, output.split(b"\n")):
        words = line.split()
        if words[:2] == [b"Name", b"ID"] and words[-2:-1] == [b"Socket"]:  # a row ends in a unit, whatever its name
            sockets = columns.numbers(words[3::2]) or []
        elif sockets and (row := _row(line, len(sockets))):
            figures[row[0]] = dict(zip(sockets, row[1]))
        elif not line.startswith(_PASSED_OVER):
            unknown.append(line)
    return figures, unknown


def _row(line: bytes, sockets: int) -> tuple[int, list[int]] | None:
    row = columns.split(line, 1 + 2 * sockets)
    if row is None or not _UNITS.issuperset(row[1][2::2]):
        return None
    values = columns.numbers(row[1][:1] + row[1][1::2])
    return (values[0], [value * 1024 for value in values[1:]]) if values else None
