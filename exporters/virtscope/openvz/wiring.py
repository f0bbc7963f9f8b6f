"""Which sources there are, of this host, for a recording and of one, and what shows the figures of each."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Callable

from prometheus_client import Metric

from virtscope.openvz import beancounter_metrics, ioacct, metrics, quota, recorded
from virtscope.openvz.source.bc import BeancounterReader, read_ioacct
from virtscope.openvz.source.procfs import Procfs
from virtscope.openvz.source.recorded import Files, RecordedProcfs, Unread
from virtscope.openvz.source.vz import Vz, read_quotas
from virtscope.openvz.source.vzlist import Vzlist
from virtscope.toolkit.exporter import Source
from virtscope.toolkit.record import Recordable
from virtscope.toolkit.replay import Playback, View

log = logging.getLogger(__name__)


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
    vz, resources, shown = Vz(procfs), BeancounterReader(procfs), beancounter_metrics.Families()

    def read_vz() -> list[Metric]:
        host = vz.read()
        return metrics.families(host) + describe([row.ctid for row in host.vestat.rows])

    def read_quota() -> list[Metric]:
        return quota.families(read_quotas(procfs))

    return [
        Source("vestat", read_vz, vz.origin),
        Source("beancounters", lambda: shown.of(resources.read()), lambda: str(procfs)),
        Source("ioacct", lambda: ioacct.families(read_ioacct(procfs)), lambda: str(procfs / "bc"), required=False),
        Source("quota", read_quota, lambda: str(procfs / "vz/vzquota"), required=False),
    ]


def recordable(procfs: Path) -> Recordable:
    """Return what a recording takes of the host whose procfs this is."""
    said: set[str] = set()  # in the log, files that the recording has no more of than why

    def read() -> Files:
        files = recorded.read(procfs)
        for path, content in files.items():
            if isinstance(content, Unread) and path not in said:
                said.add(path)
                log.warning("file can't be read", extra={"fields": {"file": procfs / path, "err": content.errno}})
        return files

    contents = "files of /proc/vz and /proc/bc: every container's id, IP addresses and figures"
    return Recordable("procfs", contents, read, recorded.anonymised)


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
