"""The beancounters: what each container holds of 20 or so kernel resources, may hold, and was refused.

Format: kernel/bc/proc.c of OpenVZ's kernels (kernel/ve/bc/resources.c of the latest). A version line, a header, and a
row for each resource of each container; only a container's first row has its uid. Columns have 10 characters on 32-bit
kernels and 20 on 64-bit ones, but an uid may be a UUID that is wider, so rows are split at blanks.
/proc/bc/<id>/resources has the rows of one container, without version line, header and uid.

By hand: `cat /proc/bc/resources`, with pages that are not yet in bytes; the host's own are ctid="0".

A host of 1,000 containers has 25,000 rows. A container whose rows are the same text as at the last read is the same
object again, without being parsed, and so are the blocks of its samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from operator import mul
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.openvz.procfs import BC_CAPABILITIES, NO_HOST, Procfs, read_each_bc, read_optional
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable
from virtscope.toolkit.families import Block, Blocks, Definition, Info, Series, Table, page, scalars, table

# --- The files --------------------------------------------------------------------------------------------------------

_COLUMNS = ("held", "maxheld", "barrier", "limit", "failcnt")  # of the values, in the order of Usage
_PLACEHOLDER = "dummy"  # a row that the kernel has given up, and prints so that the others keep their places
_UNLIMITED = {str(2**31 - 1), str(2**63 - 1)}  # LONG_MAX of a 32-bit and of a 64-bit kernel
_UID_WIDTH = 10  # of its column
_MAX_DIGITS = 20  # of a 64-bit number
_MAX_ID = 64  # an UUID has 36 characters; a hundred series repeat what is taken for one
_PAGE_BYTES = 4096  # of the architectures that OpenVZ ran on, i386 and x86_64
_IN_BYTES = {"kmemsize", "tcpsndbuf", "tcprcvbuf", "othersockbuf", "dgramrcvbuf", "dcachesize"}


class Usage(NamedTuple):
    """Some resources, all in the same unit, column by column: the n-th item of each column is the n-th resource's.

    `held` may be above `maxheld`: the kernel sets resources aside in advance and counts these in one of the two only.
    A barrier or limit is None where there is none, and any value where the kernel prints no such column.
    """

    resources: tuple[str, ...]
    held: tuple[int | None, ...]
    maxheld: tuple[int | None, ...]
    barrier: tuple[int | None, ...]
    limit: tuple[int | None, ...]
    failures: tuple[int | None, ...]  # how often a request was refused, whatever the unit


class Columns(NamedTuple):
    """The values in a row: how many there are, and where those known are."""

    width: int
    places: Mapping[str, int]


class Chosen(NamedTuple):
    """The rows of a container that are in one unit."""

    resources: tuple[str, ...]
    rows: tuple[bool, ...]  # for each row, whether it is one of them
    sizes: tuple[int, ...]  # for each of them, the factor of its values


class Beancounter(NamedTuple):
    """What a container, or the host (ctid "0"), holds: what is measured in bytes, and what is counted."""

    ctid: str
    bytes: Usage
    counts: Usage
    rows: str  # as the kernel printed them
    columns: Columns


class Beancounters(NamedTuple):
    """What the kernel says of all containers and of the host.

    `version` is the file's, such as "2.5"; None where it has none. `unknown_columns` is how many columns were
    skipped, `refused` how many containers had malformed rows.
    """

    version: str | None
    containers: tuple[Beancounter, ...]
    unknown_columns: int
    refused: int


def parse(text: str, last: Beancounters | None = None) -> Beancounters:
    """Return what /proc/bc/resources or /proc/user_beancounters says; `text` is all of it.

    A container that is as it was in `last`, the read before, is the same object.

    Of whatever version, the header decides: values are taken by their columns' names. A known column that is missing
    or comes twice costs its own values only; columns that are not known are skipped and counted. A resource that
    is not known is kept, as a count. A container that comes twice, as it does when others end while the file is read,
    is taken as it was last.

    A container is refused and counted where one of its rows is cut or holds anything but numbers, or a resource comes
    twice: then none of its values can be trusted to be in its right place.

    Raises SourceMalformed with the offending text where version line or header are missing, where no column is known,
    and where there are containers but all are malformed.
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

    unended = body[body.rfind("\n") + 1 :]
    # Its last value may lack digits, unless it ends where the header does, or as much later as its uid is too wide.
    cut = bool(unended) and len(unended.rstrip()) - max(unended.find(":") - _UID_WIDTH, 0) < len(header.rstrip())

    # Nothing but an uid has a colon behind it: between two colons are the rows of the one, and the other uid.
    *pieces_but_last, last_piece = body.rstrip().split(":")
    pieces = [piece.rpartition("\n") for piece in (*pieces_but_last, f"{last_piece}\n")]
    before = _by_ctid(last)
    containers: dict[str, Beancounter] = {}
    offences = [f"a row belongs to no uid: {pieces[0][0][:300]!r}"] if pieces[0][0].strip() else []
    for (_, _, uid), (rows, _, rest) in zip(pieces, pieces[1:]):
        try:
            if len(uid.split()) != 1 or len(uid.strip()) > _MAX_ID or len(rest.split()) > 1:
                raise SourceMalformed(f"a row has no uid where one should be: {(rest or uid)[-300:]!r}")
            if cut and rows is pieces[-1][0]:
                raise SourceMalformed(f"the last row is cut: {unended[:300]!r}")
            ctid = uid.strip()
            containers[ctid] = _beancounter(ctid, rows, known, before.get(ctid))
        except SourceMalformed as error:
            offences.append(f"{error}")
    return _all_but_refused(version.strip(), containers, len(columns) - 2 - len(known.places), offences)


