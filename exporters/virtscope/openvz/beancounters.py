"""The beancounters: what each container holds of 20 or so kernel resources, may hold, and was refused.

Format: kernel/bc/proc.c of OpenVZ's kernels (kernel/ve/bc/resources.c of the latest). A version line, a header, and a
row for each resource of each container; only a container's first row has its uid. Columns have 10 characters on 32-bit
kernels and 20 on 64-bit ones, but an uid may be a UUID that is wider, so rows are split at blanks.
/proc/bc/<id>/resources has the rows of one container, without version line, header and uid.

A host of 1,000 containers has 25,000 rows and 125,000 figures, most of them as they were at the last read. So what is
the same text again is the same object again, without being understood anew, by which its samples are known too
(beancounter_metrics). The rest is taken a container's column at a time, by calls that loop in C.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, compress
from operator import mul
from typing import NamedTuple

from virtscope.toolkit.sources import SourceRubbish

_PLACES = {"held": 1, "maxheld": 2, "barrier": 3, "limit": 4, "failcnt": 5}  # of the figures in Usage
_PLACEHOLDER = "dummy"  # a row that the kernel has given up, and prints so that the others keep their places
_UNLIMITED = {str(2**31 - 1), str(2**63 - 1)}  # LONG_MAX of a 32-bit and of a 64-bit kernel
_UID_WIDTH = 10  # of its column
_LONGEST_FIGURE = 20  # digits of a 64-bit number
_LONGEST_ID = 64  # an UUID has 36 characters; a hundred series repeat what is taken for one
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


class Columns(NamedTuple):
    """The figures in a row: how many there are, and where those known are."""

    width: int
    places: Mapping[str, int]


class Chosen(NamedTuple):
    """Which rows of a container are in one unit."""

    resources: tuple[str, ...]
    rows: tuple[bool, ...]  # for each row, whether it is one of them
    sizes: tuple[int, ...]  # for each of them, what its figures are to be multiplied by


class Layout(NamedTuple):
    """The rows of a container: their names, dummies included, and which of them are in bytes and which are counts."""

    names: tuple[str, ...]
    bytes: Chosen
    counts: Chosen


class Printed(NamedTuple):
    """A container's rows as the kernel printed them: the text, what they are of, and the figures column by column."""

    rows: str
    columns: Columns
    layout: Layout
    figures: list[list[str]]


class Beancounter(NamedTuple):
    """What a container, or the host (ctid "0"), holds: what is measured in bytes, and what is counted."""

    ctid: str
    bytes: Usage
    counts: Usage
    printed: Printed


class Beancounters(NamedTuple):
    """What the kernel says of all containers and of the host.

    `version` is the file's, such as "2.5"; None where it has none. `unknown_columns` is how many columns were passed
    over, `refused` how many containers had rows that could not be understood.
    """

    version: str | None
    containers: tuple[Beancounter, ...]
    unknown_columns: int
    refused: int


def parse(text: str, last: Beancounters | None = None) -> Beancounters:
    """Return what /proc/bc/resources or /proc/user_beancounters says; `text` is all of it.

    What is as it was in `last`, the read before, is the same object: a Beancounter, or a column of its Usage.

    Of whatever version, the header decides: figures are taken by their columns' names. A known column that is missing
    or comes twice costs its own figures only; columns that are not known are passed over and counted. A resource that
    is not known is kept, as a count. A container that comes twice, as it does when others end while the file is read,
    is taken as it was last.

    A container is refused and counted where one of its rows is cut or holds anything but numbers, or a resource comes
    twice: then none of its figures can be trusted to be in its right place.

    Raises SourceRubbish with the offending text where version line or header are missing, where no column is known, and
    where there are containers but none makes sense.
    """
    version_line, *more = text.split("\n", 2)
    header, body = more if len(more) == 2 else ("".join(more), None)
    word, _, version = version_line.strip().partition(":")
    if word != "Version" or not version.strip():
        raise SourceRubbish(f"the beancounters begin with {version_line[:80]!r}, not with their version")
    columns = header.split()
    known = _columns(tuple(columns[2:]))
    if columns[:2] != ["uid", "resource"] or not known.places or body is None:
        raise SourceRubbish(f"the beancounters, version {version.strip()[:20]}, have the columns {header[:300]!r}")

    unended = body[body.rfind("\n") + 1 :]
    # Its last figure may lack digits, unless it ends where the header does, or as much later as its uid is too wide.
    cut = bool(unended) and len(unended.rstrip()) - max(unended.find(":") - _UID_WIDTH, 0) < len(header.rstrip())

    # Nothing but an uid has a colon behind it: between two colons are the rows of the one, and the other uid.
    *pieces_but_last, last_piece = body.rstrip().split(":")
    pieces = [piece.rpartition("\n") for piece in (*pieces_but_last, f"{last_piece}\n")]
    before = _by_ctid(last)
    containers: dict[str, Beancounter] = {}
    offences = [f"a row belongs to no uid: {pieces[0][0][:300]!r}"] if pieces[0][0].strip() else []
    for (_, _, uid), (rows, _, rest) in zip(pieces, pieces[1:]):
        try:
            if len(uid.split()) != 1 or len(uid.strip()) > _LONGEST_ID or len(rest.split()) > 1:
                raise SourceRubbish(f"a row has no uid where one should be: {(rest or uid)[-300:]!r}")
            if cut and rows is pieces[-1][0]:
                raise SourceRubbish(f"the last row is cut: {unended[:300]!r}")
            ctid = uid.strip()
            containers[ctid] = _beancounter(ctid, rows, known, before.get(ctid))
        except SourceRubbish as error:
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
                raise SourceRubbish(f"the last row is cut: {unended[:300]!r}")
            containers[ctid] = _beancounter(ctid, rows, _columns(tuple(_PLACES)), before.get(ctid))
        except SourceRubbish as error:
            offences.append(f"{error}")
    return _all_but_refused(None, containers, 0, offences)


