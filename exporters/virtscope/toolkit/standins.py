"""Stand-ins for names and addresses: the same one for the same name, unlike it, and of its shape."""

from __future__ import annotations

import random
import re

_HEX = re.compile(rb"[0-9A-Fa-f.:-]+")
_SHAPES = {
    **dict.fromkeys(b"0123456789", "0123456789"),
    **dict.fromkeys(b"abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz"),
    **dict.fromkeys(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
}


class StandIns:
    """Gives names their stand-ins, at random, and remembers them as long as it lives: no file has the table.

    A stand-in has as many bytes as the name, letters for letters, digits for digits, hex digits where the name is made
    of them (UUIDs, addresses), other characters of as many bytes for those beyond ASCII. Blanks and punctuation stay,
    as do bytes that are no UTF-8 bytes that are none: they are what parsers stumble over.
    """

    def __init__(self) -> None:
        self._given: dict[bytes, bytes] = {}
        self._taken: set[bytes] = set()
        self._random = random.SystemRandom()

    def __call__(self, name: bytes) -> bytes:
        """Return the stand-in for this name."""
        stand_in = self._given.get(name)
        if stand_in is None:
            stand_in = self._given[name] = self._new(name)
            self._taken.add(stand_in)
        return stand_in

    def _new(self, name: bytes) -> bytes:
        if not any(byte in _SHAPES or byte >= 0x80 for byte in name):  # nothing in it says anything
            return name
        tried, shape = 0, name
        while (stand_in := self._alike(shape)) == name or stand_in in self._taken:
            tried += 1
            if tried % 100 == 0:
                shape += b"x"  # so many short names that there is no other left
        return stand_in

    def _alike(self, name: bytes) -> bytes:
        hexadecimal = _HEX.fullmatch(name) is not None
        return b"".join(self._letter(letter, hexadecimal) for letter in name.decode("utf-8", "surrogateescape"))

    def _letter(self, letter: str, hexadecimal: bool) -> bytes:
        code = ord(letter)
        if code < 0x80:
            choice = _SHAPES.get(code, letter)
            if hexadecimal and letter.isalpha():
                choice = choice[:6]
            return self._random.choice(choice).encode()
        if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, nor is any of these
            return bytes([self._random.randrange(0xF8, 0x100)])
        first, last = ((0x3B1, 0x3C9), (0x4E00, 0x9FFF), (0x20000, 0x2A6D6))[len(letter.encode()) - 2]
        return chr(self._random.randint(first, last)).encode()
