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
from enum import Enum
from operator import itemgetter
from typing import TYPE_CHECKING, Callable, NamedTuple

from prometheus_client.samples import Sample

from virtscope.toolkit.families import Block, Blocks
from virtscope.toolkit.lines import escaped, metric_name, number, numbers, quoted, start_of_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client import Metric
    from prometheus_client.samples import Exemplar


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

    Memory is bounded by the series of the last scrape. Scrapes from several threads don't disturb each other.
    """

    def __init__(self, on_refused: Callable[[FamilyError], object] | None = None) -> None:
        self._on_refused = on_refused
        # Of the last scrape, by family name.
        self._layouts: dict[str, _Layout] = {}
        self._blocks: dict[str, _WrittenBlocks] = {}

    def text(self, families: Iterable[Metric]) -> bytes:
        """Return a scrape in the text format 0.0.4."""
        return b"".join(self.pieces(families, Format.TEXT))

    def openmetrics(self, families: Iterable[Metric]) -> bytes:
        """Return a scrape in OpenMetrics 1.0.0, `# EOF` included."""
        return b"".join(self.pieces(families, Format.OPENMETRICS))

    def pieces(self, families: Iterable[Metric], form: Format) -> list[bytes]:
        """Return a scrape in pieces; one of the last scrape in which nothing has changed is the same object again."""
        syntax = _OPENMETRICS if form is Format.OPENMETRICS else _TEXT
        layouts: dict[str, _Layout] = {}
        blocks: dict[str, _WrittenBlocks] = {}
        pieces = []
        for family in families:
            try:
                if isinstance(family, Blocks):
                    written = _write_blocks(family, self._blocks.get(family.name), syntax)
                    blocks[family.name] = written
                    pieces.append(written.piece)
                else:
                    layouts[family.name], piece = _write(family, self._layouts.get(family.name), syntax)
                    pieces.append(piece)
            except Exception as error:  # there is no knowing what a collector's odd objects raise
                refused = FamilyError(str(getattr(family, "name", family)), error)
                if self._on_refused is None:
                    raise refused from error
                self._on_refused(refused)
        self._layouts, self._blocks = layouts, blocks
        return [*pieces, b"# EOF\n"] if form is Format.OPENMETRICS else pieces


class _WrittenBlocks(NamedTuple):
    """What is kept of a family of blocks: they themselves, the header above them, and what was written."""

    blocks: list[Block]
    header: str
    piece: bytes


def _write_blocks(family: Blocks, kept: _WrittenBlocks | None, syntax: _Syntax) -> _WrittenBlocks:
    header = syntax.header(family)
    if kept and kept.blocks == family.blocks and kept.header == header:
        return kept
    text = "".join([header, *[block.lines for block in family.blocks], "\n"])
    return _WrittenBlocks(family.blocks, header, text.encode())


# A Sample is a tuple, so one call at C speed takes a column out of a whole family, and another compares it or looks
# into it. That takes a sixth off a scrape against one Python loop that does it all sample by sample.
_NAME, _LABELS, _VALUE, _TIMESTAMP, _EXEMPLAR = map(itemgetter, range(5))
# Before prometheus_client 0.22 (Debian 12 has 0.16, Ubuntu 22.04 0.9) a Sample ends before its native histogram.
_NATIVE_HISTOGRAM = itemgetter(5 if len(Sample._fields) > 5 else slice(0))


def _write(family: Metric, kept: _Layout | None, syntax: _Syntax) -> tuple[_Layout, bytes]:
    """Return a family's text, and what to keep of it for the next scrape.

    Encoded one by one, as UTF-8 refuses the lone surrogates that a guest's name may hold.
    """
    samples = family.samples
    about = (family.type, family.documentation, family.unit)
    if (
        kept
        and kept.about == about
        and kept.labels == list(map(_LABELS, samples))
        and kept.names == list(map(_NAME, samples))
        and syntax.values_alone(samples)
    ):
        return kept, kept.with_values(family, syntax)
    samples = [sample for sample in samples if syntax.shows(sample)]
    layout = _lay_out(about, samples, kept)
    values = [number(sample.value) + syntax.tail(family, sample) for sample in samples]
    return layout, layout.template(family, syntax).fill(values).encode()


class _Layout:
    """What is kept of a family between scrapes: everything but the values, and what was written with the last ones."""

    def __init__(self, about: tuple[str, ...], names: list[str], labels: list[dict[str, str]], starts: list[str]):
        self.about = about  # type, help, unit
        self.names = names
        self.labels = labels
        self.starts = starts  # of each sample's line: a line break, name{label="value",...} and a blank
        self._templates: dict[str, _Template] = {}  # by the syntax's name
        self._written: dict[str, tuple[bytes, bytes]] = {}  # likewise: the values' own bytes, and the text

    def with_values(self, family: Metric, syntax: _Syntax) -> bytes:
        """Return the family's text with its samples' values; the same object if they are those of the last scrape."""
        values = list(map(_VALUE, family.samples))
        compared = array("d", map(float, values)).tobytes()  # which tells -0 from 0
        last = self._written.get(syntax.name)
        if last and last[0] == compared:
            return last[1]
        text = self.template(family, syntax).fill(numbers(values)).encode()
        self._written[syntax.name] = compared, text
        return text

    def template(self, family: Metric, syntax: _Syntax) -> _Template:
        """Return the family's text but for the values; made when first asked for."""
        template = self._templates.get(syntax.name)
        if template is None:
            template = self._templates[syntax.name] = syntax.template(family, self)
        return template


