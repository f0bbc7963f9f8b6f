"""Make every Prometheus of the proof scrape a target at the same moments, so that answers only differ by faults.

Prometheus spreads scrapes over their interval. A target is due at (hash of the target ^ seed) % interval nanoseconds
(scrape/target.go, offset); the seed is the 64-bit FNV-1a hash of the host name and the external labels
(scrape/manager.go, setOffsetSeed). The Prometheus of a pair have different external labels, so each gets its own host
name in a UTS namespace, chosen so that all seeds have the same high bits. The remaining difference is milliseconds.
"""

import os
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_BASIS, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)
_HALF = 5  # letters: 26**5 first halves, a tenth of which can be used, and as many second ones agree in 43 bits

_States = NDArray[np.uint64]


def seed(name: str, labels: Mapping[str, str]) -> int:
    """The seed of a Prometheus on a host of this name with these external labels."""
    state = _BASIS
    for byte in (name + _text(labels)).encode():
        state = ((state ^ byte) * _PRIME) & _MASK
    return state


def host_name(labels: Mapping[str, str], wanted: int) -> str:
    """A host name with which a Prometheus with these external labels has about the wanted seed.

    A byte is mixed in by XOR, which is addition if the state's low byte is 0. So a first half that ends with the letter
    that makes it 0 is followed by `state * prime**n + the hash of the rest from 0`. Sorting all second halves finds
    those that fit each first one.
    """
    firsts = _after(np.array([_BASIS], dtype=np.uint64), _HALF)
    low = (firsts & np.uint64(0xFF)).astype(np.uint8)
    usable = np.flatnonzero(np.isin(low, _LETTERS))
    zeroed = (firsts[usable] ^ low[usable]) * np.uint64(_PRIME)
    rest = _text(labels).encode()
    seconds = _after(np.zeros(1, dtype=np.uint64), _HALF)
    for byte in rest:
        seconds = (seconds ^ np.uint64(byte)) * np.uint64(_PRIME)
    order = np.argsort(seconds)
    power = np.uint64(pow(_PRIME, _HALF + len(rest), 1 << 64))
    gaps = np.uint64(wanted) - zeroed * power
    found = order[np.searchsorted(seconds, gaps, sorter=order) % len(order)]
    best = int(np.argmin((zeroed * power + seconds[found]) ^ np.uint64(wanted)))
    return f"{_letters(int(usable[best]))}{chr(low[usable[best]])}{_letters(int(found[best]))}"


def on_host(name: str, command: list[str]) -> list[str]:
    """The command line that runs a command with another host name, in the same process."""
    mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--uts", *mapped, "sh", "-c", 'hostname "$0" && exec "$@"', name, *command]


def _text(labels: Mapping[str, str]) -> str:
    """Labels as Prometheus writes them; values here need no escapes."""
    return "{" + ", ".join(f'{name}="{labels[name]}"' for name in sorted(labels)) + "}"


def _after(states: _States, count: int) -> _States:
    """The states after this many letters, for all words: the last letter changes fastest."""
    for _ in range(count):
        states = ((states[:, None] ^ _LETTERS.astype(np.uint64)) * np.uint64(_PRIME)).ravel()
    return states


def _letters(number: int) -> str:
    """The word with this index among all of that length."""
    return "".join(chr(_LETTERS[number // 26**place % 26]) for place in reversed(range(_HALF)))
