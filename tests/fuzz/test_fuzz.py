"""Every parser reads arbitrary bytes and mutated real text, or refuses them as it says, at a cost of the input's size.

So do the exporters' servers (edge.py). `make fuzz` goes on for FUZZ_MINUTES, on all CPUs, and counts: ten million take
about 20 minutes on two. What one fails on is saved to tests/fuzz/found/ under its name. It is tried first from then on,
and belongs in the commit that fixes it.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import multiprocessing
import os
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import long_run
from tests.fuzz.edge import EDGE
from tests.fuzz.mutation import TOKENS
from tests.fuzz.parsers import PARSERS, Parser

FOUND = Path(__file__).parent / "found"
ALL = [*PARSERS, *EDGE]
SECONDS = float(os.environ.get("FUZZ_MINUTES", "0")) * 60 / len(ALL)  # of the long run, for each
FEW = 100  # inputs of a long run that is none
MOST_MEMORY = 256  # bytes for a byte of input: a list of one-letter words takes up to 60, a YAML document 200
MOST_GROWTH = 3  # times the time that is due to a larger input; of what is quadratic, 8 times as much takes 8 times

LONG_NUMBER = b"9" * 5000
MOST_NUMBERS = 200  # that are made long, one after the other, in a seed

every_parser = pytest.mark.parametrize("parser", PARSERS, ids=[parser.name for parser in PARSERS])
everyone = pytest.mark.parametrize("parser", ALL, ids=[parser.name for parser in ALL])


@st.composite
def mutated(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """Real text in which some places were cut out, doubled, moved or written over."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.integers(0, 9) | st.integers(0, 400))
        part = data[start:end]
        instead = draw(st.sampled_from([b"", part * 2, part[::-1], *TOKENS]) | st.binary(max_size=9))
        if draw(st.integers(0, 4)) == 0:  # elsewhere
            start = end = draw(st.integers(0, len(data)))
        data = data[:start] + instead + data[end:]
    return data


def read_or_refused(parser: Parser, data: bytes) -> None:
    with contextlib.suppress(*parser.refusals):
        parser.read(data)


def save(parser: Parser, data: bytes, error: Exception) -> None:
    saved = FOUND / parser.name / hashlib.sha256(data).hexdigest()[:16]
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_bytes(data)
    error.add_note(f"the input is in {saved}")


@everyone
def test_what_was_found_before(parser: Parser) -> None:
    for path in sorted((FOUND / parser.name).glob("*")):
        read_or_refused(parser, path.read_bytes())


@everyone
def test_any_bytes_are_read_or_refused(parser: Parser) -> None:
    failing = b""

    # Speed says nothing on a busy machine. What fails is kept in FOUND, not in a database of this machine.
    @settings(max_examples=parser.examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.binary(max_size=400) | mutated(parser.seeds))
    def one_round(data: bytes) -> None:
        nonlocal failing
        try:
            read_or_refused(parser, data)
        except Exception:
            failing = data  # the last of them is the smallest that hypothesis finds
            raise

    try:
        one_round()
    except Exception as error:
        save(parser, failing, error)
        raise


@every_parser
def test_no_number_is_too_long(parser: Parser) -> None:
    """Python turns 4,300 digits into a number at most."""
    for seed in parser.seeds:
        numbers = list(re.finditer(rb"[0-9]+", seed))
        for number in numbers[:: len(numbers) // MOST_NUMBERS + 1]:
            data = seed[: number.start()] + LONG_NUMBER + seed[number.end() :]
            try:
                read_or_refused(parser, data)
            except Exception as error:
                save(parser, data, error)
                raise


@everyone
def test_a_long_run_leaves_nothing_behind(parser: Parser, record_property: Callable[[str, object], None]) -> None:
    """No exception, no crash, no hang; no descriptor, thread or memory that stays."""
    begun = time.monotonic()
    try:
        inputs = long_run.run(parser, SECONDS) if SECONDS else long_run.run(parser, 0, FEW, workers=1)
    except long_run.Failed as error:
        save(parser, error.data, error)
        raise
    record_property("inputs", inputs)
    record_property("seconds", time.monotonic() - begun)


def grown(parser: Parser) -> Iterator[tuple[bytes, bytes]]:
    """Yield texts in which one part comes again and again, each in a small edition and one of 8 times its size."""
    seed = max(parser.seeds, key=len)
    lines = seed.splitlines(keepends=True)
    top, bottom = b"".join(lines[:2]), b"".join(lines[2:])
    for part in {seed, *lines[2 :: max(1, len(lines) // 6)], *TOKENS}:
        times = parser.largest // 8 // len(part) + 1
        yield top + part * times + bottom, top + part * times * 8 + bottom * 8


def _peaks(index: int) -> list[tuple[bytes, int]]:
    """Return the bytes that each small text of a parser takes at most while it is read."""
    gc.disable()  # what others have left and their finalizers allocate isn't the parser's
    peaks = []
    for small, _ in grown(PARSERS[index]):
        tracemalloc.start()
        read_or_refused(PARSERS[index], small)
        peaks.append((small, tracemalloc.get_traced_memory()[1]))
        tracemalloc.stop()
    return peaks


@every_parser
def test_memory_is_a_multiple_of_the_input(parser: Parser) -> None:
    # tracemalloc counts what all threads allocate, and other tests' servers have some: a forked process has this one.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as process:
        for small, peak in process.submit(_peaks, PARSERS.index(parser)).result():
            assert peak < MOST_MEMORY * len(small) + 1_000_000, small[:300]


@every_parser
def test_time_grows_as_the_input_does(parser: Parser) -> None:
    """Of quadratic time, with a wide margin: this is no measurement, and a second look is had before it fails."""

    def seconds(data: bytes) -> float:
        begun = time.thread_time()
        read_or_refused(parser, data)
        return time.thread_time() - begun

    for small, large in grown(parser):
        for _ in range(3):
            due = MOST_GROWTH * 8 * seconds(small) + 0.05
            if seconds(large) <= due:
                break
        else:
            pytest.fail(f"8 times the size takes more than {MOST_GROWTH * 8} times the time: {small[:300]!r}")
