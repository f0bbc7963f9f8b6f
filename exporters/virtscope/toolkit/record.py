"""`record`: writes the readings of an exporter's sources to a file, for replay on another machine."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import random
import re
import select
import signal
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, Callable, NamedTuple

from virtscope.toolkit.collect import Background, SourceReader
from virtscope.toolkit.recording import Failed, Header, T, Writer

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 2.0  # minimum wait for a source: on a busy host, answers are slow


class Recordable(NamedTuple):
    """A source for recording: its raw readings, before parsing."""

    name: str  # of the source in the recording
    contents: str  # description of its readings
    # Returns a value for recording.encode(); the same object if nothing has changed, which is not written again. Raises
    # SourceError.
    read: Callable[[], Any]
    anonymised: Callable[[Any, StandIns], Any]  # the same with pseudonyms for names and addresses


def polled(
    background: Background[T], contents: str, anonymised: Callable[[T, StandIns], T], at_end: contextlib.ExitStack
) -> Recordable:
    """Return a source for recording that is polled from now on; `at_end` stops that."""
    at_end.enter_context(background)
    background.wait_for_first(PATIENCE_SECONDS)
    return Recordable(background.name, contents, background.latest, anonymised)


def record(exporter: str, sources: Sequence[Recordable], given: argparse.Namespace) -> None:
    """Record until the time is over or SIGINT or SIGTERM arrives; prints the sources first and the amount at the end.

    Logs a failure when it begins. Exits with 1 and one line if the file exists, can't be written, or every reading
    failed.
    """
    # Not an Event: the handler runs in the main thread, which may hold the Event's lock while waiting for it.
    came, wake_up = os.pipe()
    os.set_blocking(wake_up, False)
    signal.set_wakeup_fd(wake_up, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    program, path = f"{exporter}-exporter", given.file
    readers = [SourceReader(source.name, source.read) for source in sources]
    header = Header(
        exporter,
        tuple(source.name for source in sources),
        given.interval,
        datetime.now(timezone.utc).isoformat(timespec="seconds"),
        given.anonymise,
    )
    try:
        with contextlib.closing(Writer(path, header)) as writer:
            every = f"every {given.interval:g} s for {given.seconds:g} s; Ctrl-C ends it"
            _say(
                f"{program}: recording into {path}, {every}",
                *(f"  {source.name}: {source.contents}" for source in sources),
                "Names, UUIDs and addresses are replaced by pseudonyms; numbers are unchanged."
                if given.anonymise
                else "Names and addresses are not replaced; use --anonymise for that.",
            )
            readings, failed = _record(writer, list(zip(sources, readers)), given, came)
        size = path.stat().st_size
    except FileExistsError:
        sys.exit(f"{program}: {path} exists already; choose another file")
    except OSError as error:
        sys.exit(f"{program}: {path} can't be written: {error.strerror}")
    _say(f"{program}: {readings} readings ({failed} failed), {size} bytes in {path}")
    if failed == readings:
        sys.exit(f"{program}: nothing could be read; the log says why")
    _say(f"Check it for private data before you send it: zcat {path} | less")


def _record(
    writer: Writer, sources: Sequence[tuple[Recordable, SourceReader[Any]]], given: argparse.Namespace, came: int
) -> tuple[int, int]:
    """Return the number of readings written, and of failures among them.

    `came` is the descriptor of a pipe that receives signals.
    """
    stand_ins = StandIns() if given.anonymise else None
    begun = time.monotonic()
    readings = failed = 0
    last: dict[str, object] = {}
    said: dict[str, Failed] = {}  # in the log, by source
    due = 0.0  # seconds since the beginning
    stopped = False
    while not stopped and due < given.seconds:
        asked = [reader.ask() for _, reader in sources]
        seconds = time.monotonic() - begun
        for (source, reader), read in zip(sources, asked):
            # A hanging source must not delay the others or Ctrl-C.
            outcome = reader.answer(read, begun + seconds + max(given.interval, PATIENCE_SECONDS))
            if outcome is last.get(source.name):
                continue
            last[source.name] = outcome
            if isinstance(outcome, Exception):
                failed += 1
                outcome = Failed.of(outcome)
                if said.get(source.name) != outcome:
                    fields = {"source": source.name, "reason": outcome.failed, "err": outcome.message}
                    log.warning("source failed", extra={"fields": fields})
                said[source.name] = outcome
                if stand_ins:
                    outcome = outcome._replace(message="left out")  # its quotes may contain names
            elif stand_ins:
                outcome = source.anonymised(outcome, stand_ins)
            writer.write(seconds, source.name, outcome)
            readings += 1
        due = max(due + given.interval, time.monotonic() - begun)
        left = min(due, given.seconds) - (time.monotonic() - begun)
        stopped = bool(select.select([came], [], [], max(left, 0))[0])
    return readings, failed


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()


# --- Pseudonyms for names and addresses -------------------------------------------------------------------------------


_HEX = re.compile(rb"[0-9A-Fa-f.:-]+")
_SHAPES = {
    **dict.fromkeys(b"0123456789", "0123456789"),
    **dict.fromkeys(b"abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz"),
    **dict.fromkeys(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
}


class StandIns:
    """Replaces names and addresses by random pseudonyms: consistent, different from the name, and of the same shape.

    The table is kept in memory only.

    A pseudonym has the name's length in bytes: letters for letters, digits for digits, hex digits for names in hex
    (UUIDs, addresses), characters of the same size for non-ASCII ones. Blanks and punctuation stay, and invalid UTF-8
    stays invalid, because parsers may stumble over them.
    """

    def __init__(self) -> None:
        self._given: dict[bytes, bytes] = {}
        self._taken: set[bytes] = set()
        self._random = random.SystemRandom()

    def __call__(self, name: bytes) -> bytes:
        """Return the pseudonym of this name."""
        stand_in = self._given.get(name)
        if stand_in is None:
            stand_in = self._given[name] = self._new(name)
            self._taken.add(stand_in)
        return stand_in

    def _new(self, name: bytes) -> bytes:
        if not any(byte in _SHAPES or byte >= 0x80 for byte in name):  # nothing to hide
            return name
        tried, shape = 0, name
        while (stand_in := self._alike(shape)) == name or stand_in in self._taken:
            tried += 1
            if tried % 100 == 0:
                shape += b"x"  # too many short names: no unused pseudonym left
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
        if 0xDC80 <= code <= 0xDCFF:  # an invalid UTF-8 byte, like all of these
            return bytes([self._random.randrange(0xF8, 0x100)])
        first, last = ((0x3B1, 0x3C9), (0x4E00, 0x9FFF), (0x20000, 0x2A6D6))[len(letter.encode()) - 2]
        return chr(self._random.randint(first, last)).encode()
