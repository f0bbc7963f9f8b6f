"""vestat-exporter: its command line, and which sources a scrape, a recording and a replay have."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from prometheus_client import Metric

from virtscope.openvz import beancounters, ioacct, latency, quota, recorded, veinfo, vestat
from virtscope.openvz.procfs import Files, Procfs, RecordedProcfs, SecondaryFiles, Unread
from virtscope.openvz.vzlist import Vzlist
from virtscope.toolkit import cli
from virtscope.toolkit.collect import Background
from virtscope.toolkit.record import Recordable, record
from virtscope.toolkit.replay import Playback, View
from virtscope.toolkit.scrape import Exporter, Source
from virtscope.toolkit.totals import Totals

log = logging.getLogger(__name__)

DEFAULT_PORT = 10291
READ_SECONDS = 1.0
"""Time between two reads of vestat between scrapes. A container that lives shorter may be in no total."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter, or its `record`, until it is stopped; exits with 1 and one line on error."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["record"]:
        given = cli.start(cli.recorder("vestat-exporter"), words[1:])
        record("vestat", [recordable(Path(given.procfs))], given)
        return
    given = cli.start(_flags(), words)
    with contextlib.ExitStack() as at_end:
        if played := cli.playback("vestat", given):
            read_from = replayed(played)
        else:
            interval = getattr(given, "vzlist_interval", 60.0 if given.procfs == "/proc" else 0.0)
            read_from = live(Path(given.procfs), interval, at_end)
        cli.serve(Exporter("vestat", read_from), given)


def _flags() -> argparse.ArgumentParser:
    known = cli.parser("vestat-exporter", "Exposes an OpenVZ host and its containers to Prometheus.", DEFAULT_PORT)
    cli.add_replay(known)
    asking = (
        "time between two rounds of asking vzlist for containers' names; 0: never (default: 1m, but never with another "
        "--path.procfs, as vzlist knows this host only)"
    )
    cli.add_interval(known, "vzlist", asking, default=argparse.SUPPRESS)
    return known


def live(procfs: Path, vzlist_interval: float, at_end: contextlib.ExitStack) -> list[Source]:
    """Return the sources of this procfs, and vzlist if enabled; `at_end` stops reading in the background."""
    names = Vzlist(vzlist_interval) if vzlist_interval else None
    vz = Vz(procfs, names)
    at_end.enter_context(Background("vestat", vz.count, READ_SECONDS))
    if names:
        at_end.enter_context(names.background)
    return sources(procfs, vz)


def sources(procfs: Procfs, vz: Vz) -> list[Source]:
    """Return the sources of this procfs, of which `vz` reads the first, and the state of its vzlist."""
    names = vz.names
    resources, exposed = beancounters.BeancounterReader(procfs), beancounters.Families()
    disk = ioacct.DiskTotals()
    found = [
        Source("vestat", vz.read, vz.origin),
        Source("beancounters", lambda: exposed.of(resources.read()), lambda: str(procfs)),
        Source("ioacct", lambda: disk.families(ioacct.read(procfs)), lambda: f"{procfs}/bc", required=False),
        Source("quota", lambda: quota.families(quota.read(procfs)), lambda: f"{procfs}/vz/vzquota", required=False),
    ]
    if names:
        found.append(Source("vzlist", names.read, names.origin, required=False, background=names.background))
    return found


class Vz:
    """The source "vestat": /proc/vz/vestat, and version, veinfo and latency."""

    def __init__(self, procfs: Procfs, names: Vzlist | None = None) -> None:
        self.names = names
        self._vestat = vestat.VestatReader(procfs)
        self._secondary = SecondaryFiles(procfs)
        # A container that is away for longer was migrated, and comes back with what it used elsewhere.
        self._totals = Totals(remembered=1)
        self._lock = threading.Lock()  # reads are added in their order
        self.origin = self._vestat.origin

    def count(self) -> vestat.Vestat:
        """Read the file and add it to the host's totals; raises like VestatReader.read()."""
        with self._lock:
            read = self._vestat.read()
            if self._vestat.units:
                counters, uptimes = vestat.counted(read, self._vestat.units)
                self._totals.add(counters, time.monotonic(), ages=uptimes)
            return read

    def read(self) -> list[Metric]:
        """Return the containers' current metrics; raises like VestatReader.read()."""
        read = self.count()
        units = self._vestat.units
        kernel, processes, waits = map(self._secondary.read, ("vz/version", "vz/veinfo", "vz/latency"))
        with self._lock:  # a read in the background may be half added
            made = vestat.families(read, units, self._totals, kernel, self._secondary.unread)
        if processes is not None:
            made += veinfo.families(veinfo.parse(processes))
        if waits is not None:
            made += latency.families(latency.parse(waits), units)
        return made + (self.names.describe([row.ctid for row in read.rows]) if self.names else [])


def recordable(procfs: Path) -> Recordable:
    """Return this procfs as a source for recording."""
    logged: set[str] = set()  # files recorded only as an error

    def read() -> Files:
        files = recorded.read(procfs)
        for path, content in files.items():
            if isinstance(content, Unread) and path not in logged:
                logged.add(path)
                log.warning("file can't be read", extra={"fields": {"file": procfs / path, "err": content.errno}})
        return files

    contents = "files of /proc/vz and /proc/bc: every container's id, IP addresses and values"
    return Recordable("procfs", contents, read, recorded.anonymised)


def replayed(played: Playback) -> list[Source]:
    """Return the sources of a recording's files, like those of a host."""

    def new_view(place: int) -> View[Files]:
        procfs = RecordedProcfs()
        read = sources(procfs, Vz(procfs))[place].read

        def families(files: Files) -> list[Metric]:
            procfs.show(files)
            return read()

        return families

    return [
        played.source(source.name, "procfs", recorded.files, partial(new_view, place), source.required)
        for place, source in enumerate(sources(RecordedProcfs(), Vz(RecordedProcfs())))
    ]
