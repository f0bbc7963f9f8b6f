"""Prometheus's text format 0.0.4 and OpenMetrics 1.0.0, written and compressed cheaply.

Takes the client library's own metric families, from any client_python collector, and writes byte for byte what its
``generate_latest`` writes, for a fraction of the CPU. Between two scrapes of a host hardly anything changes but the
values: the same guests keep the same labels. So the encoder keeps every line up to its value; the next scrape compares
labels with those kept instead of sorting, escaping and formatting them again.

Formats: https://prometheus.io/docs/instrumenting/exposition_formats/ and
https://prometheus.io/docs/specs/om/open_metrics_spec/. Names outside the classic character set get underscores, as the
client gives them to a scraper that asks for no other escaping.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterable, Sequence
from enum import Enum
from operator import itemgetter
from typing import Callable, NamedTuple

from prometheus_client import Metric
from prometheus_client.samples import Exemplar, Sample

from virtscope.toolkit.families import Block, Blocks
from virtscope.toolkit.lines import escaped, metric_name, number, numbers, quoted, start_of_line


class Format(Enum):
    """What a scrape can be answered in; the value is the Content-Type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    @property
    def content_type(self) -> str:
        """The Content-Type of an answer in this format."""
        return self.value


class FamilyError(Exception):
    """A metric family can't be written: a value that is no number, a label that is no string and the like."""

    def __init__(self, family: str, cause: Exception) -> None:
        super().__init__(f"metric family {family!r} can't be written: {type(cause).__name__}: {cause}")
        self.family = family
        self.__cause__ = cause


class Encoder:
    """Writes the scrapes of one exporter, keeping between them what doesn't change.

    A family that can't be written is left out of the page and handed to `on_refused` as a FamilyError, so that one bad
    collector costs only its own metrics. Without `on_refused` the FamilyError is raised.

    Memory is bounded by the series of the last scrape in each format.
    """

    def __init__(self, on_refused: Callable[[FamilyError], object] | None = None) -> None:
        self._on_refused = on_refused
        self._kept: dict[Format, dict[str, _Samples | _Blocks]] = {}  # by family name

    def text(self, families: Iterable[Metric]) -> bytes:
        """Return a scrape in the text format 0.0.4."""
        return b"".join(self.pieces(families, Format.TEXT))

    def openmetrics(self, families: Iterable[Metric]) -> bytes:
        """Return a scrape in OpenMetrics 1.0.0, `# EOF` included."""
        return b"".join(self.pieces(families, Format.OPENMETRICS))

    def pieces(self, families: Iterable[Metric], form: Format) -> list[bytes]:
        """Return a scrape in pieces; one of the last scrape in which nothing has changed is the same object again."""
        before, kept = self._kept.get(form, {}), dict[str, "_Samples | _Blocks"]()
        pieces = []
        for family in families:
            try:
                last = before.get(family.name)
                if isinstance(family, Blocks):
                    kept[family.name] = _write_blocks(family, last if isinstance(last, _Blocks) else None, form)
                else:
                    kept[family.name] = _write_samples(family, last if isinstance(last, _Samples) else None, form)
                pieces.append(kept[family.name].written)
            except Exception as error:  # there is no knowing what a collector's odd objects raise
                refused = FamilyError(str(getattr(family, "name", family)), error)
                if self._on_refused is None:
                    raise refused from error
                self._on_refused(refused)
        self._kept[form] = kept
        return [*pieces, b"# EOF\n"] if form is Format.OPENMETRICS else pieces


class _Blocks(NamedTuple):
    """What is kept of a family of blocks."""

    blocks: list[Block]
    header: str
    written: bytes


def _write_blocks(family: Blocks, last: _Blocks | None, form: Format) -> _Blocks:
    header = _header(family, form)
    if last and last.blocks == family.blocks and last.header == header:
        return last
    text = "".join([header, *[block.lines for block in family.blocks], "\n"])
    return _Blocks(family.blocks, header, text.encode())


class _Samples(NamedTuple):
    """What is kept of a family of samples: its text with holes for the values, and what was written last."""

    about: tuple[str, ...]  # type, help, unit
    names: list[str]
    labels: list[dict[str, str]]
    pieces: list[str]  # header and start of line, hole, start of line, hole, ..., line end
    order: Callable[[list[str]], Sequence[str]] | None  # from the samples' order to the lines', where they differ
    values: bytes  # those that were written, as doubles: these tell -0 from 0
    written: bytes

    def with_values(self, values: list[str]) -> bytes:
        """Encode this family alone, as UTF-8 refuses the lone surrogates that a guest's name may hold."""
        pieces = self.pieces.copy()
        pieces[1::2] = self.order(values) if self.order else values
        return "".join(pieces).encode()


# A Sample is a tuple, so one call at C speed takes a column out of a whole family, and another compares it or looks
# into it. That takes a sixth off a scrape against one Python loop that does it all sample by sample.
_NAME, _LABELS, _VALUE, _TIMESTAMP, _EXEMPLAR = map(itemgetter, range(5))
# Before prometheus_client 0.22 (Debian 12 has 0.16, Ubuntu 22.04 0.9) a Sample ends before its native histogram.
_NATIVE_HISTOGRAM = itemgetter(5 if len(Sample._fields) > 5 else slice(0))


