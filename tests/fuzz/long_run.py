"""A long run against one parser: inputs as fast as it reads them, on every CPU, and what they leave behind.

Each worker is a process that puts an input where this one can see it before it reads it. So the input is known whatever
becomes of the worker: an exception, a crash, a hang (which SIGALRM ends, also within C code), memory without end.
"""

from __future__ import annotations

import gc
import logging
import mmap
import os
import resource
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.mutation import Mutations
from tests.fuzz.parsers import Parser

HANG_SECONDS = 20  # for one input, on a busy machine
MOST_MEMORY = 4 << 30  # bytes of address space that a worker may have
SETTLING_SECONDS = 30.0  # for a server to notice that the last connections have ended
# What a worker may have more at its end than half way: caches with a bound are full by then.
MOST_BLOCKS = 20_000  # objects
MOST_BYTES = 16 << 20
MOST_THREADS = MOST_DESCRIPTORS = 8  # of a server that was asked by one client after the other

_HEAD = struct.Struct("QQ")  # inputs so far, bytes of the present one
_BATCH = 256  # inputs between two looks at the clock


class Failed(Exception):
    """An input made the parser fail, or the inputs together have left something behind."""

    def __init__(self, why: str, data: bytes) -> None:
        super().__init__(why)
        self.data = data


class _Left(NamedTuple):
    """What a process holds."""

    descriptors: int
    threads: int
    blocks: int
    resident: int


class _Worker(NamedTuple):
    pid: int
    shown: mmap.mmap
    words: int  # the end of a pipe: what went wrong

    def inputs(self) -> int:
        return int(_HEAD.unpack_from(self.shown)[0])

    def data(self) -> bytes:
        size = _HEAD.unpack_from(self.shown)[1]
        return self.shown[_HEAD.size : _HEAD.size + size]


def run(parser: Parser, start: int, seconds: float = 0, workers: int = 1, *, inputs: int = 0) -> int:
    """Return how many inputs the parser has read or refused; raises Failed with the first that it failed on.

    start: chooses the inputs.
    seconds: how long, though not before each worker has read so many `inputs`.
    """
    started = [_start(parser, start + number, seconds, inputs) for number in range(workers)]
    failed = [failure for worker in started if (failure := _end(worker)) is not None]
    done = sum(worker.inputs() for worker in started)
    for worker in started:
        worker.shown.close()
    if failed:
        raise failed[0]
    return done


def _start(parser: Parser, start: int, seconds: float, least: int) -> _Worker:
    largest = max(map(len, parser.seeds))
    shown = mmap.mmap(-1, _HEAD.size + 64 * largest + (1 << 20))
    words, said = os.pipe()
    pid = os.fork()
    if pid:
        os.close(said)
        return _Worker(pid, shown, words)
    status = 1
    try:
        os.close(words)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        logging.getLogger().addHandler(logging.NullHandler())  # else each warning would be a line on the terminal
        _read_on(parser, Mutations(parser.seeds, start).next, shown, time.monotonic() + seconds, least)
        status = 0
    except BaseException:  # whatever it is, the other process gets it
        os.write(said, traceback.format_exc()[-4096:].encode(errors="backslashreplace"))
    finally:
        sys.stderr.flush()
        os._exit(status)


def _end(worker: _Worker) -> Failed | None:
    """Wait for a worker's end; returns what it has failed on."""
    with os.fdopen(worker.words, "rb") as pipe:
        why = pipe.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
    if status == -signal.SIGALRM:
        why = f"an input took more than {HANG_SECONDS} s"
    elif status < 0:
        why = f"the process was ended by {signal.Signals(-status).name}"
    return Failed(why, worker.data()) if status else None


def _read_on(parser: Parser, mutated: Callable[[], bytes], shown: mmap.mmap, end: float, least: int) -> None:
    half = (time.monotonic() + end) / 2
    before: _Left | None = None
    inputs = 0
    while (now := time.monotonic()) < end or inputs < least:
        if before is None and now >= half and inputs >= least / 2:
            before = _left(_Left(0, 0, 0, 0))
        for _ in range(_BATCH):
            data = mutated()
            _HEAD.pack_into(shown, 0, inputs, len(data))
            shown[_HEAD.size : _HEAD.size + len(data)] = data
            signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
            parser.read_or_refuse(data)
            inputs += 1
            if inputs == least:
                break
    signal.setitimer(signal.ITIMER_REAL, 0)
    _HEAD.pack_into(shown, 0, inputs, 0)
    if before is not None:
        after = _left(before)
        assert after.descriptors - before.descriptors <= MOST_DESCRIPTORS, f"descriptors: {before}, then {after}"
        assert after.threads - before.threads <= MOST_THREADS, f"threads: {before}, then {after}"
        assert after.blocks - before.blocks <= MOST_BLOCKS, f"objects: {before}, then {after}"
        assert after.resident - before.resident <= MOST_BYTES, f"memory: {before}, then {after}"


def _left(most: _Left) -> _Left:
    """What this process holds, once it has hardly more descriptors and threads than that, or after some seconds."""
    deadline = time.monotonic() + (SETTLING_SECONDS if most.threads else 0.5)
    while True:
        gc.collect()
        found = _Left(
            len([*Path("/proc/self/fd").iterdir()]),
            threading.active_count(),
            sys.getallocatedblocks(),
            int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize(),
        )
        fewer = (
            found.descriptors - most.descriptors <= MOST_DESCRIPTORS and found.threads - most.threads <= MOST_THREADS
        )
        if fewer or time.monotonic() >= deadline:
            return found
        time.sleep(0.05)