def _lay_out(about: tuple[str, ...], samples: list[Sample], kept: _Layout | None) -> _Layout:
    """Return the kept layout if it is right for these samples, or else a new one that takes over what it can."""
    kept = kept or _Layout((), [], [], [])
    old = list(zip(kept.names, kept.labels))
    new = [(sample.name, sample.labels) for sample in samples]
    if old == new and kept.about == about:
        return kept

    # Mostly one guest has come or gone: what stood before and after it stays.
    head = _in_common(old, new)
    tail = _in_common(old[head:][::-1], new[head:][::-1])
    # Copies, as the collector may go on to change dicts that are its own.
    changed = [(name, dict(labels or ())) for name, labels in new[head : len(new) - tail]]
    behind = len(old) - tail
    return _Layout(
        about,
        [name for name, _ in new],
        kept.labels[:head] + [labels for _, labels in changed] + kept.labels[behind:],
        kept.starts[:head] + [start_of_line(name, labels) for name, labels in changed] + kept.starts[behind:],
    )


def _in_common(old: Sequence[object], new: Sequence[object]) -> int:
    """Return how many items are equal before the first that differs."""
    for count, (one, other) in enumerate(zip(old, new)):
        if one != other:
            return count
    return min(len(old), len(new))


class _Template(NamedTuple):
    """A family's text with holes for the values: header and start of line, hole, start of line, hole, ..., line end."""

    pieces: list[str]
    order: Callable[[list[str]], Sequence[str]] | None  # from the samples' order to the lines', where they differ

    @classmethod
    def of(cls, blocks: Iterable[tuple[str, Sequence[int]]], starts: Sequence[str]) -> _Template:
        """Make a template of blocks, each a header and the indices of the samples below it."""
        pieces: list[str] = []
        order: list[int] = []
        text = ""  # up to the next hole
        for header, indices in blocks:
            text += header
            for index in indices:
                pieces += (text + starts[index], "")
                text = ""
            text += "\n"
            order += indices
        return cls([*pieces, text], None if order == list(range(len(order))) else itemgetter(*order))

    def fill(self, values: list[str]) -> str:
        """Return the text with these values, given in the order of the samples."""
        pieces = self.pieces.copy()  # another thread may be at it too
        pieces[1::2] = self.order(values) if self.order else values
        return "".join(pieces)


# --- What both formats share -----------------------------------------------------------------------------------------


def _header(name: str, help_text: str, kind: str) -> str:
    return f"# HELP {metric_name(name)} {help_text}\n# TYPE {metric_name(name)} {kind}"


def _no_timestamps(samples: Sequence[Sample]) -> bool:
    return list(map(_TIMESTAMP, samples)).count(None) == len(samples)


class _Syntax(NamedTuple):
    """Where the two formats differ."""

    name: str
    values_alone: Callable[[Sequence[Sample]], bool]  # whether nothing stands behind any sample's value
    shows: Callable[[Sample], bool]
    tail: Callable[[Metric, Sample], str]  # what stands behind the value
    header: Callable[[Metric], str]
    template: Callable[[Metric, _Layout], _Template]


