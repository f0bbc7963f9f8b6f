"""Values of a recording, which anybody may have written, out of JSON's terms."""

from __future__ import annotations

from typing import NamedTuple

from tests.support.refusing import refusal
from virtscope.toolkit import recording
from virtscope.toolkit.collect import SourceMalformed
from virtscope.toolkit.recording import Decode, Failed


class Guest(NamedTuple):
    name: bytes
    seconds: float = 0.5


GUEST = recording.record(Guest, Guest._fields, name=recording.text, seconds=recording.real)


WELL_FORMED: list[tuple[Decode[object], object, object]] = [
    (recording.whole, 0, 0),
    (recording.whole, 2**64 - 1, 2**64 - 1),
    (recording.whole, True, 1),
    (recording.real, 0, 0),
    (recording.real, 1.5, 1.5),
    (recording.text, "k\udcffse", b"k\xffse"),
    (recording.word, "käse", "käse"),
    (recording.optional(recording.whole), None, None),
    (recording.optional(recording.whole), 7, 7),
    (recording.many(recording.whole), [], ()),
    (recording.many(recording.whole), [1, 2], (1, 2)),
    (recording.or_failed(recording.whole), {"failed": "timeout"}, Failed("timeout", "")),
    (recording.or_failed(recording.whole), 3, 3),
    (GUEST, {"name": "web", "seconds": 2, "of a newer exporter": 1}, Guest(b"web", 2)),
    (GUEST, {"name": "of an older exporter"}, Guest(b"of an older exporter", 0.5)),
]
MALFORMED: list[tuple[Decode[object], list[object]]] = [
    (recording.whole, [-1, 2**64, 1.0, "1", None]),
    (recording.real, [-0.5, 2.0**64, True, "1", None, float("nan")]),
    (recording.text, [1, None, "\ud800"]),
    (recording.word, [1, None]),
    (recording.optional(recording.whole), [-1, ""]),
    (recording.many(recording.whole), [{}, "12", [1, -1], None]),
    (recording.or_failed(recording.whole), [{"failed": "hard"}, {}, -1]),
    (GUEST, [[], {"seconds": 1}, {"name": 1}, {"name": "", "seconds": -1}]),
]


def test_what_is_well_formed_and_what_is_not() -> None:
    for decode, value, decoded in WELL_FORMED:
        assert decode(value) == decoded, value
    for decode, values in MALFORMED:
        for value in values:
            refusal(SourceMalformed, decode, value)
