"""Remote write 1.0 requests as an attacker sends them: any labels, also duplicates."""

import struct
from collections.abc import Sequence
from typing import TypeAlias

Labels: TypeAlias = Sequence[tuple[str, str]]
"""In the request's order; an honest request has each name once, sorted."""


def request(series: Sequence[Labels], value: float, at: float) -> bytes:
    """The body of a request with a sample of each series: protobuf in a snappy block. `at` is in seconds."""
    sample = _field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + _varint(int(at * 1000)))
    content = b""
    for labels in series:
        pairs = (_field(1, name.encode()) + _field(2, text.encode()) for name, text in labels)
        content += _field(1, b"".join(_field(1, pair) for pair in pairs) + sample)
    # A block without compression: literals of up to 60 bytes each.
    parts = [content[start : start + 60] for start in range(0, len(content), 60)]
    return _varint(len(content)) + b"".join(bytes([(len(part) - 1) << 2]) + part for part in parts)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
