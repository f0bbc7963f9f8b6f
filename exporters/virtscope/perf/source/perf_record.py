"""Rounds of `perf record` over the whole machine, each read back by `perf report`.

What is recorded never lies on a disk: it goes to memory that ends with its last user, so that nothing is left behind
whoever is killed. perf itself ends when its `sleep` does, also if the exporter is no more.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
from collections.abc import Sequence
from typing import NamedTuple

from virtscope.perf.profile import perf_report
from virtscope.perf.profile.samples import Profile
from virtscope.shell.commands import Commands, Finished
from virtscope.shell.sources import SourceError, SourceUnavailable

_LARGEST = 32 << 20  # bytes recorded in a round; 64 CPUs at 99 Hz with 1,000 processes to be named take about 10 MiB
_READING = 30.0  # seconds for perf to begin, to end, and to look symbols up, beside those in which it samples
_NICE = "19"  # a busy host's guests come first; what perf loses by it, it counts

_MISSING = "perf is not installed (Debian: linux-perf; Ubuntu: linux-tools-$(uname -r); Fedora: perf)"
_NO_PERMISSION = (
    "perf may not sample the whole machine: give the exporter CAP_PERFMON (before Linux 5.8: CAP_SYS_ADMIN), or set "
    "kernel.perf_event_paranoid to -1"
)


class Sampled(NamedTuple):
    """An event that is sampled."""

    event: str  # as `perf list` names it
    period: int | None  # a sample each so many events; None: as many samples a second as events without a period get

    @classmethod
    def parse(cls, text: str) -> Sampled:
        """Read what --profile.event takes: "cpu-clock", or with a period "cache-misses@10000"."""
        event, _, period = text.partition("@")
        valid = re.fullmatch(r"[\w.:/=,-]+", event, re.ASCII) and (
            re.fullmatch("[1-9][0-9]{0,11}", period) or not period
        )
        if not valid:
            raise argparse.ArgumentTypeError(f"{text!r} is not EVENT or EVENT@PERIOD, such as cache-misses@10000")
        return cls(event, int(period) if period else None)

    def in_perfs_words(self) -> str:
        """Return the event as `perf record -e` takes it."""
        if not self.period:
            return self.event
        term = f"period={self.period}/"
        return f"{self.event[:-1]},{term}" if self.event.endswith("/") else f"{self.event}/{term}"


class PerfRecord:
    """Samples the whole machine for some seconds whenever it is asked; for one thread, any other may close()."""

    def __init__(self, events: Sequence[Sampled], seconds: float, frequency: int) -> None:
        """Sample `events` for `seconds` each time, those without a period `frequency` times a second on each CPU."""
        self._events = events
        self._seconds = seconds
        self._frequency = frequency
        self._commands = Commands(seconds + _READING)

    def read(self) -> Profile:
        """Sample now, and return the samples by place.

        Raises SourceUnavailable where perf is missing or may not sample, or has no such event; other SourceErrors where
        it fails, hangs or prints what makes no sense.
        """
        perf = shutil.which("perf")
        if perf is None:
            raise SourceUnavailable(_MISSING)
        memory = os.memfd_create("perf.data")
        try:
            return self._read(perf, f"/proc/{os.getpid()}/fd/{memory}", memory)
        finally:
            os.close(memory)

    def origin(self) -> str:
        """Return where perf is."""
        return shutil.which("perf") or "perf"

    def cpu_seconds(self) -> float:
        """Return the CPU time that perf has taken so far."""
        return self._commands.cpu_seconds

    def close(self) -> None:
        """Kill what is running."""
        self._commands.close()

    def _read(self, perf: str, path: str, memory: int) -> Profile:
        events = [word for event in self._events for word in ("-e", event.in_perfs_words())]
        # Neither build ids (-B) nor copies of the images (-N) are wanted: the report is made here and now.
        recording = ["record", "-q", "-a", "-B", "-N", "-F", str(self._frequency), *events, "-o", path]
        recorded = self._run(perf, *recording, f"--max-size={_LARGEST}B", "--", "sleep", f"{self._seconds:g}")
        if recorded.status:
            raise _refusal(recorded)
        if os.fstat(memory).st_size >= _LARGEST:
            raise SourceError(
                f"perf recorded more than {_LARGEST >> 20} MiB; sample more rarely, or for a shorter time"
            )
        report = self._run(perf, "report", "-i", path, "--stdio", "-F", "overhead,sample,dso,sym", "-t", "\t")
        if report.status:
            raise SourceError(f"perf report {report.problem()}")
        return perf_report.parse(report.output.decode("utf-8", "backslashreplace"))

    def _run(self, *command: str) -> Finished:
        return self._commands.run("nice", "-n", _NICE, *command)


def _refusal(recorded: Finished) -> SourceError:
    """Return what perf's words mean; tools/perf/util/evsel.c, evsel__open_strerror()."""
    said = recorded.complaints.decode("utf-8", "backslashreplace")
    if "perf_event_paranoid" in said or "No permission" in said or "Permission" in said:
        return SourceUnavailable(_NO_PERMISSION)
    if "perf not found for kernel" in said:  # the wrapper that Ubuntu installs as perf
        return SourceUnavailable(_MISSING)
    if unsupported := re.search(r"The (\S+) event is not supported|event syntax error: '([^']*)'", said):
        return SourceUnavailable(f"no event {unsupported[1] or unsupported[2]!r} here; `perf list` shows what there is")
    return SourceError(f"perf record {recorded.problem()}")
