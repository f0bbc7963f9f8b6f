"""Exposes to Prometheus what Xen's Dom0 knows of its domains."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Sequence

from virtscope.toolkit import flags, program
from virtscope.toolkit.durations import interval_or_never
from virtscope.toolkit.exporter import Exporter
from virtscope.toolkit.record import record
from virtscope.toolkit.sources import SourceUnavailable
from virtscope.xen.source.libxenstat import Libxenstat
from virtscope.xen.source.xentop import Xentop, find_xentop
from virtscope.xen.wiring import live, recordable, recordable_toolstack, replayed, toolstack

log = logging.getLogger(__name__)

DEFAULT_PORT = 10290
SOURCES = ("libxenstat", "xentop")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter, or its `record`, until it is told to stop; exits with 1 and one line when it can't start."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["record"]:
        _record(words[1:])
    else:
        _serve(words)


def _record(words: Sequence[str]) -> None:
    known_flags = flags.recorder("xentop-exporter")
    _add_flags(known_flags, SOURCES)
    given = program.start(known_flags, words)
    with contextlib.ExitStack() as at_end:
        source = choose_source(getattr(given, "source", ""), given.sysfs, at_end)
        told = recordable_toolstack(given.xl_interval, at_end) if given.xl_interval and not given.anonymise else []
        record("xentop", [recordable(source, given.procfs, given.sysfs), *told], given)


def _serve(words: Sequence[str]) -> None:
    known_flags = flags.parser("xentop-exporter", __doc__, DEFAULT_PORT)
    _add_flags(known_flags, (*SOURCES, flags.REPLAY))
    flags.add_replay(known_flags)
    given = program.start(known_flags, words)
    with contextlib.ExitStack() as at_end:
        if played := program.playback("xentop", given):
            sources = replayed(played)
        else:
            source = choose_source(getattr(given, "source", ""), given.sysfs, at_end)
            sources = live(source, given.procfs, given.sysfs, toolstack(given.xl_interval, at_end))
        program.serve(Exporter("xentop", sources), given)


def _add_flags(known_flags: argparse.ArgumentParser, choices: Sequence[str]) -> None:
    known_flags.add_argument(
        "--source",
        type=flags.source(choices),
        default=argparse.SUPPRESS,
        metavar="|".join(choices),
        help="where the figures come from (default: libxenstat if it can be opened at the start, else xentop if it is "
        "installed)",
    )
    known_flags.add_argument(
        "--xl.interval",
        dest="xl_interval",
        type=interval_or_never,
        default="30s",
        metavar="DURATION",
        help="time between two rounds of asking xl (or xm) for uuids, weights, caps, CPU pools and affinity; 0: never",
    )


def choose_source(wanted: str, sysfs: str, at_end: contextlib.ExitStack) -> Libxenstat | Xentop:
    """Return the source that the user wants, or the best that can be used now; `at_end` ends what it started."""
    library = Libxenstat(sysfs)
    xentop = find_xentop()
    if wanted == "xentop" and not xentop:
        sys.exit("xentop-exporter: xentop is not in PATH; install Xen's tools (Debian: xen-utils)")
    if not wanted and xentop:
        try:
            library.open()
        except SourceUnavailable as error:
            log.warning("libxenstat can't be used, so xentop is", extra={"fields": {"err": error}})
            wanted = "xentop"
    if wanted == "xentop" and xentop:
        child = Xentop(xentop)
        child.start()
        at_end.callback(child.close)
        return child
    return library
