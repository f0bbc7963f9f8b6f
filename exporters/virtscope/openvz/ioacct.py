"""I/O of each container: /proc/bc/<id>/ioacct.

Format: bc_ioacct_show() in kernel/bc/io_acct.c of OpenVZ's kernels: a name and a value on each line. Kernels built
without it have no such file.

By hand: `cat /proc/bc/101/ioacct`; the host's own is ctid="0". Values not printed by this kernel are absent; unknown
ones are exposed with their name as label.
"""

from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.openvz.procfs import Procfs, is_number, read_each_bc
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable
from virtscope.toolkit.families import family, scalar
from virtscope.toolkit.totals import CPU, Totals

_PAGE_BYTES = 4096  # of the architectures that OpenVZ ran on, i386 and x86_64

# Wrong in every release: the kernel prints fsyncs_active here (bc_ioacct_show()).
_WRONG = "fdatasyncs_active"


class Ioaccts(NamedTuple):
    """The files of all containers and of the host (ctid "0"), and the number of malformed ones."""

    files: dict[str, dict[str, int]]  # by ctid: values by the kernel's names, in bytes or counts
    refused: int


def parse_each(files: Iterable[tuple[str, str]]) -> Ioaccts:
    """Parse each container's file, given as ctid and text.

    Raises SourceMalformed if all files are malformed.
    """
    well_formed, offences = {}, []
    for ctid, text in files:
        try:
            well_formed[ctid] = parse(text)
        except SourceMalformed as error:
            offences.append(error)
    if offences and not well_formed:
        raise offences[0]
    return Ioaccts(well_formed, len(offences))


def parse(text: str) -> dict[str, int]:
    """Parse the values of an ioacct file by name.

    Raises SourceMalformed with the offending line if one is truncated, repeated, or not a name and a number.
    """
    lines = text.split("\n")
    if lines.pop():
        raise SourceMalformed(f"the last line of ioacct is cut: {text[-80:]!r}")
    values: dict[str, int] = {}
    for line in lines:
        words = line.split()
        if len(words) != 2 or words[0] in values or not is_number(words[1]):
            raise SourceMalformed(f"a line of ioacct is malformed: {line[:80]!r}")
        values[words[0]] = int(words[1]) * (_PAGE_BYTES if words[0] == "io_pbs" else 1)
    return values


def read(procfs: Procfs) -> Ioaccts:
    """Return the I/O of all containers of this procfs.

    Raises SourceUnavailable if the kernel doesn't count it or the files aren't readable, SourceMalformed like
    parse_each().
    """
    absence = "this kernel doesn't count I/O by container"
    files = list(read_each_bc(procfs, "ioacct", absence))
    if not files:
        raise SourceUnavailable(f"{procfs}/bc/*/ioacct are absent: {absence}")
    return parse_each(files)


_FIELDS = {  # metric and help by the kernel's name
    "read": ("openvz_container_io_read_bytes_total", "Bytes read from disk for the container."),
    "write": ("openvz_container_io_write_bytes_total", "Bytes written to disk for the container."),
    "dirty": (
        "openvz_container_io_dirtied_bytes",
        (
            "Bytes modified in memory by the container since its start, whether written yet or not; may decrease "
            "slightly on newer kernels."
        ),
    ),
    "cancel": (
        "openvz_container_io_cancelled_bytes_total",
        "Bytes modified in memory that were never written, because their file was truncated or deleted.",
    ),
    "missed": (
        "openvz_container_io_missed_bytes_total",
        "Bytes modified in memory that the kernel could not attribute to the container in time; 0 on newer kernels.",
    ),
    "syncs_total": ("openvz_container_io_syncs_total", "Calls of sync() by the container."),
    "fsyncs_total": ("openvz_container_io_fsyncs_total", "Calls of fsync() by the container."),
    "fdatasyncs_total": ("openvz_container_io_fdatasyncs_total", "Calls of fdatasync() by the container."),
    "range_syncs_total": ("openvz_container_io_range_syncs_total", "Calls of sync_file_range() by the container."),
    "syncs_active": ("openvz_container_io_syncs_active", "Calls of sync() in progress."),
    "fsyncs_active": ("openvz_container_io_fsyncs_active", "Calls of fsync() in progress."),
    "range_syncs_active": ("openvz_container_io_range_syncs_active", "Calls of sync_file_range() in progress."),
    "vfs_reads": ("openvz_container_io_vfs_reads_total", "Read system calls of the container."),
    "vfs_read_chars": (
        "openvz_container_io_vfs_read_bytes_total",
        "Bytes read by system calls of the container, from disk, cache, pipes or elsewhere.",
    ),
    "vfs_writes": ("openvz_container_io_vfs_writes_total", "Write system calls of the container."),
    "vfs_write_chars": (
        "openvz_container_io_vfs_write_bytes_total",
        "Bytes written by system calls of the container, to disk, cache, pipes or elsewhere.",
    ),
    "io_pbs": ("openvz_container_io_dirty_bytes", "Bytes modified in memory by the container and not yet written."),
    "fuse_requests": ("openvz_container_io_fuse_requests_total", "Requests of the container to FUSE file systems."),
    "fuse_bytes": ("openvz_container_io_fuse_bytes_total", "Bytes moved between the container and FUSE file systems."),
}


def families(ioaccts: Ioaccts) -> list[Metric]:
    """Return the families of every container's I/O."""
    of_each = [({"ctid": ctid}, values) for ctid, values in ioaccts.files.items()]
    unknown = [
        ({**labels, "field": name}, value)
        for labels, values in of_each
        for name, value in values.items()
        if name not in _FIELDS and name != _WRONG
    ]
    refused = "Containers skipped because their ioacct was malformed."
    return [
        scalar("openvz_ioacct_refused_files", refused, ioaccts.refused),
        *(
            family(*about, [(labels, values.get(name)) for labels, values in of_each])
            for name, about in _FIELDS.items()
        ),
        family("openvz_container_io_unknown", "Unknown fields of ioacct, in the unit that the kernel prints.", unknown),
    ]


class DiskTotals:
    """Metrics of each read, with the host's totals of its containers, which keep what ended ones moved."""

    def __init__(self) -> None:
        self._totals = Totals()

    def families(self, ioaccts: Ioaccts) -> list[Metric]:
        """Return the families of this read, and add it to the totals."""
        moved = {
            # Nothing tells a container that was migrated here from one that has started.
            ctid: {CPU: 0.0, **{(way, "disk"): values.get(way) for way in ("read", "write")}}
            for ctid, values in ioaccts.files.items()
            if ctid != "0"
        }
        self._totals.add(moved, 0)
        return families(ioaccts) + [
            scalar(
                f"openvz_host_containers_io_{way}_bytes_total",
                f"Bytes {done} disk for all containers since the exporter's start, ended ones included up to their "
                "last read.",
                self._totals.values.get(way, 0.0),
            )
            for way, done in (("read", "read from"), ("write", "written to"))
        ]
