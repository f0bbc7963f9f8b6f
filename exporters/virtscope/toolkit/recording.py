"""A recording of a host: timed readings of an exporter's sources, one line each.

The format, described in docs/recordings.md for other writers: gzip of UTF-8 lines, each a JSON object. The first is the
header; the others are readings, ordered by time:

    {"format": "virtscope recording", "version": 1, "exporter": "xentop", "sources": ["libxenstat"], "interval": 1.0}
    {"t": 0.0, "source": "libxenstat", "data": {...}}
    {"t": 1.0, "source": "libxenstat", "failed": "timeout", "message": "no answer for 1.0 s"}

Invalid UTF-8 bytes are lone surrogates, U+DC80 to U+DCFF, like Python's surrogateescape.

The version changes only with incompatible formats. Fields added later have a default for older recordings; readers
ignore unknown fields and sources.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Callable, NamedTuple, TypeVar

from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceTimeout, SourceUnavailable, reason_of

FORMAT = "virtscope recording"
VERSION = 1
LONGEST_LINE = 16 << 20  # bytes; four times a reading of 1,000 containers. Longer lines are refused, to limit memory

T = TypeVar("T")
V = TypeVar("V")
Decode = Callable[[object], T]

_FAILURES = {kind.reason: kind for kind in (SourceError, SourceUnavailable, SourceMalformed, SourceTimeout)}


class Header(NamedTuple):
    """The header of a recording."""

    exporter: str  # the exporter: "xentop", "vestat"
    sources: tuple[str, ...]  # names of its sources
    interval: float  # seconds between two readings of a source
    recorded: str = ""  # when, in words or as a date; "" where unknown
    anonymised: bool = False
    begins: float | None = None  # Unix time of t=0, for a recording that continues other values


class Failed(NamedTuple):
    """A failed reading: SourceError's reason, and the message."""

    failed: str
    message: str

    @classmethod
    def of(cls, error: Exception) -> Failed:
        """Return the record of this error."""
        return cls(reason_of(error), str(error))

    def error(self) -> SourceError:
        """Return the recorded error."""
        return _FAILURES[self.failed](self.message)


class Reading(NamedTuple):
    """A reading of a source, `t` seconds after the recording began: JSON data, or a failure."""

    t: float
    source: str
    data: object = None
    failed: Failed | None = None


class Writer:
    """Writes a new recording. Each reading is flushed to disk before the next, so a truncated file stays readable."""

    def __init__(self, path: Path, header: Header) -> None:
        """Create the file, readable by its owner only; raises FileExistsError if it exists, OSError like open()."""
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._zipped = gzip.GzipFile("", "wb", compresslevel=6, fileobj=self._file)
        self._write({"format": FORMAT, "version": VERSION, **header._asdict()})

    def write(self, seconds: float, source: str, outcome: object) -> None:
        """Add a reading: Failed, or a value for encode()."""
        line: dict[str, object] = {"t": round(seconds, 6), "source": source}
        if isinstance(outcome, Failed):
            line.update(outcome._asdict())
        else:
            line["data"] = encode(outcome)
        self._write(line)

    def close(self) -> None:
        """End the file."""
        self._zipped.close()
        self._file.close()

    def _write(self, line: Mapping[str, object]) -> None:
        self._zipped.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        self._zipped.flush(zlib.Z_SYNC_FLUSH)
        self._file.flush()


class Reader:
    """Reads a recording line by line, with at most one line in memory.

    A truncated file ends with its last whole line; `cut` is True then.
    """

    def __init__(self, path: Path) -> None:
        """Read the header; raises SourceUnavailable without a file, SourceMalformed if it is no recording."""
        self._path = path
        self.cut = False
        self._number = 0  # of the last line read
        try:
            self._file = gzip.GzipFile(path, "rb")
        except OSError as error:
            raise SourceUnavailable(f"{path} can't be read: {error.strerror}") from error
        try:
            self.header = self._header()
        except SourceError:
            self.close()
            raise

    def readings(self) -> Iterator[Reading]:
        """Yield the readings; raises SourceMalformed with the number of a malformed line."""
        before = -math.inf
        while (line := self._line()) is not None:
            reading = self._reading(line)
            if reading.t < before:
                raise self._malformed(f'"t" goes back from {before} to {reading.t}')
            before = reading.t
            yield reading

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _header(self) -> Header:
        line = self._line()
        if line is None:
            raise SourceMalformed(f"{self._path} is empty, or cut off within its first line")
        if line.get("format") != FORMAT:
            raise SourceMalformed(f"{self._path} is no recording: its first line lacks {FORMAT!r} as its format")
        if line.get("version") != VERSION:
            raise SourceMalformed(
                f"{self._path} is a recording of version {line.get('version')!r}; this exporter reads version {VERSION}"
            )
        header = self._decoded(_HEADER, line)
        if not header.sources or not header.interval:
            raise self._malformed("it needs the names of its sources, and an interval above 0")
        return header

    def _reading(self, line: Mapping[str, Any]) -> Reading:
        if "failed" in line:
            return self._decoded(_READING, line)._replace(failed=self._decoded(_failed, line))
        if "data" not in line:
            raise self._malformed('neither "data" nor "failed"')
        return self._decoded(_READING, line)

    def _decoded(self, decode: Callable[[Mapping[str, Any]], T], line: Mapping[str, Any]) -> T:
        try:
            return decode(line)
        except SourceMalformed as error:
            raise self._malformed(str(error)) from error

    def _line(self) -> dict[str, Any] | None:
        """Return the next line; None at the end, also of a truncated file."""
        try:
            text = self._file.readline(LONGEST_LINE)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            if self._number == 0 and not isinstance(error, EOFError):
                raise SourceMalformed(f"{self._path} is no recording: {error}") from error
            self.cut = True
            return None
        except OSError as error:
            raise SourceError(f"{self._path} can't be read: {error.strerror}") from error
        if not text:
            return None
        self._number += 1
        if len(text) == LONGEST_LINE:
            raise self._malformed(f"longer than {LONGEST_LINE >> 20} MiB")
        if not text.endswith(b"\n"):
            self.cut = True
            return None
        try:
            line = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._malformed(f"no JSON: {error}: {text[:80]!r}") from error
        if not isinstance(line, dict):
            raise self._malformed(f"no JSON object: {text[:80]!r}")
        return line

    def _malformed(self, what: str) -> SourceMalformed:
        return SourceMalformed(f"line {self._number} of {self._path}: {what}")


