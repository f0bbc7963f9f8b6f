"""/proc/vz/veinfo: the processes and addresses of every running container, and of the host.

Format: veinfo_seq_show() in kernel/ve/vecalls.c: id, class (no longer used), number of processes, addresses. No header.

By hand: `cat /proc/vz/veinfo`.
"""

from typing import NamedTuple

from prometheus_client import Metric

from virtscope.openvz.procfs import is_number
from virtscope.toolkit.families import family, scalar


class Container(NamedTuple):
    """A container's number of processes and of IP addresses."""

    ctid: str
    processes: int
    addresses: int


class Veinfo(NamedTuple):
    """The file: its containers without the host (id 0), and the number of malformed lines."""

    containers: tuple[Container, ...]
    refused: int


def parse(text: str) -> Veinfo:
    """Parse the file; never fails. Text after the last newline is a truncated line, and refused."""
    lines = text.split("\n")
    refused = int(bool(lines.pop().strip()))
    containers: dict[str, Container] = {}
    for line in lines:
        fields = line.split()
        if not fields:
            continue
        numbers = fields[1:3]
        if len(numbers) < 2 or not all(map(is_number, numbers)) or fields[0] in containers:
            refused += 1
        elif fields[0] != "0":
            containers[fields[0]] = Container(fields[0], int(fields[2]), len(fields) - 3)
    return Veinfo(tuple(containers.values()), refused)


def families(veinfo: Veinfo) -> list[Metric]:
    """Return the families of every container's processes and addresses."""
    of_each = [({"ctid": container.ctid}, container) for container in veinfo.containers]
    return [
        family(
            "openvz_container_processes",
            "Processes of the container.",
            [(labels, container.processes) for labels, container in of_each],
        ),
        family(
            "openvz_container_addresses",
            "IP addresses of the container.",
            [(labels, container.addresses) for labels, container in of_each],
        ),
        scalar("openvz_veinfo_refused_rows", "Malformed lines of /proc/vz/veinfo.", veinfo.refused),
    ]
