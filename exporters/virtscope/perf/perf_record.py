"""Rounds of `perf record` over the whole machine in the background, each read back by `perf report`.

By hand: `perf record -a -F 99 -e cache-misses -- sleep 5`, and then `perf report --stdio -n`.

Recordings are kept in memory that is freed with its last descriptor, never on disk, so nothing is left behind if a
process is killed. perf exits with its `sleep`, even if the exporter has died.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.perf import perf_report
from virtscope.perf.events import EventError, resolve
from virtscope.perf.perf_report import Report
from virtscope.perf.profile import NO_SYMBOL, Profiled, Top, live_families
from virtscope.toolkit.bounded import Commands, Finished, file_in_memory, read_text
from virtscope.toolkit.collect import Background, SourceError, SourceUnavailable

_LARGEST = 32 << 20  # bytes recorded in a round; 64 CPUs at 99 Hz with 1,000 processes take about 10 MiB

# perf's own limit, --max-size, needs Linux 5.5; XCP-ng 8 and OpenVZ 7 are older. With the kernel's limit, and SIGXFSZ
# ignored, the write fails with EFBIG, which every perf reports. `ulimit -f` counts blocks of 512 bytes (POSIX); shells
# with larger blocks have a higher limit.
_BOUNDED = ("sh", "-c", f"trap '' XFSZ && ulimit -f {_LARGEST // 512} && exec \"$@\"", "sh")
_READING = 30.0  # seconds for perf to start, stop, and look up symbols, in addition to sampling
_NICE = "19"  # guests of a busy host have priority; perf counts the samples it loses
_NEWCOMERS = 10  # new series per event and round, so at most 600 an hour

_XENSYM = re.compile(r"([0-9a-f]{16}) \w (\S+)", re.ASCII)
_XEN_FIRST, _XEN_LAST = 0xFFFF800000000000, 0xFFFF87FFFFFFFFFF
_ADDRESS = re.compile(r"(?:0x)?([0-9a-f]{16})", re.ASCII)

_MISSING = "perf is not installed (Debian: linux-perf; Ubuntu: linux-tools-$(uname -r); Fedora: perf)"
_NO_PERMISSION = (
    "perf may not sample the whole machine: give the exporter CAP_PERFMON (before Linux 5.8: CAP_SYS_ADMIN), or set "
    "kernel.perf_event_paranoid to 0"
)
_HIDDEN = "kernel symbols are hidden from it: give the exporter CAP_SYSLOG, and set kernel.kptr_restrict to 0 or 1"

# Scope of sampling: software events see only this kernel, hardware counters also the hypervisor or guests.
THIS_KERNEL = "this kernel"
WITH_XEN = "this kernel and Xen"
ALL_OF_XEN = "Xen and all its domains"
WITH_GUESTS = "this kernel and its KVM guests"


class Sampled(NamedTuple):
    """A sampled event."""

    event: str  # as `perf list` names it
    period: int | None  # events per sample; None: sampled at the common frequency

    @classmethod
    def parse(cls, text: str) -> Sampled:
        """Parse --profile.event: "cpu-clock", or with a period "cache-misses@10000"."""
        found = re.fullmatch(r"(?P<event>[\w.:/=,-]+)(?:@(?P<period>[1-9][0-9]{0,11}))?", text, re.ASCII)
        if not found:
            raise argparse.ArgumentTypeError(f"{text!r} is not EVENT or EVENT@PERIOD, such as cache-misses@10000")
        return cls(found["event"], int(found["period"]) if found["period"] else None)

    def in_perfs_words(self) -> str:
        """Return the event in the form of `perf record -e`."""
        if not self.period:
            return self.event
        term = f"period={self.period}/"
        return f"{self.event[:-1]},{term}" if self.event.endswith("/") else f"{self.event}/{term}"


class PerfRecord:
    """Samples the whole machine for some seconds per call. For one thread; any thread may close()."""

    def __init__(
        self, events: Sequence[Sampled], seconds: float, frequency: int, procfs: str = "/proc", sysfs: str = "/sys"
    ) -> None:
        """Sample `events` for `seconds` each time, those without a period `frequency` times a second on each CPU."""
        self.seconds = seconds
        self._events = events
        self.frequency = frequency
        self._procfs, self._sysfs = Path(procfs), Path(sysfs)
        self.commands = Commands(seconds + _READING)
        self._hidden = False

    def read(self) -> tuple[Report, dict[Sampled, str]]:
        """Sample now; return the samples by place, and each event's scope, such as THIS_KERNEL.

        Raises SourceUnavailable if perf is missing, isn't permitted or lacks the event; other SourceErrors if it fails,
        hangs or prints malformed text.
        """
        perf = shutil.which("perf")
        if perf is None:
            raise SourceUnavailable(_MISSING)
        hardware = [event for event in self._events if self._of_hardware(event)]
        scope = self._scope() if hardware else THIS_KERNEL
        command = [perf, "kvm", "--host", "--guest"] if scope in {ALL_OF_XEN, WITH_GUESTS} else [perf]
        try:
            memory = file_in_memory("perf.data")
        except OSError as error:
            raise SourceError(str(error.strerror)) from None
        try:
            path = f"/proc/{os.getpid()}/fd/{memory}"
            self._record([*command, "record", "-o", path], memory)
            text = self._report([*command, "report", "-i", path])
        finally:
            os.close(memory)
        xen_symbol = self._xensyms.symbol if scope in {ALL_OF_XEN, WITH_XEN} else None
        scopes = {event: scope if event in hardware else THIS_KERNEL for event in self._events}
        return perf_report.parse(text, xen_symbol), scopes

    def origin(self) -> str:
        """Return perf's path, and whether symbols are hidden."""
        return f"{shutil.which('perf')}; {_HIDDEN}" if self._hidden else f"{shutil.which('perf')}"

    def _record(self, command: Sequence[str], memory: int) -> None:
        events = [word for event in self._events for word in ("-e", event.in_perfs_words())]
        # No build ids (-B) and no copies of images (-N): the report is made at once on this machine.
        options = ["-q", "-a", "-B", "-N", "-F", str(self.frequency), *events]
        recorded = self._run(*_BOUNDED, *command, *options, "--", "sleep", f"{self.seconds:g}")
        if os.fstat(memory).st_size >= _LARGEST:
            raise SourceError(
                f"perf recorded more than {_LARGEST >> 20} MiB; sample more rarely (--profile.frequency, or a longer "
                "period), or for a shorter time (--profile.seconds)"
            )
        if recorded.status:
            raise _refusal(recorded)

    def _report(self, command: Sequence[str]) -> str:
        report = self._run(*command, "--stdio", "-F", "overhead,sample,period,dso,sym", "-t", "\t")
        if report.status:
            raise SourceError(f"perf report {report.problem()}")
        self._hidden = b"kptr_restrict" in report.complaints
        return report.output.decode("utf-8", "backslashreplace")

    def _run(self, *command: str) -> Finished:
        # Overrides users' configuration of perf: fixed columns, and no queries to debuginfod.
        alike = ["env", "-u", "DEBUGINFOD_URLS", "PERF_CONFIG=/dev/null"]
        return self.commands.run("nice", "-n", _NICE, *alike, *command)

    def _scope(self) -> str:
        """Return the current scope of hardware events; Xen's PMU mode may change at any time.

        /sys/hypervisor/pmu/pmu_mode: Documentation/ABI/testing/sysfs-hypervisor-pmu in Linux's source.
        """
        try:
            mode = read_text(self._sysfs / "hypervisor/pmu/pmu_mode", "replace").strip()
        except OSError:
            kvm = any((self._sysfs / "module" / name).is_dir() for name in ("kvm_intel", "kvm_amd"))
            return WITH_GUESTS if kvm else THIS_KERNEL
        return {"hv": WITH_XEN, "all": ALL_OF_XEN}.get(mode, THIS_KERNEL)

    def _of_hardware(self, event: Sampled) -> bool:
        try:
            return any(each.hardware for each in resolve(event.event, self._sysfs))
        except EventError:
            return False  # such as a tracepoint; perf checks it

    @cached_property  # it takes a hypercall per symbol
    def _xensyms(self) -> Xensyms:
        try:
            return Xensyms(read_text(self._procfs / "xen/xensyms", "replace"))
        except OSError:
            return Xensyms("")