# --- Text format 0.0.4 -----------------------------------------------------------------------------------------------

_TEXT_TYPES = {"info": "gauge", "stateset": "gauge", "gaugehistogram": "histogram", "unknown": "untyped"}
_TEXT_SUFFIXES = {"counter": "_total", "info": "_info"}
# Samples that only OpenMetrics knows: the text format has them as gauges of their own, below their family.
_OPENMETRICS_SUFFIXES = ("_created", "_gcount", "_gsum")


def _text_header(family: Metric) -> str:
    name = family.name + _TEXT_SUFFIXES.get(family.type, "")
    return _header(name, escaped(family.documentation), _TEXT_TYPES.get(family.type, family.type))


def _text_template(family: Metric, layout: _Layout) -> _Template:
    own: list[int] = []
    gauges: dict[str, list[int]] = {family.name + suffix: [] for suffix in _OPENMETRICS_SUFFIXES}
    for index, name in enumerate(layout.names):
        gauges.get(name, own).append(index)
    help_text = escaped(family.documentation)
    blocks = [(_text_header(family), own)]
    blocks += [(_header(gauge, help_text, "gauge"), indices) for gauge, indices in gauges.items() if indices]
    return _Template.of(blocks, layout.starts)


def _milliseconds(_family: Metric, sample: Sample) -> str:
    return "" if sample.timestamp is None else f" {int(float(sample.timestamp) * 1000)}"


_TEXT = _Syntax(
    name="text",
    values_alone=_no_timestamps,
    shows=lambda _: True,
    tail=_milliseconds,
    header=_text_header,
    template=_text_template,
)


# --- OpenMetrics 1.0.0 -----------------------------------------------------------------------------------------------


def _openmetrics_header(family: Metric) -> str:
    header = _header(family.name, quoted(family.documentation), family.type)
    return f"{header}\n# UNIT {metric_name(family.name)} {family.unit}" if family.unit else header


def _openmetrics_template(family: Metric, layout: _Layout) -> _Template:
    starts = layout.starts
    if any(":" in name for name in layout.names):  # the client has colons in headers, but not in the lines below them
        starts = [start_of_line(name.replace(":", "_"), labels) for name, labels in zip(layout.names, layout.labels)]
    return _Template.of([(_openmetrics_header(family), range(len(starts)))], starts)


def _nothing_but_values(samples: Sequence[Sample]) -> bool:
    return _no_timestamps(samples) and not any(map(_EXEMPLAR, samples)) and not any(map(_NATIVE_HISTOGRAM, samples))


def _seconds_and_exemplar(family: Metric, sample: Sample) -> str:
    seconds = "" if sample.timestamp is None else f" {sample.timestamp}"
    return seconds + (_exemplar(family, sample, sample.exemplar) if sample.exemplar else "")


def _exemplar(family: Metric, sample: Sample, exemplar: Exemplar) -> str:
    allowed = {
        "counter": sample.name.endswith("_total"),
        "histogram": sample.name.endswith("_bucket") or sample.name == family.name,
        "gaugehistogram": sample.name.endswith("_bucket"),
    }
    if not allowed.get(family.type):
        raise ValueError(f"{sample.name} has an exemplar, but is neither a counter nor a histogram's bucket")
    pairs = ",".join([f'{key}="{quoted(value)}"' for key, value in sorted(exemplar.labels.items())])
    seconds = "" if exemplar.timestamp is None else f" {exemplar.timestamp}"
    return f" # {{{pairs}}} {number(exemplar.value)}{seconds}"


# Native histograms came after OpenMetrics 1.0.0, which leaves them out.
_OPENMETRICS = _Syntax(
    name="openmetrics",
    values_alone=_nothing_but_values,
    shows=lambda sample: not _NATIVE_HISTOGRAM(sample),
    tail=_seconds_and_exemplar,
    header=_openmetrics_header,
    template=_openmetrics_template,
)


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
            _, compressed = self._kept.get(id(piece)) or (
                piece,
                deflate.compress(piece) + deflate.flush(zlib.Z_FULL_FLUSH),
            )
            kept[id(piece)] = piece, compressed
            written.append(compressed)
        self._kept = kept
        return b"".join([*written, deflate.flush(), struct.pack("<LL", checksum, size & 0xFFFFFFFF)])
