"""The beancounters: each container's usage, limits and refused requests of about 20 kernel resources.

Format: kernel/bc/proc.c of OpenVZ's kernels (kernel/ve/bc/resources.c of the latest). A version line, a header, and a
row for each resource of each container; only a container's first row has its uid. Columns have 10 characters on 32-bit
kernels and 20 on 64-bit ones, but an uid may be a UUID that is wider, so rows are split at blanks.
/proc/bc/<id>/resources has the rows of one container, without version line, header and uid.

By hand: `cat /proc/bc/resources`, with pages that are not yet in bytes; the host's own are ctid="0".

A host of 1,000 containers has 25,000 rows. If a container's text is unchanged since the last read, its object and the
blocks of its samples are reused without parsing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from operator import mul
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.openvz.procfs import BC_CAPABILITIES, NO_HOST, Procfs, read_each_bc, read_optional, with_end
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable
from virtscope.toolkit.families import Block, Blocks, info, scalar

# --- The files --------------------------------------------------------------------------------------------------------

_SIZED = ("held", "maxheld", "barrier", "limit")  # columns in the resource's unit
_COLUMNS = (*_SIZED, "failcnt")
_PLACEHOLDER = "dummy"  # an obsolete row that the kernel prints as a placeholder
_UNLIMITED = {str(2**31 - 1), str(2**63 - 1)}  # LONG_MAX of a 32-bit and of a 64-bit kernel
_MAX_DIGITS = 20  # of a 64-bit number
_MAX_ID = 64  # a UUID has 36 characters; bounded because a hundred series repeat it
_PAGE_BYTES = 4096  # of the architectures that OpenVZ ran on, i386 and x86_64
_IN_BYTES = {"kmemsize", "tcpsndbuf", "tcprcvbuf", "othersockbuf", "dgramrcvbuf", "dcachesize"}


class Columns(NamedTuple):
    """The number of values in a row, and the positions of the known ones."""

    width: int
    places: Mapping[str, int]


class Layout(NamedTuple):
    """The resources in a container's rows: those in bytes, and counts."""

    in_bytes: dict[str, int]  # the size of each resource's unit
    in_counts: dict[str, int]  # 1 each
    rows: tuple[tuple[bool, ...], ...]  # for both, whether each row is one


class Beancounter(NamedTuple):
    """The resources of a container, or of the host (ctid "0").

    `held` may exceed `maxheld`: the kernel pre-charges resources and counts these in `held` only.
    """

    ctid: str
    layout: Layout
    # For each of _METRICS, the value of each resource; None for an unlimited one, and without such a column.
    values: tuple[tuple[int | None, ...], ...]
    rows: str  # as the kernel printed them
    columns: Columns


class Beancounters(NamedTuple):
    """The beancounters of all containers and of the host.

    `version` is the file's, such as "2.5"; None if it has none. `unknown_columns` is the number of skipped columns,
    `refused` the number of containers with malformed rows.
    """

    version: str | None
    containers: tuple[Beancounter, ...]
    unknown_columns: int
    refused: int


def parse(text: str, last: Beancounters | None = None) -> Beancounters:
    """Parse `text`, the content of /proc/bc/resources or /proc/user_beancounters.

    Containers unchanged since `last`, the previous read, are the same objects.

    In any version, values are found by the names of their columns. A known column that is missing or repeated loses
    only its own values; unknown columns are skipped and counted. An unknown resource is kept, as a count. A container
    may appear twice if others end while the file is read; the last one counts.

    A container is skipped and counted if a row is truncated or not numeric, or a resource is repeated, because then its
    values may be in wrong places.

    Raises SourceMalformed with the offending text if version line or header are missing, no column is known, or all
    containers are malformed.
    """
    version_line, *more = text.split("\n", 2)
    header, body = more if len(more) == 2 else ("".join(more), None)
    word, _, version = version_line.strip().partition(":")
    if word != "Version" or not version.strip():
        raise SourceMalformed(f"the beancounters begin with {version_line[:80]!r}, not with their version")
    columns = header.split()
    known = _columns(tuple(columns[2:]))
    if columns[:2] != ["uid", "resource"] or not known.places or body is None:
        raise SourceMalformed(f"the beancounters, version {version.strip()[:20]}, have the columns {header[:300]!r}")

    body = with_end(body, header)
    unended = body[body.rfind("\n") + 1 :]
    # Only uids are followed by a colon: between two colons are the rows of one uid, and the next uid.
    *pieces_but_last, last_piece = body.rstrip().split(":")
    pieces = [piece.rpartition("\n") for piece in (*pieces_but_last, f"{last_piece}\n")]
    before = _by_ctid(last)
    containers: dict[str, Beancounter] = {}
    offences = [f"a row belongs to no uid: {pieces[0][0][:300]!r}"] if pieces[0][0].strip() else []
    for (_, _, uid), (rows, _, rest) in zip(pieces, pieces[1:]):
        try:
            if len(uid.split()) != 1 or len(uid.strip()) > _MAX_ID or len(rest.split()) > 1:
                raise SourceMalformed(f"a row has no uid where one should be: {(rest or uid)[-300:]!r}")
            if unended and rows is pieces[-1][0]:
                raise SourceMalformed(f"the last row is cut: {unended[:300]!r}")
            ctid = uid.strip()
            containers[ctid] = _beancounter(ctid, rows, known, before.get(ctid))
        except SourceMalformed as error:
            offences.append(f"{error}")
    return _all_but_refused(version.strip(), containers, len(columns) - 2 - len(known.places), offences)


