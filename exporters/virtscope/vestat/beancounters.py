"""The beancounters: what each container holds of 20 or so kernel resources, may hold, and was refused.

Format: kernel/bc/proc.c of OpenVZ's kernels (kernel/ve/bc/resources.c of the latest). A version line, a header, and a
row for each resource of each container; only a container's first row has its uid. Columns have 10 characters on 32-bit
kernels and 20 on 64-bit ones, but an uid may be a UUID that is wider, so rows are split at blanks.
/proc/bc/<id>/resources has the rows of one container, without version line, header and uid.

A host of 1,000 containers has 25,000 rows and 125,000 figures. So they are taken a container's column at a time, by
calls that loop in C, and kept as columns up to the samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, compress, repeat
from operator import mul
from pathlib import Path
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.samples import Sample

from virtscope.shell.families import gauge, info
from virtscope.shell.sources import SourceRubbish, SourceUnavailable
from virtscope.vestat.source import bc
from virtscope.vestat.source.procfs import read_optional

Labels = dict[str, str]

_FIGURES = ["held", "maxheld", "barrier", "limit", "failcnt"]
_PLACEHOLDER = "dummy"  # a row that the kernel has given up, and prints so that the others keep their places
_UNLIMITED = {str(2**31 - 1), str(2**63 - 1)}  # LONG_MAX of a 32-bit and of a 64-bit kernel
_LONGEST_FIGURE = 20  # digits of a 64-bit number
_PAGE_BYTES = 4096  # of the architectures that OpenVZ ran on, i386 and x86_64
_IN_BYTES = {"kmemsize", "tcpsndbuf", "tcprcvbuf", "othersockbuf", "dgramrcvbuf", "dcachesize"}


class Usage(NamedTuple):
    """Some resources, all in the same unit, column by column: the n-th item of each column is the n-th resource's.

    `held` may be above `maxheld`: the kernel sets resources aside in advance and counts these in one of the two only.
    A barrier or limit is None where there is none, and any figure where the kernel prints no such column.
    """

    resources: tuple[str, ...]
    held: tuple[int | None, ...]
    maxheld: tuple[int | None, ...]
    barrier: tuple[int | None, ...]
    limit: tuple[int | None, ...]
    failures: tuple[int | None, ...]  # how often a request was refused, whatever the unit


class Beancounter(NamedTuple):
    """What a container, or the host (ctid "0"), holds: what is measured in bytes, and what is counted."""

    ctid: str
    bytes: Usage
    counts: Usage


class Beancounters(NamedTuple):
    """What the kernel says of all containers and of the host.

    `version` is the file's, such as "2.5"; None where it has none. `unknown_columns` is how many columns were passed
    over, `refused` how many containers had rows that could not be understood.
    """

    version: str | None
    containers: tuple[Beancounter, ...]
    unknown_columns: int
    refused: int


def read(procfs: Path) -> Beancounters:
    """Return the beancounters of the host whose procfs this is, from one source, so that none counts twice.

    From /proc/bc/resources, which knows more resources; from /proc/user_beancounters on kernels that have no such file;
    from each container's own file where there is neither. These are no way around a file that must not be read: the
    kernel asks for the same capabilities for all three.

    Raises SourceUnavailable where none is there, or may be read, and SourceRubbish as parse() does.
    """
    for name in ("bc/resources", "user_beancounters"):
        text = read_optional(procfs, name, bc.CAPABILITIES)
        if text is not None:
            return parse(text)
    each = list(bc.read_each(procfs, "resources"))
    if not each:
        raise SourceUnavailable(f"{procfs / 'bc'} has no beancounters: this is no OpenVZ host, or run this on the host")
    return parse_each(each)


def parse(text: str) -> Beancounters:
    """Return what /proc/bc/resources or /proc/user_beancounters says; `text` is all of it.

    Of whatever version, the header decides: figures are taken by their columns' names. A known column that is missing
    or comes twice costs its own figures only; columns that are not known are passed over and counted. A resource that
    is not known is kept, as a count. A container that comes twice, as it does when others end while the file is read,
    is taken as it was last.

    A container is refused and counted where one of its rows is cut or holds anything but numbers, or a resource comes
    twice: then none of its figures can be trusted to be in its right place.

    Raises SourceRubbish with the offending text where version line or header are missing, where no column is known, and
    where there are containers but none makes sense.
    """
    version_line, _, rest = text.partition("\n")
    header, ended, body = rest.partition("\n")
    word, _, version = version_line.strip().partition(":")
    if word != "Version" or not version.strip():
        raise SourceRubbish(f"the beancounters begin with {version_line[:80]!r}, not with their version")
    columns = header.split()
    known = _Columns.of(columns[2:])
    if columns[:2] != ["uid", "resource"] or not known.places or not ended:
        raise SourceRubbish(f"the beancounters, version {version.strip()[:20]}, have the columns {header[:300]!r}")

    unended = body[body.rfind("\n") + 1 :]
    # Its last figure may lack digits, unless it ends where the header does.
    cut = bool(unended) and len(unended.rstrip()) < len(header.rstrip())

    # Nothing but an uid has a colon behind it: between two colons are the rows of the one, and the other uid.
    pieces = [piece.rpartition("\n") for piece in f"{body.rstrip()}\n".split(":")]
    containers: dict[str, Beancounter] = {}
    offences = [f"a row belongs to no uid: {pieces[0][0][:300]!r}"] if pieces[0][0].strip() else []
    for (_, _, uid), (rows, _, rest) in zip(pieces, pieces[1:]):
        try:
            if len(uid.split()) != 1 or len(rest.split()) > 1:
                raise SourceRubbish(f"a row has no uid where one should be: {(rest or uid)[-300:]!r}")
            if cut and rows is pieces[-1][0]:
                raise SourceRubbish(f"the last row is cut: {unended[:300]!r}")
            containers[uid.strip()] = _beancounter(uid.strip(), rows, known)
        except SourceRubbish as error:
            offences.append(f"{error}")
    return _all_but_refused(version.strip(), containers, len(columns) - 2 - len(known.places), offences)


def parse_each(files: Iterable[tuple[str, str]]) -> Beancounters:
    """Return what each container's own file says, given as ctid and the whole text; refuses and raises as parse()."""
    containers: dict[str, Beancounter] = {}
    offences = []
    for ctid, text in files:
        rows, ended, unended = text.rpartition("\n")
        try:
            if unended or not ended:
                raise SourceRubbish(f"the last row is cut: {unended[:300]!r}")
            containers[ctid] = _beancounter(ctid, rows, _Columns.of(_FIGURES))
        except SourceRubbish as error:
            offences.append(f"{error}")
    return _all_but_refused(None, containers, 0, offences)


