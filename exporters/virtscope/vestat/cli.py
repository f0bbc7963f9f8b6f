"""Exposes to Prometheus what an OpenVZ host knows of its containers."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Callable

from prometheus_client import Metric

from virtscope.shell import flags, program
from virtscope.shell.durations import interval_or_never
from virtscope.shell.exporter import Exporter, Source
from virtscope.shell.record import Recordable, record
from virtscope.shell.replay import Playback, View
from virtscope.vestat import beancounter_metrics, beancounters, ioacct, metrics, quota, recorded
from virtscope.vestat.source.procfs import Procfs
from virtscope.vestat.source.recorded import Files, RecordedProcfs
from virtscope.vestat.source.vz import Vz
from virtscope.vestat.source.vzlist import Vzlist

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
        # The exporter's own process is always below /proc, also where --path.procfs is another host's files.
        program.serve(Exporter("vestat", read_from), given)


def live(procfs: Path, vzlist_interval: float, at_end: contextlib.ExitStack) -> list[Source]:
    """Return what reads the host whose procfs this is, and asks vzlist, if at all; `at_end` ends it."""
    if not vzlist_interval:
        return sources(procfs)
    names = Vzlist(vzlist_interval)
    names.start()
    at_end.callback(names.close)
    told = Source("vzlist", names.read, names.origin, required=False, background=names.background)
    return [*sources(procfs, names.describe), told]


def tell_nothing(_living: Sequence[str]) -> list[Metric]:
    """Describe no container: in place of vzlist where it isn't asked."""
    return []


def sources(procfs: Procfs, describe: Callable[[Sequence[str]], list[Metric]] = tell_nothing) -> list[Source]:
    """Return what reads the host whose procfs this is; `describe` tells what else is known of the living containers."""
    vz = Vz(procfs)

    def read_vz() -> list[Metric]:
        host = vz.read()
        return metrics.families(host) + describe([row.ctid for row in host.vestat.rows])

    resources = beancounters.Reader(procfs)
    shown = beancounter_metrics.Families()

    def read_beancounters() -> list[Metric]:
        return shown.of(resources.read())

    def read_ioacct() -> list[Metric]:
        return ioacct.families(ioacct.read(procfs))

    def read_quota() -> list[Metric]:
        return quota.families(quota.read(procfs))

    return [
        Source("vestat", read_vz, vz.origin),
        Source("beancounters", read_beancounters, lambda: str(procfs)),
        Source("ioacct", read_ioacct, lambda: str(procfs / "bc"), required=False),
        Source("quota", read_quota, lambda: str(procfs / "vz/vzquota"), required=False),
    ]


def recordable(procfs: Path) -> Recordable:
    """Return what a recording takes of the host whose procfs this is."""
    contents = "files of /proc/vz and /proc/bc: every container's id, IP addresses and figures"
    return Recordable("procfs", contents, lambda: recorded.read(procfs), recorded.anonymised)


def replayed(played: Playback) -> list[Source]:
    """Return what reads a recording's files as it reads a host's."""

    def new_view(place: int) -> View[Files]:
        procfs = RecordedProcfs()
        read = sources(procfs)[place].read

        def families(files: Files) -> list[Metric]:
            procfs.show(files)
            return read()

        return families

    return [
        played.source(source.name, "procfs", recorded.files, partial(new_view, place), source.required)
        for place, source in enumerate(sources(RecordedProcfs()))
    ]