def parse_each(files: Iterable[tuple[str, str]], last: Beancounters | None = None) -> Beancounters:
    """Parse each container's own file, given as ctid and text; skips and raises like parse()."""
    before = _by_ctid(last)
    containers: dict[str, Beancounter] = {}
    offences = []
    for ctid, text in files:
        rows, ended, unended = text.rpartition("\n")
        try:
            if unended or not ended:
                raise SourceMalformed(f"the last row is cut: {unended[:300]!r}")
            containers[ctid] = _beancounter(ctid, rows, _columns(_COLUMNS), before.get(ctid))
        except SourceMalformed as error:
            offences.append(f"{error}")
    return _all_but_refused(None, containers, 0, offences)


def _by_ctid(beancounters: Beancounters | None) -> dict[str, Beancounter]:
    return {each.ctid: each for each in beancounters.containers} if beancounters else {}


def _all_but_refused(
    version: str | None, containers: Mapping[str, Beancounter], unknown_columns: int, offences: Sequence[str]
) -> Beancounters:
    if offences and not containers:
        raise SourceMalformed(f"all beancounters are malformed, first: {offences[0]}")
    return Beancounters(version, tuple(containers.values()), unknown_columns, len(offences))


@lru_cache(maxsize=16)  # one per kind of file, to be compared by identity
def _columns(names: tuple[str, ...]) -> Columns:
    return Columns(len(names), {name: names.index(name) for name in _COLUMNS if names.count(name) == 1})


def _beancounter(ctid: str, rows: str, columns: Columns, last: Beancounter | None) -> Beancounter:
    if last and last.rows == rows and last.columns is columns:
        return last
    words = rows.split()
    length = columns.width + 1
    names = tuple(words[::length])
    values = [words[place::length] for place in range(1, length)]
    if not (
        rows.count("\n") + 1 == len(names) > 0
        and len(words) == len(names) * length
        and max(max(map(len, column)) for column in values) <= _MAX_DIGITS
        and "".join(map("".join, values)).encode().isdigit()  # bytes.isdigit() accepts only ASCII
    ):
        raise SourceMalformed(f"a row is malformed: {rows[:300]!r}")
    known = {name: values[place] for name, place in columns.places.items()}
    layout = _layout(names)

    def column(name: str, sizes: Mapping[str, int], of_unit: Sequence[bool]) -> tuple[int | None, ...]:
        if name not in known:
            return (None,) * len(sizes)
        chosen = compress(known[name], of_unit)
        if name == "failcnt":  # a count, whatever the resource's unit
            return tuple(map(int, chosen))
        if name in {"barrier", "limit"}:
            return tuple(
                [None if value in _UNLIMITED else int(value) * size for value, size in zip(chosen, sizes.values())]
            )
        return tuple(map(mul, map(int, chosen), sizes.values()))

    units = list(zip((layout.in_bytes, layout.in_counts), layout.rows))
    sized = [column(name, *unit) for unit in units for name in _SIZED]
    refused = tuple(value for unit in units for value in column("failcnt", *unit))
    return Beancounter(ctid, layout, (*sized, refused), rows, columns)


@lru_cache(maxsize=16)  # all containers of a kernel have the same rows
def _layout(names: tuple[str, ...]) -> Layout:
    """Divide rows by their names."""
    # Resources without a size are counts: processes, sockets, unknown ones.
    sizes = {
        name: _PAGE_BYTES if name.endswith("pages") else 1 if name in _IN_BYTES else None
        for name in names
        if name != _PLACEHOLDER
    }
    if len(sizes) != len(names) - names.count(_PLACEHOLDER):
        raise SourceMalformed(f"a resource of the beancounters comes twice: {' '.join(names)[:300]!r}")

    in_bytes = {name: size for name, size in sizes.items() if size}
    in_counts = {name: 1 for name, size in sizes.items() if not size}
    rows = tuple(tuple(name in chosen for name in names) for chosen in (in_bytes, in_counts))
    return Layout(in_bytes, in_counts, rows)


