"""A long run against one parser: inputs as fast as it reads them, on every CPU, and what they leave behind.

Each worker is a process that puts an input where this one can see it before it reads it. So the input is known whatever
becomes of the worker: an exception, a crash, a hang (which SIGALRM ends, also within C code), memory without end.
"""

from __future__ import annotations

import gc
import logging
import mmap
import multiprocessing
import resource
import signal
import struct
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz.mutation import Mutations
from tests.fuzz.parsers import Parser

HANG_SECONDS = 20  # for one input, on a busy machine
MOST_MEMORY = 4 << 30  # bytes of address space that a worker may have
SETTLING_SECONDS = 30.0  # for a server to notice that the last connections have ended
# What a worker may have more at its end than half way: caches with a bound are full by then. Descriptors and threads
# are those of a server that was asked by one client after the other.
MOST_MORE = {"descriptors": 8, "threads": 8, "objects": 20_000, "bytes": 16 << 20}

_HEAD = struct.Struct("QQ")  # inputs so far, bytes of the present one
_BATCH = 256  # inputs between two looks at the clock
_FORK = multiprocessing.get_context("fork")


class Failed(Exception):
    """An input made the parser fail, or the inputs together have left something behind."""

    def __init__(self, why: str, data: bytes) -> None:
        super().__init__(why)
        self.data = data


def run(parser: Parser, start: int, seconds: float = 0, workers: int = 1, *, inputs: int = 0) -> int:
    """Return how many inputs the parser has read or refused; raises Failed with the first that it failed on.

    start: chooses the inputs.
    seconds: how long, though not before each worker has read so many `inputs`.
    """
    started = []
    for number in range(workers):
        shown = mmap.mmap(-1, _HEAD.size + 64 * max(map(len, parser.seeds)) + (1 << 20))
        said, says = _FORK.Pipe(duplex=False)
        until, mutations = (time.monotonic() + seconds, inputs), Mutations(parser.seeds, start + number)
        process = _FORK.Process(target=_work, args=(mutations, parser, until, shown, says))
        process.start()
        says.close()
        started.append((process, shown, said))
    done = 0
    failures = []
    for process, shown, said in started:
        try:
            why = said.recv()
        except EOFError:
            why = "the process was ended without a word"
        process.join()
        if process.exitcode == -signal.SIGALRM:
            why = f"an input took more than {HANG_SECONDS} s"
        elif process.exitcode and process.exitcode < 0:
            why = f"the process was ended by {signal.Signals(-process.exitcode).name}"
        count, size = _HEAD.unpack_from(shown)
        done += count
        if why:
            failures.append(Failed(why, shown[_HEAD.size : _HEAD.size + size]))
        shown.close()
    if failures:
        raise failures[0]
    return done


def _work(mutations: Mutations, parser: Parser, until: tuple[float, int], shown: mmap.mmap, says: Connection) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.getLogger().addHandler(logging.NullHandler())  # else each warning would be a line on the terminal
    try:
        _read_on(parser, mutations, shown, *until)
        says.send("")
    except BaseException:  # whatever it is, the other process gets it
        says.send(traceback.format_exc()[-4096:])


def _read_on(parser: Parser, mutations: Mutations, shown: mmap.mmap, end: float, least: int) -> None:
    half = (time.monotonic() + end) / 2
    before: dict[str, int] = {}
    inputs = 0
    while (now := time.monotonic()) < end or inputs < least:
        if not before and now >= half and inputs >= least / 2:
            before = _left({})
        for _ in range(_BATCH):
            data = mutations.next()
            _HEAD.pack_into(shown, 0, inputs, len(data))
            shown[_HEAD.size : _HEAD.size + len(data)] = data
            signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
            parser.read_or_refuse(data)
            inputs += 1
            if inputs == least:
                break
    signal.setitimer(signal.ITIMER_REAL, 0)
    _HEAD.pack_into(shown, 0, inputs, 0)
    if before:
        after = _left(before)
        assert not _too_much(before, after), f"{before}, then {after}"


def _too_much(before: dict[str, int], after: dict[str, int], *kinds: str) -> bool:
    return any(after[kind] - before.get(kind, 0) > MOST_MORE[kind] for kind in kinds or MOST_MORE)


def _left(before: dict[str, int]) -> dict[str, int]:
    """What this process holds, once it has hardly more descriptors and threads than before, or after some seconds."""
    deadline = time.monotonic() + (SETTLING_SECONDS if before else 0.5)
    while True:
        gc.collect()
        found = {
            "descriptors": len([*Path("/proc/self/fd").iterdir()]),
            "threads": threading.active_count(),
            "objects": sys.getallocatedblocks(),
            "bytes": int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize(),
        }
        if not _too_much(before, found, "descriptors", "threads") or time.monotonic() >= deadline:
            return found
        time.sleep(0.05)