def parse_each(files: Iterable[tuple[str, str]], last: Beancounters | None = None) -> Beancounters:
    """Return what each container's own file says, given as ctid and the whole text; refuses and raises as parse()."""
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


@lru_cache(maxsize=16)  # one for each kind of file, so that it can be compared by identity
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
        and "".join(map("".join, values)).encode().isdigit()  # bytes know ASCII's digits only
    ):
        raise SourceMalformed(f"a row is malformed: {_offending(rows, columns.width)[:300]!r}")
    known = {name: values[place] for name, place in columns.places.items()}
    in_bytes, in_counts = (_usage(chosen, known) for chosen in _layout(names))
    return Beancounter(ctid, in_bytes, in_counts, rows, columns)


def _usage(chosen: Chosen, known: Mapping[str, Sequence[str]]) -> Usage:
    """Return what the chosen rows say, given the known columns of all rows."""

    def column(name: str) -> tuple[int | None, ...]:
        if name not in known:
            return (None,) * len(chosen.resources)
        values = compress(known[name], chosen.rows)
        if name == "failcnt":  # counted one by one, whatever the resource is measured in
            return tuple(map(int, values))
        if name in {"barrier", "limit"}:
            return tuple(
                [None if value in _UNLIMITED else int(value) * size for value, size in zip(values, chosen.sizes)]
            )
        return tuple(map(mul, map(int, values), chosen.sizes))

    return Usage(chosen.resources, *map(column, _COLUMNS))


def _offending(rows: str, width: int) -> str:
    """Return the row that is wrong, for the message; all rows where it is hard to say which."""
    for row in rows.splitlines():
        _name, *values = row.split() or [""]
        right = [v for v in values if v.isascii() and v.isdigit() and len(v) <= _MAX_DIGITS]
        if len(values) != width or values != right:
            return row
    return rows


@lru_cache(maxsize=16)  # the rows are the same for every container of a kernel
def _layout(names: tuple[str, ...]) -> tuple[Chosen, Chosen]:
    """Return which rows of these names are in bytes, and which are counts."""
    sizes = {name: _size(name) for name in names if name != _PLACEHOLDER}
    if len(sizes) != len(names) - names.count(_PLACEHOLDER):
        raise SourceMalformed(f"a resource of the beancounters comes twice: {' '.join(names)[:300]!r}")

    def choose(counted: bool) -> Chosen:
        chosen = {name: size or 1 for name, size in sizes.items() if (size is None) is counted}
        return Chosen(tuple(chosen), tuple(name in chosen for name in names), tuple(chosen.values()))

    return choose(counted=False), choose(counted=True)


