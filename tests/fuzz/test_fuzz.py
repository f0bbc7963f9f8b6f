"""Every parser reads or refuses arbitrary bytes and mutated real text, at a cost proportional to the input's size.

So do the exporters' servers (edge.py). Inputs are the same each time. `make fuzz` generates new ones for FUZZ_MINUTES
on all CPUs and counts them: ten million take about 20 minutes on two. A failing input is saved to tests/fuzz/found/
under the parser's name and is tried first from then on; the commit that fixes it turns it into a seed or an example.
"""

import gc
import hashlib
import multiprocessing
import os
import re
import resource
import sys
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.fuzz.edge import EDGE
from tests.fuzz.mutation import TOKENS, Mutations
from tests.fuzz.parsers import PARSERS, Parser
from tests.support.waiting import wait_for

FOUND = Path(__file__).parent / "found"
ALL = [*PARSERS, *EDGE]
# Processes per parser in the long run.
SECONDS = float(os.environ.get("FUZZ_MINUTES", "0")) * 60 * (os.cpu_count() or 1) / len(ALL)
# Growth allowed between the middle and the end of a long run, when bounded caches are full. Descriptors and threads are
# those of a server that is queried by one client after the other.
MAX_MORE = {"descriptors": 8, "threads": 8, "objects": 20_000, "bytes": 16 << 20}
MAX_MEMORY = 256  # bytes per byte of input: a list of one-letter words takes up to 60, a YAML document 200
MAX_GROWTH = 3  # times the proportional time; quadratic code takes 8 times that for 8 times the input

LONG_NUMBER = b"9" * 5000
MAX_NUMBERS = 100  # numbers of a parser's seeds that are made long, one after the other

every_parser = pytest.mark.parametrize("parser", PARSERS, ids=[parser.name for parser in PARSERS])
everyone = pytest.mark.parametrize("parser", ALL, ids=[parser.name for parser in ALL])


def fuzz(parser: Parser, start: int, seconds: float = 0) -> int:
    """Return how many inputs of `start` were read or refused; saves the first other one, including hangs."""
    mutations, until, inputs = Mutations(parser.seeds, start), time.monotonic() + seconds, 0
    while inputs < parser.examples or time.monotonic() < until:
        data = mutations.next()
        try:
            parser.read_or_refuse(data)
        except BaseException as error:  # pytest's timeout too
            saved = FOUND / parser.name / hashlib.sha256(data).hexdigest()[:16]
            saved.parent.mkdir(parents=True, exist_ok=True)
            saved.write_bytes(data)
            error.add_note(f"the input is in {saved}")
            raise
        inputs += 1
    return inputs


@everyone
def test_any_bytes_are_read_or_refused(parser: Parser) -> None:
    for path in sorted((FOUND / parser.name).glob("*")):
        parser.read_or_refuse(path.read_bytes())
    fuzz(parser, start=zlib.crc32(parser.name.encode()))


@every_parser
def test_no_number_is_too_long(parser: Parser) -> None:
    """Python converts at most 4,300 digits."""
    places = [(seed, number) for seed in parser.seeds for number in re.finditer(rb"[0-9]+", seed)]
    for seed, number in places[:: len(places) // MAX_NUMBERS + 1]:
        parser.read_or_refuse(seed[: number.start()] + LONG_NUMBER + seed[number.end() :])


def held() -> dict[str, int]:
    gc.collect()
    return {
        "descriptors": len([*Path("/proc/self/fd").iterdir()]),
        "threads": threading.active_count(),
        "objects": sys.getallocatedblocks(),
        "bytes": int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize(),
    }


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 300)
@everyone
def test_a_long_run_leaves_nothing_behind(parser: Parser, capsys: pytest.CaptureFixture[str]) -> None:
    start = time.time_ns() if SECONDS else 1
    inputs = fuzz(parser, start, SECONDS / 2)
    before = held()
    inputs += fuzz(parser, start + 1, SECONDS / 2)
    # A server needs a while to notice that the last connections have ended.
    wait_for(
        lambda: [kind for kind, now in held().items() if now - before[kind] > MAX_MORE[kind]],
        30,
        until=lambda more: not more,
    )
    with capsys.disabled():
        sys.stdout.write(f" {parser.name}: {inputs:,} inputs\n" if SECONDS else "")


def grown(parser: Parser) -> Iterator[tuple[bytes, bytes]]:
    """Yield texts that repeat one part, each in a small version and one of 8 times its size."""
    seed = max(parser.seeds, key=len)
    lines = seed.splitlines(keepends=True)
    top, bottom = b"".join(lines[:2]), b"".join(lines[2:])
    for part in dict.fromkeys((seed, *lines[2 :: max(1, len(lines) // 6)], *TOKENS)):
        times = parser.largest // 8 // len(part) + 1
        yield top + part * times + bottom, top + part * times * 8 + bottom * 8


def _peaks(index: int) -> list[tuple[bytes, int]]:
    """Return the peak of allocated bytes while a parser reads each small text."""
    gc.disable()  # garbage of earlier tests and its finalizers must not count
    peaks = []
    for small, _ in grown(PARSERS[index]):
        tracemalloc.start()
        PARSERS[index].read_or_refuse(small)
        peaks.append((small, tracemalloc.get_traced_memory()[1]))
        tracemalloc.stop()
    return peaks


@pytest.mark.system
@every_parser
def test_memory_is_a_multiple_of_the_input(parser: Parser) -> None:
    # tracemalloc counts all threads, including other tests' servers: a forked process has only this one.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as process:
        for small, peak in process.submit(_peaks, PARSERS.index(parser)).result():
            assert peak < MAX_MEMORY * len(small) + 1_000_000, small[:300]


@pytest.mark.system
@every_parser
def test_time_grows_as_the_input_does(parser: Parser) -> None:
    """CPU time of this thread, with a wide margin below quadratic growth. Measured up to three times."""

    def seconds(data: bytes) -> float:
        begun = time.thread_time()
        parser.read_or_refuse(data)
        return time.thread_time() - begun

    for small, large in grown(parser):
        if not any(seconds(large) <= MAX_GROWTH * 8 * seconds(small) + 0.05 for _ in range(3)):
            pytest.fail(f"8 times the size takes more than {MAX_GROWTH * 8} times the time: {small[:300]!r}")