def _write_samples(family: Metric, last: _Samples | None, form: Format) -> _Samples:
    samples = family.samples
    about = (family.type, family.documentation, family.unit)
    if (
        last
        and last.about == about
        and last.labels == list(map(_LABELS, samples))
        and last.names == list(map(_NAME, samples))
        and list(map(_TIMESTAMP, samples)).count(None) == len(samples)
        and (form is Format.TEXT or not (any(map(_EXEMPLAR, samples)) or any(map(_NATIVE_HISTOGRAM, samples))))
    ):
        numeric = list(map(_VALUE, samples))
        values = array("d", map(float, numeric)).tobytes()
        if values == last.values:
            return last
        return last._replace(values=values, written=last.with_values(numbers(numeric)))
    if form is Format.OPENMETRICS:  # native histograms came after OpenMetrics 1.0.0, which leaves them out
        samples = [sample for sample in samples if not _NATIVE_HISTOGRAM(sample)]
    names = [sample.name for sample in samples]
    labels = [dict(sample.labels or ()) for sample in samples]  # copies: the collector may go on to change its own
    pieces, order = _template(family, form, names, labels)
    laid_out = _Samples(about, names, labels, pieces, order, b"", b"")
    return laid_out._replace(written=laid_out.with_values([_value(family, sample, form) for sample in samples]))


_TEXT_TYPES = {"info": "gauge", "stateset": "gauge", "gaugehistogram": "histogram", "unknown": "untyped"}
_TEXT_SUFFIXES = {"counter": "_total", "info": "_info"}
# Samples that only OpenMetrics knows: the text format has them as gauges of their own, below their family.
_OPENMETRICS_SUFFIXES = ("_created", "_gcount", "_gsum")


def _template(
    family: Metric, form: Format, names: list[str], labels: list[dict[str, str]]
) -> tuple[list[str], Callable[[list[str]], Sequence[str]] | None]:
    """Return the text around the values of samples with these names and labels, and in which order they are written."""
    own: list[int] = []
    blocks = [(_header(family, form), own)]  # each a header and the indices of the samples below it
    if form is Format.TEXT:
        gauges: dict[str, list[int]] = {family.name + suffix: [] for suffix in _OPENMETRICS_SUFFIXES}
        for index, name in enumerate(names):
            gauges.get(name, own).append(index)
        help_text = escaped(family.documentation)
        blocks += [(_help_and_type(name, help_text, "gauge"), below) for name, below in gauges.items() if below]
    else:
        own += range(len(names))
        names = [name.replace(":", "_") for name in names]  # the client has colons in headers, but not in these lines
    pieces: list[str] = []
    order: list[int] = []
    text = ""  # up to the next hole
    for header, indices in blocks:
        text += header
        for index in indices:
            pieces += (text + start_of_line(names[index], labels[index]), "")
            text = ""
        text += "\n"
        order += indices
    return [*pieces, text], None if order == list(range(len(order))) else itemgetter(*order)


def _header(family: Metric, form: Format) -> str:
    if form is Format.TEXT:
        name = family.name + _TEXT_SUFFIXES.get(family.type, "")
        return _help_and_type(name, escaped(family.documentation), _TEXT_TYPES.get(family.type, family.type))
    header = _help_and_type(family.name, quoted(family.documentation), family.type)
    return f"{header}\n# UNIT {metric_name(family.name)} {family.unit}" if family.unit else header


def _help_and_type(name: str, help_text: str, kind: str) -> str:
    return f"# HELP {metric_name(name)} {help_text}\n# TYPE {metric_name(name)} {kind}"


def _value(family: Metric, sample: Sample, form: Format) -> str:
    """Return a sample's value, timestamp and exemplar."""
    value, timestamp = number(sample.value), sample.timestamp
    if form is Format.TEXT:
        return value if timestamp is None else f"{value} {int(float(timestamp) * 1000)}"
    value += _seconds(timestamp)
    return value + _exemplar(family, sample.name, sample.exemplar) if sample.exemplar else value


def _exemplar(family: Metric, name: str, exemplar: Exemplar) -> str:
    allowed = {
        "counter": name.endswith("_total"),
        "histogram": name.endswith("_bucket") or name == family.name,
        "gaugehistogram": name.endswith("_bucket"),
    }
    if not allowed.get(family.type):
        raise ValueError(f"{name} has an exemplar, but is neither a counter nor a histogram's bucket")
    pairs = ",".join([f'{key}="{quoted(value)}"' for key, value in sorted(exemplar.labels.items())])
    return f" # {{{pairs}}} {number(exemplar.value)}{_seconds(exemplar.timestamp)}"


def _seconds(timestamp: object) -> str:
    return "" if timestamp is None else f" {timestamp}"


# --- gzip -------------------------------------------------------------------------------------------------------------


# Level 1: a fifth larger than level 9 and a tenth of its CPU.
_LEVEL = 1
_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\x04\xff"  # RFC 1952: deflate, no name, no time, fastest, unknown system
_WORTH_KEEPING = 1 << 12  # bytes of a piece; less gains nothing, and to end a piece costs some bytes


class Gzip:
    """Compresses page after page, keeping the large pieces of the last one.

    Compressing takes a third of a large host's scrape, and most of what it compresses it has compressed at the last
    one.
    """

    def __init__(self) -> None:
        # By identity, as to compare a piece takes longer than to find out whether it is the same object. The piece is
        # kept too: while it lives, no other has its id.
        self._kept: dict[int, tuple[bytes, bytes]] = {}

    def compress(self, pieces: Iterable[bytes]) -> bytes:
        """Return these pieces, one behind another, as one gzip member."""
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
            # After a full flush nothing refers to what was before, so that what stands between two can be put anywhere.
            written.append(deflate.flush(zlib.Z_FULL_FLUSH))
            last = self._kept.get(id(piece))
            compressed = last[1] if last else deflate.compress(piece) + deflate.flush(zlib.Z_FULL_FLUSH)
            kept[id(piece)] = piece, compressed
            written.append(compressed)
        self._kept = kept
        return b"".join([*written, deflate.flush(), struct.pack("<LL", checksum, size & 0xFFFFFFFF)])
