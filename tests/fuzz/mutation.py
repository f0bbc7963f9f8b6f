"""Fuzz inputs: real text with a few mutations, generated in microseconds.

hypothesis generates a few thousand inputs a second at most; a parser of one header reads fifty times as many.
"""

import random
import re
from collections.abc import Sequence

# Typical parser traps: limits of number types, delimiters, half of a UTF-8 character.
TOKENS = [
    *[str(number).encode() for number in (-1, 0, 2**31, 2**63, 2**64 - 1, 2**64, 10**30)],
    *[b" ", b"\n", b"\r\n", b"\t", b"\0", b":", b"-", b".", b",", b";", b"1e999", b"nan", b"no limit", b"(null)"],
    *[b"\xc3", b"\xff\xfe", "\N{ARABIC-INDIC DIGIT SEVEN}\u2028".encode(), b"\\", b'"', b"{", b"- ", b"&a [*a, *a]"],
    b"9" * 5000,  # more digits than Python converts
]

_MAX_PLACES = 6
_SHORT, _LONG = 9, 400  # mutation lengths in bytes
_WORD = re.compile(rb"\w{2,40}|\W")


class Mutations:
    """An endless stream of inputs made of these seeds; the same ones for the same `start`."""

    def __init__(self, seeds: Sequence[bytes], start: int) -> None:
        self._seeds = seeds
        self._random = random.Random(start)
        # Words of the seeds, moved to other places: keys, units, keywords.
        words = {word for seed in seeds for word in _WORD.findall(seed[:4096])}
        self._tokens = [*TOKENS, *sorted(words)]

    def next(self) -> bytes:
        """Return a seed with some parts cut, doubled, moved or overwritten; rarely random bytes."""
        rolled = self._random.random
        if rolled() < 0.02:
            return self._random.randbytes(int(rolled() * _LONG))
        data = self._seeds[int(rolled() * len(self._seeds))]
        if rolled() < 0.05:  # the beginning of one seed and the end of another
            other = self._seeds[int(rolled() * len(self._seeds))]
            data = data[: int(rolled() * (len(data) + 1))] + other[int(rolled() * (len(other) + 1)) :]
        for _ in range(1 + int(rolled() * _MAX_PLACES)):
            begin = int(rolled() * (len(data) + 1))
            end = begin + int(rolled() * (_SHORT if rolled() < 0.7 else _LONG))
            part = data[begin:end]
            token = self._tokens[int(rolled() * len(self._tokens))]
            changes = (b"", part * 2, part[::-1], self._random.randbytes(int(rolled() * _SHORT)), token, token)
            instead = changes[int(rolled() * len(changes))]
            if rolled() < 0.2:  # elsewhere
                begin = end = int(rolled() * (len(data) + 1))
            data = data[:begin] + instead + data[end:]
        return data