def _by_ctid(beancounters: Beancounters | None) -> dict[str, Beancounter]:
    return {each.ctid: each for each in beancounters.containers} if beancounters else {}


def _all_but_refused(
    version: str | None, containers: Mapping[str, Beancounter], unknown_columns: int, offences: Sequence[str]
) -> Beancounters:
    if offences and not containers:
        raise SourceRubbish(f"nothing in the beancounters makes sense, first: {offences[0]}")
    return Beancounters(version, tuple(containers.values()), unknown_columns, len(offences))


@lru_cache(maxsize=16)  # one for each kind of file, so that it can be told from others by identity
def _columns(names: tuple[str, ...]) -> Columns:
    return Columns(len(names), {name: names.index(name) for name in _PLACES if names.count(name) == 1})


def _beancounter(ctid: str, rows: str, columns: Columns, last: Beancounter | None) -> Beancounter:
    if last and last.printed.rows == rows and last.printed.columns is columns:
        return last
    words = rows.split()
    length = columns.width + 1
    names = tuple(words[::length])
    figures = [words[place::length] for place in range(1, length)]
    if last and (last.printed.columns is not columns or last.printed.layout.names != names):
        last = None
    before = last.printed.figures if last else [[]] * columns.width
    changed = [place for place in range(columns.width) if figures[place] != before[place]]
    unseen = list(chain.from_iterable([figures[place] for place in changed]))
    if not (
        rows.count("\n") + 1 == len(names) > 0
        and len(words) == len(names) * length
        and max(map(len, unseen), default=0) <= _LONGEST_FIGURE
        and "".join(unseen or "0").encode().isdigit()  # bytes know ASCII's digits only
    ):
        raise SourceRubbish(f"a row makes no sense: {_offending(rows, columns.width)[:300]!r}")

    # Of what is the same the old words are kept: the new ones can then be had again while they are in the CPU's caches.
    figures = [new if place in changed else before[place] for place, new in enumerate(figures)]
    news = [(name, figures[place]) for name, place in columns.places.items() if place in changed]
    layout = last.printed.layout if last else _layout(names)
    return Beancounter(
        ctid,
        _usage(layout.bytes, news, last and last.bytes),
        _usage(layout.counts, news, last and last.counts),
        Printed(rows, columns, layout, figures),
    )


def _usage(chosen: Chosen, news: Iterable[tuple[str, list[str]]], before: Usage | None) -> Usage:
    """Return what the chosen rows say, given the columns that aren't as before by name."""
    columns = list(before or (chosen.resources, *[(None,) * len(chosen.resources)] * len(_PLACES)))
    for name, figures in news:
        columns[_PLACES[name]] = _values(name, compress(figures, chosen.rows), chosen.sizes)
    return Usage._make(columns)


def _values(name: str, figures: Iterable[str], sizes: Sequence[int]) -> tuple[int | None, ...]:
    if name == "failcnt":  # counted one by one, whatever the resource is measured in
        return tuple(map(int, figures))
    if name in {"barrier", "limit"}:
        return tuple([None if figure in _UNLIMITED else int(figure) * size for figure, size in zip(figures, sizes)])
    return tuple(map(mul, map(int, figures), sizes))


def _offending(rows: str, width: int) -> str:
    """Return the row that is wrong, for the message; all rows where it is hard to say which."""
    for row in rows.splitlines():
        _name, *figures = row.split() or [""]
        right = [f for f in figures if f.isascii() and f.isdigit() and len(f) <= _LONGEST_FIGURE]
        if len(figures) != width or figures != right:
            return row
    return rows


@lru_cache(maxsize=16)  # the rows are the same for every container of a kernel
def _layout(names: tuple[str, ...]) -> Layout:
    """Return how rows of these names fall into those in bytes and those in counts."""
    sizes = {name: _size(name) for name in names if name != _PLACEHOLDER}
    if len(sizes) != len(names) - names.count(_PLACEHOLDER):
        raise SourceRubbish(f"a resource of the beancounters comes twice: {' '.join(names)[:300]!r}")
    in_bytes, in_counts = (
        Chosen(
            tuple(name for name in sizes if (sizes[name] is None) is counted),
            tuple(name in sizes and (sizes[name] is None) is counted for name in names),
            tuple(size or 1 for size in sizes.values() if (size is None) is counted),
        )
        for counted in (False, True)
    )
    return Layout(names, in_bytes, in_counts)


def _size(resource: str) -> int | None:
    """Return the bytes that one of this resource is; None for what has no size: processes, sockets, the unknown."""
    return _PAGE_BYTES if resource.endswith("pages") else 1 if resource in _IN_BYTES else None