def _all_but_refused(
    version: str | None, containers: Mapping[str, Beancounter], unknown_columns: int, offences: Sequence[str]
) -> Beancounters:
    if offences and not containers:
        raise SourceRubbish(f"nothing in the beancounters makes sense, first: {offences[0]}")
    return Beancounters(version, tuple(containers.values()), unknown_columns, len(offences))


class _Columns(NamedTuple):
    """The figures in a row: how many there are, and where those known are."""

    width: int
    places: dict[str, int]

    @classmethod
    def of(cls, names: Sequence[str]) -> _Columns:
        return cls(len(names), {name: names.index(name) for name in _FIGURES if names.count(name) == 1})


def _beancounter(ctid: str, rows: str, columns: _Columns) -> Beancounter:
    words = rows.split()
    width, places = columns
    names = tuple(words[:: width + 1])
    del words[:: width + 1]
    if not (
        rows.count("\n") + 1 == len(names) > 0
        and len(words) == len(names) * width
        and max(map(len, words)) <= _LONGEST_FIGURE
        and "".join(words).encode().isdigit()  # bytes know ASCII's digits only
    ):
        raise SourceRubbish(f"a row makes no sense: {_offending(rows, width)[:300]!r}")
    held, maxheld, barrier, limit, failures = (
        words[places[name] :: width] if name in places else None for name in _FIGURES
    )

    def usage(layout: _Layout) -> Usage:
        _, chosen, sizes = layout
        missing = (None,) * len(sizes)
        return Usage(
            layout.resources,
            tuple(map(mul, map(int, compress(held, chosen)), sizes)) if held else missing,
            tuple(map(mul, map(int, compress(maxheld, chosen)), sizes)) if maxheld else missing,
            _limits(tuple(compress(barrier, chosen)), sizes) if barrier else missing,
            _limits(tuple(compress(limit, chosen)), sizes) if limit else missing,
            tuple(map(int, compress(failures, chosen))) if failures else missing,
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


def families(beancounters: Beancounters) -> list[Metric]:
    """Return every container's beancounters; the host's are ctid="0".

    See the same figures by hand, pages not yet in bytes, with `cat /proc/bc/resources`.

        openvz_beancounters_info{version="2.5"} 1
        openvz_beancounters_refused_containers 0
        openvz_beancounters_unknown_columns 0
        openvz_beancounter_held_bytes{ctid="101",resource="privvmpages"} 7409664
        openvz_beancounter_limit_bytes{ctid="101",resource="privvmpages"} 219443200
        openvz_beancounter_held{ctid="101",resource="numproc"} 7
        openvz_beancounter_limit{ctid="101",resource="numproc"} 65
        openvz_beancounter_failures_total{ctid="101",resource="tcprcvbuf"} 163

    Likewise `maxheld` and `barrier`.
    """
    in_bytes = [(each.ctid, each.bytes) for each in beancounters.containers]
    in_counts = [(each.ctid, each.counts) for each in beancounters.containers]
    # Made once, and shared by a resource's series.
    labels_bytes, labels_counts = _labels(in_bytes), _labels(in_counts)
    made = [
        gauge(
            "openvz_beancounters_refused_containers",
            "Containers whose beancounters could not be understood at this read, and are missing here.",
            beancounters.refused,
        ),
        gauge(
            "openvz_beancounters_unknown_columns",
            "Columns of the beancounters that this exporter doesn't know, and passes over.",
            beancounters.unknown_columns,
        ),
    ]
    if beancounters.version is not None:
        made.insert(0, info("openvz_beancounters", "Version of the beancounters.", [{"version": beancounters.version}]))
    for column, text in _GAUGES.items():
        for usages, labels, suffix, what in (
            (in_bytes, labels_bytes, "_bytes", ("Amount", ", in bytes")),
            (in_counts, labels_counts, "", ("Number", "")),
        ):
            figures = GaugeMetricFamily(f"openvz_beancounter_{column}{suffix}", text.format(*what))
            values = list(chain.from_iterable([getattr(usage, column) for _ctid, usage in usages]))
            figures.samples = _samples(figures.name, labels, values)
            made.append(figures)
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
