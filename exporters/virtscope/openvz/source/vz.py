"""/proc/vz: the containers of a host at one moment, with the units they are counted in, and their disk quotas."""

from __future__ import annotations

import logging
from typing import NamedTuple

from virtscope.openvz import latency, quota, units, veinfo, vestat
from virtscope.openvz.latency import Latency
from virtscope.openvz.quota import Quotas
from virtscope.openvz.source.procfs import Procfs, read_optional, read_text
from virtscope.openvz.units import Units
from virtscope.openvz.veinfo import Veinfo
from virtscope.openvz.vestat import Vestat
from virtscope.toolkit.sources import SourceError

log = logging.getLogger(__name__)


class Host(NamedTuple):
    """What /proc/vz says.

    None: there is no such file, or it is one of the `unread`; for `units`, nothing to decide them on, nor to convert.
    """

    kernel: str | None
    vestat: Vestat
    units: Units | None
    veinfo: Veinfo | None
    latency: Latency | None
    unread: int  # how many of the files beside vestat are there and can't be read


class Vz:
    """Reads /proc/vz below `procfs`.

    The units are decided once and kept: they are the running kernel's, and a clock inferred a little differently at
    each read would make counters go backwards.
    """

    def __init__(self, procfs: Procfs) -> None:
        self._procfs = procfs
        self._units: Units | None = None
        self._unread: dict[str, str] = {}  # why each file beside vestat could not be read, as of the last read

    def read(self) -> Host:
        """Return the host as it is now.

        Raises SourceUnavailable off OpenVZ and without the right to read, SourceRubbish where /proc/vz/vestat can't be
        understood or its units can't be told.
        """
        parsed = vestat.parse(read_text(self._procfs, "vz/vestat"))
        if self._units is None:
            self._units = self._decide(parsed)
        kernel, containers, waits = map(self._beside, ("vz/version", "vz/veinfo", "vz/latency"))
        return Host(
            kernel=None if kernel is None else kernel.strip(),
            vestat=parsed,
            units=self._units,
            veinfo=None if containers is None else veinfo.parse(containers),
            latency=None if waits is None else latency.parse(waits),
            unread=len(self._unread),
        )

    def origin(self) -> str:
        """Return the path of the file that counts."""
        return str(self._procfs / "vz/vestat")

    def _beside(self, name: str) -> str | None:
        """Return the text of a file beside vestat; None where it is absent or can't be read, which costs it alone."""
        try:
            text = read_optional(self._procfs, name)
        except SourceError as error:
            if self._unread.get(name) != str(error):
                log.warning("figures of a file are missing", extra={"fields": {"err": error}})
            self._unread[name] = str(error)
            return None
        self._unread.pop(name, None)
        return text

    def _decide(self, parsed: Vestat) -> Units | None:
        text = read_optional(self._procfs, "vz/stats")
        stats = None if text is None else units.parse_stats(text)
        decided = units.decide(parsed.rows, stats)
        if decided:
            longest = max(parsed.rows, key=lambda row: row.uptime_jiffies, default=None)
            fields: dict[str, object] = decided._asdict()
            fields.update(stats._asdict() if stats else {})
            if longest:
                fields.update(ctid=longest.ctid, uptime=longest.uptime, uptime_jiffies=longest.uptime_jiffies)
            log.info("units decided", extra={"fields": fields})
        return decided


def read_quotas(procfs: Procfs) -> Quotas:
    """Return the disk quotas of the host whose procfs this is; raises as read_text() and the parser do.

    Without CAP_SYS_ADMIN and CAP_SYS_RESOURCE the kernel opens the file and shows no container's quota.
    """
    absence = "this kernel keeps no disk quotas, as that of Virtuozzo 7, or its module vzdquota is not loaded"
    return quota.parse(read_text(procfs, "vz/vzquota", absence=absence))
