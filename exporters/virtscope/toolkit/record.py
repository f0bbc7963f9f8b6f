"""`record`: what an exporter's sources give, written to a file as it comes, for replay on another machine."""

from __future__ import annotations

import argparse
import contextlib
import logging
import signal
import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, NamedTuple

from virtscope.toolkit.durations import duration
from virtscope.toolkit.recording import Failed, Header, Writer
from virtscope.toolkit.sources import SourceReader
from virtscope.toolkit.standins import StandIns

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 2.0  # with a source, however short the interval: a busy host's answer is late, and no failure


class Recordable(NamedTuple):
    """A source as it is recorded: what it gives before anything is understood of it."""

    name: str  # of its readings in the recording
    contents: str  # what they hold, in words
    # Gives what recording.encode() takes, the very same object again where nothing is new, which is not written twice;
    # raises SourceError.
    read: Callable[[], Any]
    anonymised: Callable[[Any, StandIns], Any]  # the same with stand-ins for names and addresses


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every exporter's `record` takes."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the recording, a new file, such as host.jsonl.gz")
    parser.add_argument(
        "--for",
        dest="seconds",
        type=duration,
        default="10m",
        metavar="DURATION",
        help="how long to record, such as 90s, 10m or 1h; Ctrl-C ends it earlier",
    )
    parser.add_argument("--interval", type=duration, default="1s", metavar="DURATION", help="time between two readings")
    parser.add_argument(
        "--anonymise",
        action="store_true",
        help="put stand-ins in the place of names, UUIDs and addresses; the same one for the same name",
    )


def record(exporter: str, sources: Sequence[Recordable], given: argparse.Namespace) -> None:
    """Record until the time is over, or SIGINT or SIGTERM come; says at the start what, at the end how much.

    A failure is in the log when it begins. Exits with 1 and one line where the file exists already or can't be written,
    and where every reading failed.
    """
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopped.set())
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
            _say(
                f"{program}: recording into {path}, every {given.interval:g} s for {given.seconds:g} s; Ctrl-C ends it"
            )
            for source in sources:
                _say(f"  {source.name}: {source.contents}")
            _say(
                "Names, UUIDs and addresses are replaced by stand-ins; numbers are as they are."
                if given.anonymise
                else "Names and addresses are as they are; --anonymise replaces them."
            )
            readings, failed = _record(writer, list(zip(sources, readers)), given, stopped)
        size = path.stat().st_size
    except FileExistsError:
        sys.exit(f"{program}: {path} exists already; choose another file")
    except OSError as error:
        sys.exit(f"{program}: {path} can't be written: {error.strerror}")
    _say(f"{program}: {readings} readings ({failed} failed), {size} bytes in {path}")
    if failed == readings:
        sys.exit(f"{program}: nothing could be read; the log says why")
    _say(f"Before you send it, look at what it says of your host: zcat {path} | less")


def _record(
    writer: Writer,
    sources: Sequence[tuple[Recordable, SourceReader[Any]]],
    given: argparse.Namespace,
    stopped: threading.Event,
) -> tuple[int, int]:
    """Return how many readings were written, and how many of them are failures."""
    stand_ins = StandIns() if given.anonymise else None
    begun = time.monotonic()
    readings = failed = 0
    last: dict[str, object] = {}
    said: dict[str, Failed] = {}  # in the log, by source
    due = 0.0  # seconds since the beginning
    while not stopped.is_set() and due < given.seconds:
        asked = [reader.ask() for _, reader in sources]
        seconds = time.monotonic() - begun
        for (source, reader), read in zip(sources, asked):
            # A source that hangs must not hold up the others, nor Ctrl-C.
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
                    outcome = outcome._replace(message="left out")  # what it quotes may hold names
            elif stand_ins:
                outcome = source.anonymised(outcome, stand_ins)
            writer.write(seconds, source.name, outcome)
            readings += 1
        due = max(due + given.interval, time.monotonic() - begun)
        stopped.wait(min(due, given.seconds) - (time.monotonic() - begun))
    return readings, failed


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
