"""Exposes to Prometheus what an OpenVZ host knows of its containers."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from virtscope.openvz.wiring import live, recordable, replayed
from virtscope.toolkit import flags, program
from virtscope.toolkit.durations import interval_or_never
from virtscope.toolkit.exporter import Exporter
from virtscope.toolkit.record import record

DEFAULT_PORT = 10291


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter, or its `record`, until it is told to stop; exits with 1 and one line when it can't start."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["record"]:
        given = program.start(flags.recorder("vestat-exporter"), words[1:])
        record("vestat", [recordable(Path(given.procfs))], given)
        return
    known_flags = flags.parser("vestat-exporter", __doc__, DEFAULT_PORT)
    known_flags.add_argument(
        "--source",
        type=flags.source([flags.REPLAY]),
        default=argparse.SUPPRESS,
        metavar=flags.REPLAY,
        help="play a recording instead of reading this host's procfs",
    )
    flags.add_replay(known_flags)
    known_flags.add_argument(
        "--vzlist.interval",
        dest="vzlist_interval",
        type=interval_or_never,
        default=argparse.SUPPRESS,
        metavar="DURATION",
        help="time between two rounds of asking vzlist for containers' names; 0: never (default: 1m, but never with "
        "another --path.procfs, as vzlist tells of this host)",
    )
    given = program.start(known_flags, words)
    with contextlib.ExitStack() as at_end:
        if played := program.playback("vestat", given):
            read_from = replayed(played)
        else:
            interval = getattr(given, "vzlist_interval", 60.0 if given.procfs == "/proc" else 0.0)
            read_from = live(Path(given.procfs), interval, at_end)
        program.serve(Exporter("vestat", read_from), given)
