"""Prometheus's text format 0.0.4, written and compressed cheaply.

Takes the client library's metric families (counters, gauges, histograms, infos) and writes the same bytes as its
``generate_latest``, for a fraction of the CPU. Timestamps, exemplars and units are not supported; no exporter uses
them. Between two scrapes mostly values change, and guests keep their labels. So the encoder caches each line up to its
value, and the next scrape only compares labels instead of sorting, escaping and formatting them.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/. Names outside the classic character set get
underscores, as the client gives them to a scraper that asks for no other escaping. OpenMetrics isn't offered: it adds
timestamps, exemplars and units.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterable
from operator import itemgetter
from typing import Callable, NamedTuple

from prometheus_client import Metric

from virtscope.toolkit.families import Block, Blocks
from virtscope.toolkit.lines import escaped, metric_name, numbers, start_of_line

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class FamilyError(Exception):
    """A metric family can't be written, for example because a value is not a number."""

    def __init__(self, family: str, cause: Exception) -> None:
        super().__init__(f"metric family {family!r} can't be written: {type(cause).__name__}: {cause}")
        self.family = family
        self.__cause__ = cause


class Encoder:
    """Encodes the scrapes of one exporter, caching unchanged parts.

    A family that can't be written is dropped and passed to `on_refused` as a FamilyError, so a bad collector loses only
    its own metrics. Without `on_refused` the FamilyError is raised.

    Memory is bounded by the series of the last scrape.
    """

    def __init__(self, on_refused: Callable[[FamilyError], object] | None = None) -> None:
        self._on_refused = on_refused
        self._kept: dict[str, _Samples | _Blocks] = {}  # by family name

    def text(self, families: Iterable[Metric]) -> bytes:
        """Return a scrape."""
        return b"".join(self.pieces(families))

    def pieces(self, families: Iterable[Metric]) -> list[bytes]:
        """Return a scrape in pieces; an unchanged piece is the same object as in the last scrape."""
        before, kept = self._kept, dict[str, "_Samples | _Blocks"]()
        pieces = []
        for family in families:
            try:
                last = before.get(family.name)
                if isinstance(family, Blocks):
                    kept[family.name] = _write_blocks(family, last if isinstance(last, _Blocks) else None)
                else:
                    kept[family.name] = _write_samples(family, last if isinstance(last, _Samples) else None)
                pieces.append(kept[family.name].written)
            except Exception as error:  # a collector's objects may raise anything
                refused = FamilyError(str(getattr(family, "name", family)), error)
                if self._on_refused is None:
                    raise refused from error
                self._on_refused(refused)
        self._kept = kept
        return pieces


class _Blocks(NamedTuple):
    """The cache of a family of blocks."""

    blocks: list[Block]
    header: str
    written: bytes


def _write_blocks(family: Blocks, last: _Blocks | None) -> _Blocks:
    header = _header(family)
    if last and last.blocks == family.blocks and last.header == header:
        return last
    text = "".join([header, *[block.lines for block in family.blocks], "\n"])
    return _Blocks(family.blocks, header, text.encode())


class _Samples(NamedTuple):
    """The cache of a family of samples: its text with holes for the values, and the last values."""

    about: tuple[str, str]  # type and help
    names: list[str]
    labels: list[dict[str, str]]
    pieces: list[str]  # header and start of line, hole, start of line, hole, ..., line end
    values: bytes  # the last values as doubles, which distinguish -0 from 0
    written: bytes


# A Sample is a tuple, so one C call extracts a column of a family. A Python loop made scrapes a sixth slower.
_NAME, _LABELS, _VALUE = map(itemgetter, range(3))


def _write_samples(family: Metric, last: _Samples | None) -> _Samples:
    """Encode this family separately: UTF-8 rejects the lone surrogates that a guest's name may hold."""
    samples = family.samples
    about = (family.type, family.documentation)
    names, labels = list(map(_NAME, samples)), list(map(_LABELS, samples))
    if last and last.about == about and last.labels == labels and last.names == names:
        pieces, labels = last.pieces.copy(), last.labels
    else:
        labels = [dict(each or ()) for each in labels]  # copies: the collector may modify its own later
        starts = map(start_of_line, names, labels)
        pieces = [_header(family), *[piece for start in starts for piece in (start, "")], "\n"]
        pieces[:2] = ["".join(pieces[:2])]
        last = None
    numeric = list(map(_VALUE, samples))
    values = array("d", map(float, numeric)).tobytes()
    if last and values == last.values:
        return last
    pieces[1::2] = numbers(numeric)
    return _Samples(about, names, labels, pieces, values, "".join(pieces).encode())


# Suffix of the family's name, and its type.
_SUFFIXES = {"counter": "_total", "info": "_info"}
_TYPES = {"info": "gauge", "unknown": "untyped"}


def _header(family: Metric) -> str:
    name = metric_name(family.name + _SUFFIXES.get(family.type, ""))
    return f"# HELP {name} {escaped(family.documentation)}\n# TYPE {name} {_TYPES.get(family.type, family.type)}"


# --- gzip -------------------------------------------------------------------------------------------------------------


# Level 1: a fifth larger than level 9 and a tenth of its CPU.
_LEVEL = 1
_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\x04\xff"  # RFC 1952: deflate, no name, no time, fastest, unknown system
_WORTH_KEEPING = 1 << 12  # bytes of a piece; smaller ones gain nothing, and each costs some bytes


class Gzip:
    """Compresses pages, caching the large pieces of the last one.

    Compression takes a third of a large host's scrape, and most pieces are the same as in the last one.
    """

    def __init__(self) -> None:
        # By identity, which is faster than comparing content. The piece is kept, too, so that its id isn't reused.
        self._kept: dict[int, tuple[bytes, bytes]] = {}

    def compress(self, pieces: Iterable[bytes]) -> bytes:
        """Return these pieces as one gzip member."""
        deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        written = [_HEADER]
        kept: dict[int, tuple[bytes, bytes]] = {}
        checksum = size = 0
        for piece in pieces:
            checksum = zlib.crc32(piece, checksum)
            size += len(piece)
            if len(piece) < _WORTH_KEEPING:
                written.append(deflate.compress(piece))
                continue
            # After a full flush nothing refers to earlier data, so a piece between two flushes can be reused anywhere.
            written.append(deflate.flush(zlib.Z_FULL_FLUSH))
            last = self._kept.get(id(piece))
            compressed = last[1] if last else deflate.compress(piece) + deflate.flush(zlib.Z_FULL_FLUSH)
            kept[id(piece)] = piece, compressed
            written.append(compressed)
        self._kept = kept
        return b"".join([*written, deflate.flush(), struct.pack("<LL", checksum, size & 0xFFFFFFFF)])
