"""OpenVZ: the kernel's own metrics of a host with OpenVZ or Virtuozzo containers."""

from collections.abc import Sequence

from grafana_foundation_sdk.builders import table

from dashboards import marks, panels, tables, variables
from dashboards.layout import Row, page
from dashboards.signals import Signal, openvz

_NARROW = 76  # pixels for "1.23 GiB"; five fit next to a resource in half a page


def _beancounters(title: str, what: str, signals: Sequence[Signal]) -> table.Panel:
    panel = tables.columns(
        title,
        f"{what}: requests refused in the time shown, held now, held at most, the barrier above which only urgent "
        "requests are met, and the limit. A dash: there is none. Choose the container at the top.",
        {"resource": "Resource"},
        signals,
        width=12,
        height=12,
    )
    for signal in signals[1:]:
        panel.override_by_name(signal.name, tables.as_wide(_NARROW))
    return panel


PAGE = page(
    uid="virtscope-openvz",
    title="OpenVZ",
    question="What does OpenVZ itself report of this host's containers?",
    answer=(
        "Their beancounters, disk I/O accounting, waits and quotas, in the kernel's own words. Overhead and CPU "
        "wait, which all platforms have, are on the page Host."
    ),
    variables=[
        *variables.of_platform("openvz", "Container", "openvz_container_uptime_seconds", "ctid"),
        variables.container(),
    ],
    annotations=[marks.changes()],
    rows=[
        Row(
            "",
            *panels.tiles(openvz.FAILURES, openvz.LONGEST_OF_ALL, openvz.ALL_DIRTY, openvz.ALL_PROCESSES),
            tables.columns(
                "Containers",
                "Every running container chosen, those with most processes first. Name, host name and "
                "template: only where vestat-exporter reads vzlist (docs/vestat-exporter.md).",
                {"ctid": "CTID", "name": "Name", "hostname": "Host name", "template": "Template"},
                openvz.CONTAINERS,
                height=9,
            ),
        ),
        Row(
            "Beancounters of one container",
            _beancounters("Memory of $ctid", "Resources counted in bytes", openvz.BYTES),
            _beancounters("Numbers of $ctid", "Resources counted by number", openvz.NUMBERS),
        ),
        Row(
            "CPU and waits",
            *map(panels.half, (openvz.CPU_BY_MODE, openvz.LONGEST_WAIT, openvz.SCHEDULINGS)),
            tables.columns(
                "Waits of the host's processes",
                "Waits of all processes of the host for a CPU (scheduling), memory (aloc*) and pages from swap and "
                "disk (swap_in, page_in): seconds and waits per second, and the longest recent wait.",
                {"type": "Wait for"},
                openvz.HOST_WAITS,
                width=12,
                height=10,
            ),
            collapsed=True,
        ),
        Row(
            "Disk I/O (container 0 is the host)",
            panels.half(openvz.READ_BYTES),
            panels.half(openvz.WRITTEN_BYTES),
            tables.columns(
                "Accounted disk I/O",
                "Dirty memory: changed and not yet written. Per second: bytes dirtied, bytes never written because "
                "their file was deleted (cancelled), bytes that the kernel attributed too late (missed), calls of "
                "read() and write(), and requests to FUSE file systems, which Virtuozzo 7 counts.",
                {"ctid": "CTID"},
                openvz.IO,
            ),
            tables.columns(
                "Syncs",
                "Calls per second of fsync() (fdatasync() and others included), sync() and sync_file_range(), "
                "each of which waits for the disk, and how many wait now (In).",
                {"ctid": "CTID"},
                openvz.SYNCS,
            ),
            tables.columns(
                "Unknown values of ioacct",
                "Values that this version of vestat-exporter does not know, in whatever unit the kernel prints them.",
                {"ctid": "CTID", "field": "Field"},
                [openvz.UNKNOWN],
                height=6,
            ),
            collapsed=True,
        ),
        Row(
            "Disk quotas",
            tables.columns(
                "Quotas",
                "Disk space and inodes that each container uses, and its limits. A dash: there is no limit.",
                {"ctid": "CTID"},
                openvz.QUOTAS,
            ),
            tables.columns(
                "Grace periods",
                "For how long each container may exceed a soft limit, and when it will be held to one that it "
                "exceeds (below 0: it is). A dash: it exceeds none.",
                {"ctid": "CTID", "limit": "Limit of"},
                openvz.GRACE,
                height=6,
            ),
            collapsed=True,
        ),
        Row(
            "Kernel",
            tables.columns(
                "Versions and units of the host's kernel",
                "Versions of the kernel and of its files, what /proc/vz/vestat counts in, the jiffies in a "
                "second, and the file that decided it.",
                {"file": "File", "version": "Version", "unit": "Unit", "hz": "Hz", "decided_by": "Decided by"},
                [openvz.FILES],
            ),
            collapsed=True,
        ),
    ],
)
