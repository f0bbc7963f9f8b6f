"""The beancounters: what each container holds of 20 or so kernel resources, may hold, and was refused.

Format: kernel/bc/proc.c of OpenVZ's kernels (kernel/ve/bc/resources.c of the latest). A version line, a header, and a
row for each resource of each container; only a container's first row has its uid. Columns have 10 characters on 32-bit
kernels and 20 on 64-bit ones, but an uid may be a UUID that is wider, so rows are split at blanks.

A host of 1,000 containers has 25,000 rows and 125,000 figures. So they are taken a container's column at a time, by
calls that loop in C, and kept as columns up to the samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from itertools import chain, compress, repeat
from operator import mul
from pathlib import Path
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.samples import Sample

from virtscope.shell.sources import SourceRubbish, SourceUnavailable
from virtscope.vestat.source import procfs as files

Labels = dict[str, str]

CAPABILITIES = "CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH"  # the kernel asks for both

_COLUMNS = ("uid", "resource", "held", "maxheld", "barrier", "limit", "failcnt")
_PLACEHOLDER = "dummy"  # a row that the kernel has given up, and prints so that the others keep their places
_UNLIMITED = {str(2**31 - 1), str(2**63 - 1)}  # LONG_MAX of a 32-bit and of a 64-bit kernel
_LONGEST_FIGURE = 20  # digits of a 64-bit number
_PAGE_BYTES = 4096  # of the architectures that OpenVZ ran on, i386 and x86_64
_IN_BYTES = {"kmemsize", "tcpsndbuf", "tcprcvbuf", "othersockbuf", "dgramrcvbuf", "dcachesize"}


class Usage(NamedTuple):
    """Some resources, all in the same unit, column by column: the n-th item of each column is the n-th resource's.

    `held` may be above `maxheld`: the kernel sets resources aside in advance and counts these in one of the two only.
    A barrier or limit is None where there is none.
    """

    resources: tuple[str, ...]
    held: tuple[int, ...]
    maxheld: tuple[int, ...]
    barrier: tuple[int | None, ...]
    limit: tuple[int | None, ...]
    failures: tuple[int, ...]  # how often a request was refused, whatever the unit


class Beancounter(NamedTuple):
    """What a container, or the host (ctid "0"), holds: what is measured in bytes, and what is counted."""

    ctid: str
    bytes: Usage
    counts: Usage


def read(procfs: Path) -> list[Beancounter]:
    """Return the beancounters of the host whose procfs this is.

    From /proc/bc/resources, which knows more resources, or from /proc/user_beancounters on kernels before 2.6.18.
    Raises SourceUnavailable where neither is there, or may be read, and SourceRubbish as parse() does.
    """
    try:
        text = files.read_text(procfs, "bc/resources", CAPABILITIES)
    except SourceUnavailable as error:
        if isinstance(error.__cause__, PermissionError):
            raise
        text = files.read_text(procfs, "user_beancounters", CAPABILITIES)
    return parse(text)


def parse(text: str) -> list[Beancounter]:
    """Return what /proc/bc/resources or /proc/user_beancounters says; `text` is all of it.

    A resource that is not known is kept, as a count. Columns behind or between the known ones are passed over. A
    container that comes twice, as it does when others end while the file is read, is taken as it was last.

    Raises SourceRubbish with the offending text for a version other than 2.x, columns that lack a known one, and rows
    that are cut or hold anything but numbers: then no figure can be trusted to be in its right place.
    """
    version_line, _, rest = text.partition("\n")
    header, _, body = rest.partition("\n")
    word, _, version = version_line.strip().partition(":")
    if word != "Version" or not version.strip().startswith("2."):
        raise SourceRubbish(f"the beancounters begin with {version_line[:80]!r}, not with version 2.x")
    columns = header.split()
    if columns[:2] != ["uid", "resource"] or any(columns.count(name) != 1 for name in _COLUMNS):
        raise SourceRubbish(f"the beancounters have the columns {header[:300]!r}")

    unended = body[body.rfind("\n") + 1 :]
    # Its last figure may lack digits, unless it ends where the header does.
    if unended and len(unended.rstrip()) < len(header.rstrip()):
        raise SourceRubbish(f"the last row of the beancounters is cut: {unended[:300]!r}")
    body = body.rstrip() + "\n"

    # Nothing but an uid has a colon behind it: between two colons are the rows of the one, and the other uid.
    before, *blocks = body.split(":")
    if not blocks and before.strip():
        raise SourceRubbish(f"a row of the beancounters belongs to no uid: {before[:300]!r}")
    beancounters: dict[str, Beancounter] = {}
    for block in blocks:
        ctid = before[before.rfind("\n") + 1 :].strip()
        rows = block[: block.rfind("\n") + 1]
        if len(ctid.split()) != 1 or (not beancounters and before.strip() != ctid):
            raise SourceRubbish(f"a row of the beancounters has no uid where one should be: {before[-300:]!r}")
        beancounters[ctid] = _beancounter(ctid, rows, columns)
        before = block
    return list(beancounters.values())


def _beancounter(ctid: str, rows: str, columns: Sequence[str]) -> Beancounter:
    words = rows.split()
    width = len(columns) - 2  # figures in a row
    names = tuple(words[:: width + 1])
    del words[:: width + 1]
    if not (
        rows.count("\n") == len(names) > 0
        and len(words) == len(names) * width
        and max(map(len, words)) <= _LONGEST_FIGURE
        and "".join(words).encode().isdigit()  # bytes know ASCII's digits only
    ):
        raise SourceRubbish(f"a row of the beancounters makes no sense: {_offending(rows, width)[:300]!r}")
    held, maxheld, barrier, limit, failures = (words[columns.index(name) - 2 :: width] for name in _COLUMNS[2:])

    def usage(layout: _Layout) -> Usage:
        chosen, sizes = layout.chosen, layout.sizes
        return Usage(
            layout.resources,
            tuple(map(mul, map(int, compress(held, chosen)), sizes)),
            tuple(map(mul, map(int, compress(maxheld, chosen)), sizes)),
            _limits(tuple(compress(barrier, chosen)), sizes),
            _limits(tuple(compress(limit, chosen)), sizes),
            tuple(map(int, compress(failures, chosen))),
        )

    in_bytes, in_counts = _layouts(names)
    return Beancounter(ctid, usage(in_bytes), usage(in_counts))


@lru_cache(maxsize=8192)
def _limits(figures: tuple[str, ...], sizes: tuple[int, ...]) -> tuple[int | None, ...]:
    return tuple([None if figure in _UNLIMITED else int(figure) * size for figure, size in zip(figures, sizes)])


def _offending(rows: str, width: int) -> str:
    """Return the row that is wrong, for the message; all rows where it is hard to say which."""
    for row in rows.splitlines():
        _name, *figures = row.split() or [""]
        right = [f for f in figures if f.isascii() and f.isdigit() and len(f) <= _LONGEST_FIGURE]
        if len(figures) != width or figures != right:
            return row
    return rows


_sample = partial(tuple.__new__, Sample)


class _Layout(NamedTuple):
    """Which rows of a container are in one unit."""

    resources: tuple[str, ...]
    chosen: tuple[bool, ...]  # for each row, whether it is one of them
    sizes: tuple[int, ...]  # for each of them, what its figures are to be multiplied by


@lru_cache(maxsize=16)  # the rows are the same for every container of a kernel
def _layouts(names: tuple[str, ...]) -> tuple[_Layout, _Layout]:
    """Return how rows of these names fall into those in bytes and those in counts."""
    sizes = {name: _size(name) for name in names if name != _PLACEHOLDER}
    if len(sizes) != len(names) - names.count(_PLACEHOLDER):
        raise SourceRubbish(f"a resource of the beancounters comes twice: {' '.join(names)[:300]!r}")
    in_bytes, in_counts = (
        _Layout(
            tuple(name for name in sizes if (sizes[name] is None) is counted),
            tuple(name in sizes and (sizes[name] is None) is counted for name in names),
            tuple(size or 1 for size in sizes.values() if (size is None) is counted),
        )
        for counted in (False, True)
    )
    return in_bytes, in_counts


def _size(resource: str) -> int | None:
    """Return the bytes that one of this resource is; None for what has no size: processes, sockets, the unknown."""
    return _PAGE_BYTES if resource.endswith("pages") else 1 if resource in _IN_BYTES else None


_GAUGES = {
    "held": "{} of this resource that the container holds now{}.",
    "maxheld": "{} of this resource that the container has held at most{}, since its start or the last reset.",
    "barrier": "{} of this resource above which only urgent requests are met{}; absent where there is no barrier.",
    "limit": "{} of this resource that the container may hold at most{}; absent where there is no limit.",
}


def families(beancounters: Sequence[Beancounter]) -> list[Metric]:
    """Return every container's beancounters; the host's are ctid="0".

    See the same figures by hand, pages not yet in bytes, with `cat /proc/bc/resources`.

        openvz_beancounter_held_bytes{ctid="101",resource="privvmpages"} 7409664
        openvz_beancounter_limit_bytes{ctid="101",resource="privvmpages"} 219443200
        openvz_beancounter_held{ctid="101",resource="numproc"} 7
        openvz_beancounter_limit{ctid="101",resource="numproc"} 65
        openvz_beancounter_failures_total{ctid="101",resource="tcprcvbuf"} 163

    Likewise `maxheld` and `barrier`.
    """
    in_bytes = [(each.ctid, each.bytes) for each in beancounters]
    in_counts = [(each.ctid, each.counts) for each in beancounters]
    # Made once, and shared by a resource's series.
    labels_bytes, labels_counts = _labels(in_bytes), _labels(in_counts)
    made: list[Metric] = []
    for column, text in _GAUGES.items():
        for usages, labels, suffix, what in (
            (in_bytes, labels_bytes, "_bytes", ("Amount", ", in bytes")),
            (in_counts, labels_counts, "", ("Number", "")),
        ):
            gauge = GaugeMetricFamily(f"openvz_beancounter_{column}{suffix}", text.format(*what))
            values = list(chain.from_iterable([getattr(usage, column) for _ctid, usage in usages]))
            gauge.samples = _samples(gauge.name, labels, values)
            made.append(gauge)
    failures = CounterMetricFamily(
        "openvz_beancounter_failures_total",
        "Requests for this resource that the kernel has refused the container; its programs saw errors or waited.",
    )
    values = list(chain.from_iterable([usage.failures for _ctid, usage in chain(in_bytes, in_counts)]))
    failures.samples = _samples("openvz_beancounter_failures_total", labels_bytes + labels_counts, values)
    return [*made, failures]


def _labels(usages: Iterable[tuple[str, Usage]]) -> list[Labels]:
    return [{"ctid": ctid, "resource": resource} for ctid, usage in usages for resource in usage.resources]


def _samples(name: str, labels: Sequence[Labels], values: Sequence[int | None]) -> list[Sample]:
    """Make a sample of each value that isn't None."""
    if None in values:
        there = [value is not None for value in values]
        labels, values = list(compress(labels, there)), list(compress(values, there))
    rest = repeat(None)  # timestamp, exemplar, native histogram
    return list(map(_sample, zip(repeat(name), labels, values, rest, rest, rest)))