# --- Reading ----------------------------------------------------------------------------------------------------------


class BeancounterReader:
    """Reads the beancounters of one host repeatedly."""

    def __init__(self, procfs: Procfs) -> None:
        self._procfs = procfs
        self._last: Beancounters | None = None

    def read(self) -> Beancounters:
        """Return the current beancounters; unchanged containers are the same objects as in the last read.

        They come from one source, so that nothing counts twice: /proc/bc/resources, which has the most resources;
        otherwise /proc/user_beancounters; otherwise each container's own file. All three need the same capabilities, so
        an unreadable file ends the search.

        Raises SourceUnavailable if none exists or is readable, and SourceMalformed like parse().
        """
        self._last = self._read()
        return self._last

    def _read(self) -> Beancounters:
        for name in ("bc/resources", "user_beancounters"):
            text = read_optional(self._procfs, name, BC_CAPABILITIES)
            if text is not None:
                return parse(text, self._last)
        each = list(read_each_bc(self._procfs, "resources", NO_HOST))
        if not each:
            raise SourceUnavailable(
                f"{self._procfs}/bc has no beancounters: this is no OpenVZ host, or run this on the host"
            )
        return parse_each(each, self._last)


# --- Metrics ----------------------------------------------------------------------------------------------------------

_HELP = {
    "held": "Current {} of this resource held by the container{}.",
    "maxheld": "Highest {} of this resource held by the container{}, since its start or the last reset.",
    "barrier": "Barrier: {} of this resource above which only urgent requests are met{}; absent if unlimited.",
    "limit": "Limit: maximum {} of this resource for the container{}; absent if unlimited.",
}
_METRICS = {
    **{f"openvz_beancounter_{column}_bytes": text.format("amount", ", in bytes") for column, text in _HELP.items()},
    **{f"openvz_beancounter_{column}": text.format("number", "") for column, text in _HELP.items()},
    "openvz_beancounter_failures_total": "Requests for this resource that the kernel refused.",
}


class _Shown(NamedTuple):
    """A container, and its block in each of _METRICS."""

    beancounter: Beancounter
    blocks: list[Block]


class Families:
    """Makes the families of one host; reuses blocks of unchanged beancounters."""

    def __init__(self) -> None:
        self._shown: dict[str, _Shown] = {}  # of the last read, by ctid

    def of(self, beancounters: Beancounters) -> list[Metric]:
        """Return the beancounters of every container, and of the host."""
        self._shown = {each.ctid: _show(each, self._shown.get(each.ctid)) for each in beancounters.containers}
        by_metric = zip(*[shown.blocks for shown in self._shown.values()]) if self._shown else [()] * len(_METRICS)
        version, refused, unknown = beancounters.version, beancounters.refused, beancounters.unknown_columns
        of_all = [
            scalar(
                "openvz_beancounters_refused_containers",
                "Containers skipped because their beancounters were malformed.",
                refused,
            ),
            scalar(
                "openvz_beancounters_unknown_columns",
                "Unknown columns of the beancounters, which are skipped.",
                unknown,
            ),
            *(Blocks(name, text, each) for (name, text), each in zip(_METRICS.items(), by_metric)),
        ]
        if version is None:
            return of_all
        return [info("openvz_beancounters_info", "Version of the beancounters.", [{"version": version}]), *of_all]


def _show(beancounter: Beancounter, last: _Shown | None) -> _Shown:
    if last and last.beancounter is beancounter:
        return last
    layout, columns = beancounter.layout, beancounter.values
    if last and last.beancounter.layout is layout:  # equal dicts may differ in their order
        blocks = [block.again(values) for block, values in zip(last.blocks, columns)]
    else:
        # Label sets are shared by a resource's series.
        of_bytes, of_counts = (
            [{"ctid": beancounter.ctid, "resource": each} for each in names]
            for names in (layout.in_bytes, layout.in_counts)
        )
        labels = [of_bytes] * len(_SIZED) + [of_counts] * len(_SIZED) + [of_bytes + of_counts]
        blocks = [Block(name, each, values) for name, each, values in zip(_METRICS, labels, columns)]
    return _Shown(beancounter, blocks)