def encode(raw: object) -> object:
    """Convert a reading to JSON: named tuples and dicts to objects, other tuples to arrays, bytes to text."""
    if isinstance(raw, bytes):
        return raw.decode("utf-8", "surrogateescape")
    if isinstance(raw, dict):
        return {key: encode(value) for key, value in raw.items()}
    if isinstance(raw, tuple):
        fields = getattr(raw, "_fields", None)
        return dict(zip(fields, map(encode, raw))) if fields else list(map(encode, raw))
    return raw


def whole(value: object) -> int:
    """Decode a whole number of at most 64 bits; true and false are 1 and 0."""
    if isinstance(value, int) and 0 <= value < 1 << 64:
        return value
    raise SourceMalformed(f"it has {str(value)[:80]!r} for a whole number")


def real(value: object) -> float:
    """Decode a number that isn't negative."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1 << 64:
        return value
    raise SourceMalformed(f"it has {str(value)[:80]!r} for a number")


def text(value: object) -> bytes:
    """Decode bytes."""
    try:
        if isinstance(value, str):
            return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        pass
    raise SourceMalformed(f"it has {str(value)[:80]!r} for text")


def word(value: object) -> str:
    """Decode text that was not bytes."""
    if isinstance(value, str):
        return value
    raise SourceMalformed(f"it has {str(value)[:80]!r} for a word")


def optional(decode: Decode[T]) -> Decode[T | None]:
    """Decode null as None, and anything else with `decode`."""
    return lambda value: None if value is None else decode(value)


def or_failed(decode: Decode[T]) -> Decode[T | Failed]:
    """Decode an object with "failed" as Failed, and anything else with `decode`."""
    return lambda value: _failed(value) if isinstance(value, dict) and "failed" in value else decode(value)


def _failed(value: Mapping[str, object]) -> Failed:
    if value["failed"] not in _FAILURES:
        raise SourceMalformed(f"it has {str(value['failed'])[:80]!r} for one of {', '.join(_FAILURES)}")
    return Failed(str(value["failed"]), str(value.get("message", "")))


def many(decode: Decode[T]) -> Decode[tuple[T, ...]]:
    """Decode an array."""

    def decoded(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise SourceMalformed(f"it has {str(value)[:80]!r} for a list")
        return tuple([decode(item) for item in value])

    return decoded


def pair(first: Decode[T], second: Decode[V]) -> Decode[tuple[T, V]]:
    """Decode an array of two."""

    def decoded(value: object) -> tuple[T, V]:
        if not isinstance(value, list) or len(value) != 2:
            raise SourceMalformed(f"it has {str(value)[:80]!r} for a pair")
        return first(value[0]), second(value[1])

    return decoded


def named(decode: Decode[T]) -> Decode[Mapping[str, T]]:
    """Decode an object with any names, such as those of files."""

    def decoded(value: object) -> Mapping[str, T]:
        if not isinstance(value, dict):
            raise SourceMalformed(f"it has {str(value)[:80]!r} for values by name")
        return {name: decode(item) for name, item in value.items()}

    return decoded


def record(kind: Callable[..., T], **decoders: Decode[Any]) -> Decode[T]:
    """Decode an object as a named tuple of this kind, whose fields are whole numbers unless they have a decoder.

    Fields with a default may be absent, in older recordings. Unknown fields, of newer recordings, are ignored.
    """
    fields: tuple[str, ...] = getattr(kind, "_fields", ())
    by_field = [(field, decoders.get(field, whole)) for field in fields]
    defaults: Mapping[str, Any] = getattr(kind, "_field_defaults", {})
    required = set(fields) - defaults.keys()

    def decoded(value: object) -> T:
        if not isinstance(value, dict):
            raise SourceMalformed(f"it has {str(value)[:80]!r} where {', '.join(fields)} should be")
        if not value.keys() >= required:
            raise SourceMalformed(f"it lacks {', '.join(sorted(required - value.keys()))} in {str(value)[:80]!r}")
        return kind(*[decode(value[field]) if field in value else defaults[field] for field, decode in by_field])

    return decoded


_HEADER = record(Header, exporter=word, sources=many(word), interval=real, recorded=word, begins=optional(real))
_READING = record(Reading, t=real, source=word, data=lambda data: data, failed=lambda _: None)