def _size(resource: str) -> int | None:
    """Return the bytes that one of this resource is; None for what has no size: processes, sockets, the unknown."""
    return _PAGE_BYTES if resource.endswith("pages") else 1 if resource in _IN_BYTES else None


# --- Reading ----------------------------------------------------------------------------------------------------------


class BeancounterReader:
    """Reads the beancounters of one host again and again, by read()."""

    def __init__(self, procfs: Procfs) -> None:
        self._procfs = procfs
        self._last: Beancounters | None = None

    def read(self) -> Beancounters:
        """Return the beancounters as they are now; what is as it was at the last read is the same object.

        They are those of one source, so that none counts twice: of /proc/bc/resources, which knows more resources; of
        /proc/user_beancounters on kernels that have no such file; of each container's own file where there is neither.
        These are no way around a file that must not be read: the kernel asks for the same capabilities for all three.

        Raises SourceUnavailable where none is there, or may be read, and SourceMalformed as parse() does.
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
                f"{self._procfs / 'bc'} has no beancounters: this is no OpenVZ host, or run this on the host"
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


_UNLABELLED: tuple[Table[Beancounters], ...] = (
    table(
        lambda beancounters: [({}, beancounters.version)] if beancounters.version is not None else [],
        Info("openvz_beancounters", "Version of the beancounters.", lambda version: {"version": version}),
        optional=True,
    ),
    scalars(
        Definition(
            "openvz_beancounters_refused_containers",
            "Containers skipped because their beancounters were malformed.",
            lambda beancounters: beancounters.refused,
        ),
        Definition(
            "openvz_beancounters_unknown_columns",
            "Unknown columns of the beancounters, which are skipped.",
            lambda beancounters: beancounters.unknown_columns,
        ),
    ),
)


class _Shown(NamedTuple):
    """A container, and its block in each of _METRICS."""

    beancounter: Beancounter
    blocks: list[Block]


class Families:
    """Makes the families of one host, read after read, from the same blocks where the beancounters are the same."""

    def __init__(self) -> None:
        self._shown: dict[str, _Shown] = {}  # of the last read, by ctid

    def of(self, beancounters: Beancounters) -> list[Metric]:
        """Return the beancounters of every container, and of the host."""
        self._shown = {each.ctid: _show(each, self._shown.get(each.ctid)) for each in beancounters.containers}
        by_metric = zip(*[shown.blocks for shown in self._shown.values()]) if self._shown else [()] * len(_METRICS)
        blocks = [Blocks(name, text, each) for (name, text), each in zip(_METRICS.items(), by_metric)]
        return [*page(_UNLABELLED, beancounters), *blocks]


def _show(beancounter: Beancounter, last: _Shown | None) -> _Shown:
    if last and last.beancounter is beancounter:
        return last
    in_bytes, in_counts = beancounter.bytes, beancounter.counts
    columns = [*in_bytes[1:5], *in_counts[1:5], in_bytes.failures + in_counts.failures]
    resources = in_bytes.resources, in_counts.resources
    if last and (last.beancounter.bytes.resources, last.beancounter.counts.resources) == resources:
        blocks = [
            block if block.values == values else Block(block.series, values)  # equal ints are written alike
            for block, values in zip(last.blocks, columns)
        ]
    else:
        # Label sets are made once, and shared by a resource's series.
        of_bytes, of_counts = ([{"ctid": beancounter.ctid, "resource": each} for each in names] for names in resources)
        labels = [of_bytes] * len(_HELP) + [of_counts] * len(_HELP) + [of_bytes + of_counts]
        blocks = [Block(Series(name, each), values) for name, each, values in zip(_METRICS, labels, columns)]
    return _Shown(beancounter, blocks)