class Profiler:
    """Samples in the background. A failed round adds nothing, and is counted."""

    def __init__(self, source: PerfRecord, interval: float, symbols: int) -> None:
        """Sample each `interval` seconds; the top `symbols` places of each event get series."""
        self._source = source
        self._top = Top(symbols, _NEWCOMERS)
        self._lost = 0
        self._seconds = 0.0
        self.background = Background("profile", self._sample, interval, source.commands, takes=source.seconds)

    def origin(self) -> str:
        """Return the path of perf."""
        return self._source.origin()

    def read(self) -> list[Metric]:
        """Return the families of the last round; raises like Background.latest()."""
        return live_families(self.background.latest())

    def _sample(self) -> Profiled:
        report, scopes = self._source.read()
        self._top.add(report.profile)
        self._lost += report.lost
        self._seconds += self._source.seconds
        events = [
            (event.event, f"each {event.period}th" if event.period else f"{self._source.frequency} Hz", scope)
            for event, scope in scopes.items()
        ]
        return Profiled(self._top.counts(), self._lost, self._seconds, events)


class Xensyms:
    """Resolves the hypervisor's addresses by /proc/xen/xensyms of Dom0.

    perf doesn't read that file, so samples in the hypervisor (pmu_mode hv or all) appear as unknown kernel addresses.
    Format: drivers/xen/xenfs/xensyms.c in Linux's source: address, letter and name. The hypervisor's address range:
    Documentation/arch/x86/x86_64/mm.rst.
    """

    def __init__(self, text: str) -> None:
        """Parse the file's text; "" if absent or unreadable."""
        found = sorted((int(line[1], 16), line[2]) for line in map(_XENSYM.fullmatch, text.splitlines()) if line)
        self._addresses = [address for address, _ in found]
        self._names = [name for _, name in found]

    def symbol(self, name: str) -> str:
        """Return the symbol of an address in the hypervisor's range; "" for anything else."""
        matched = _ADDRESS.fullmatch(name)
        address = int(matched[1], 16) if matched else 0
        if not _XEN_FIRST <= address <= _XEN_LAST:
            return ""
        at = bisect_right(self._addresses, address)
        return self._names[at - 1] if at else NO_SYMBOL


def _refusal(recorded: Finished) -> SourceError:
    """Return perf's error as a SourceError; see evsel__open_strerror() in tools/perf/util/evsel.c."""
    said = recorded.complaints.decode("utf-8", "backslashreplace")
    if "perf_event_paranoid" in said:
        return SourceUnavailable(_NO_PERMISSION)
    if "perf not found for kernel" in said:  # the wrapper that Ubuntu installs as perf
        return SourceUnavailable(_MISSING)
    if unsupported := re.search(r"The (\S+) event is not supported|event syntax error: '([^']*)'", said):
        return SourceUnavailable(f"no event {unsupported[1] or unsupported[2]!r} here; `perf list` shows what there is")
    return SourceError(f"perf record {recorded.problem()}")
