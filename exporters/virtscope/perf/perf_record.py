"""Rounds of `perf record` over the whole machine in the background, each read back by `perf report`.

By hand: `perf record -a -F 99 -e cache-misses -- sleep 5`, and then `perf report --stdio -n`.

What is recorded is never on a disk: it goes to memory that ends with its last user, so that nothing is left behind
whichever process is killed. perf itself ends when its `sleep` does, also if the exporter is no more.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.perf import perf_report
from virtscope.perf.events import EventError, resolve
from virtscope.perf.perf_report import Report
from virtscope.perf.profile import NO_SYMBOL, Profiled, Top, live_families
from virtscope.toolkit.bounded import Commands, Finished, read_text
from virtscope.toolkit.collect import Background, SourceError, SourceUnavailable
from virtscope.toolkit.memory import file_in_memory

_LARGEST = 32 << 20  # bytes recorded in a round; 64 CPUs at 99 Hz with 1,000 processes to be named take about 10 MiB

# perf's own bound, --max-size, came with Linux 5.5, and XCP-ng 8 and OpenVZ 7 have older ones. The kernel's ends the
# write that exceeds it with EFBIG, which every perf reports, as long as SIGXFSZ is ignored. `ulimit -f` counts in
# blocks of 512 bytes (POSIX); a shell that counts in more has a wider bound, which is one all the same.
_BOUNDED = ("sh", "-c", f"trap '' XFSZ && ulimit -f {_LARGEST // 512} && exec \"$@\"", "sh")
_READING = 30.0  # seconds for perf to begin, to end, and to look symbols up, beside those in which it samples
_NICE = "19"  # a busy host's guests come first; what perf loses by it, it counts
_NEWCOMERS = 10  # symbols of an event that may gain a series in a round, so six hundred an hour at most

_XENSYM = re.compile(r"([0-9a-f]{16}) \w (\S+)", re.ASCII)
_XEN_FIRST, _XEN_LAST = 0xFFFF800000000000, 0xFFFF87FFFFFFFFFF
_ADDRESS = re.compile(r"(?:0x)?([0-9a-f]{16})", re.ASCII)

_MISSING = "perf is not installed (Debian: linux-perf; Ubuntu: linux-tools-$(uname -r); Fedora: perf)"
_NO_PERMISSION = (
    "perf may not sample the whole machine: give the exporter CAP_PERFMON (before Linux 5.8: CAP_SYS_ADMIN), or set "
    "kernel.perf_event_paranoid to 0"
)
_HIDDEN = "kernel symbols are hidden from it: give the exporter CAP_SYSLOG, and set kernel.kptr_restrict to 0 or 1"

# What is sampled: a software event ticks in the kernel alone, a counter of the processor also counts below and above.
THIS_KERNEL = "this kernel"
WITH_XEN = "this kernel and Xen"
ALL_OF_XEN = "Xen and all its domains"
WITH_GUESTS = "this kernel and its KVM guests"


class Sampled(NamedTuple):
    """An event that is sampled."""

    event: str  # as `perf list` names it
    period: int | None  # a sample each so many events; None: as many samples a second as events without a period get

    @classmethod
    def parse(cls, text: str) -> Sampled:
        """Read what --profile.event takes: "cpu-clock", or with a period "cache-misses@10000"."""
        found = re.fullmatch(r"(?P<event>[\w.:/=,-]+)(?:@(?P<period>[1-9][0-9]{0,11}))?", text, re.ASCII)
        if not found:
            raise argparse.ArgumentTypeError(f"{text!r} is not EVENT or EVENT@PERIOD, such as cache-misses@10000")
        return cls(found["event"], int(found["period"]) if found["period"] else None)

    def in_perfs_words(self) -> str:
        """Return the event as `perf record -e` takes it."""
        if not self.period:
            return self.event
        term = f"period={self.period}/"
        return f"{self.event[:-1]},{term}" if self.event.endswith("/") else f"{self.event}/{term}"


class Round(NamedTuple):
    """What one round found."""

    report: Report
    scopes: dict[Sampled, str]  # what each event was sampled of: THIS_KERNEL and its like
    seconds: float  # how long it sampled


class PerfRecord:
    """Samples the whole machine for some seconds whenever it is asked; for one thread, any other may close()."""

    def __init__(
        self, events: Sequence[Sampled], seconds: float, frequency: int, procfs: str = "/proc", sysfs: str = "/sys"
    ) -> None:
        """Sample `events` for `seconds` each time, those without a period `frequency` times a second on each CPU."""
        self.seconds = seconds
        self._events = events
        self.frequency = frequency
        self._procfs, self._sysfs = Path(procfs), Path(sysfs)
        self.commands = Commands(seconds + _READING)
        self._xensyms: Xensyms | None = None  # read when first needed: that is a hypercall for each symbol
        self._hidden = False

    def read(self) -> Round:
        """Sample now, and return what fell where.

        Raises SourceUnavailable where perf is missing or may not sample, or has no such event; other SourceErrors where
        it fails, hangs or prints malformed text.
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
        xen_symbol = self._hypervisors_symbols().symbol if scope in {ALL_OF_XEN, WITH_XEN} else None
        scopes = {event: scope if event in hardware else THIS_KERNEL for event in self._events}
        return Round(perf_report.parse(text, xen_symbol), scopes, self.seconds)

    def origin(self) -> str:
        """Return where perf is, and what it was not shown."""
        return f"{shutil.which('perf')}; {_HIDDEN}" if self._hidden else f"{shutil.which('perf')}"

    def close(self) -> None:
        """Kill what is running."""
        self.commands.close()

    def _record(self, command: Sequence[str], memory: int) -> None:
        events = [word for event in self._events for word in ("-e", event.in_perfs_words())]
        # Neither build ids (-B) nor copies of the images (-N) are wanted: the report is made here and now.
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
        # Whatever somebody has set up for perf, the report is to have its columns, and nothing is to ask a server.
        alike = ["env", "-u", "DEBUGINFOD_URLS", "PERF_CONFIG=/dev/null"]
        return self.commands.run("nice", "-n", _NICE, *alike, *command)

    def _scope(self) -> str:
        """Return what hardware events are sampled of, as things are now: Xen's PMU mode can be set at any time.

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
            return False  # a tracepoint, say; perf knows

    def _hypervisors_symbols(self) -> Xensyms:
        if self._xensyms is None:
            try:
                self._xensyms = Xensyms(read_text(self._procfs / "xen/xensyms", "replace"))
            except OSError:
                self._xensyms = Xensyms("")
        return self._xensyms


class Profiler:
    """Samples in the background. A round that fails adds nothing, and is counted."""

    def __init__(self, source: PerfRecord, interval: float, symbols: int) -> None:
        """Sample each `interval` seconds; the `symbols` places of each event with the most samples get series."""
        self._source = source
        self._top = Top(symbols, _NEWCOMERS)
        self._lost = 0
        self._seconds = 0.0
        self.background = Background(
            "profile", self._sample, interval, lambda: source.commands.cpu_seconds, takes=source.seconds
        )

    def close(self) -> None:
        """End sampling, and the perf that runs."""
        self.background.close()
        self._source.close()

    def origin(self) -> str:
        """Return the path of perf."""
        return self._source.origin()

    def read(self) -> list[Metric]:
        """Return the families as of the last round; raises as Background.latest() does."""
        return live_families(self.background.latest())

    def _sample(self) -> Profiled:
        found = self._source.read()
        self._top.add(found.report.profile)
        self._lost += found.report.lost
        self._seconds += found.seconds
        return Profiled(
            self._top.counts(),
            self._lost,
            self._seconds,
            [(event.event, self._pace(event), scope) for event, scope in found.scopes.items()],
        )

    def _pace(self, event: Sampled) -> str:
        return f"each {event.period}th" if event.period else f"{self._source.frequency} Hz"


class Xensyms:
    """Names addresses of the hypervisor, by what Dom0's kernel lists in /proc/xen/xensyms.

    perf doesn't read that file: what it sampled in the hypervisor (pmu_mode hv or all) it shows as addresses of the
    kernel that belong to nothing. Format: drivers/xen/xenfs/xensyms.c in Linux's source, an address, a letter and a
    name. The range that is the hypervisor's: Documentation/arch/x86/x86_64/mm.rst.
    """

    def __init__(self, text: str) -> None:
        """Take the file's text; "" where there is none, or it can't be read."""
        found = sorted((int(line[1], 16), line[2]) for line in map(_XENSYM.fullmatch, text.splitlines()) if line)
        self._addresses = [address for address, _ in found]
        self._names = [name for _, name in found]

    def symbol(self, name: str) -> str:
        """Return the hypervisor's symbol for what perf shows as an address in its range; "" for all else."""
        matched = _ADDRESS.fullmatch(name)
        address = int(matched[1], 16) if matched else 0
        if not _XEN_FIRST <= address <= _XEN_LAST:
            return ""
        at = bisect_right(self._addresses, address)
        return self._names[at - 1] if at else NO_SYMBOL


def _refusal(recorded: Finished) -> SourceError:
    """Return what perf's words mean; tools/perf/util/evsel.c, evsel__open_strerror()."""
    said = recorded.complaints.decode("utf-8", "backslashreplace")
    if "perf_event_paranoid" in said:
        return SourceUnavailable(_NO_PERMISSION)
    if "perf not found for kernel" in said:  # the wrapper that Ubuntu installs as perf
        return SourceUnavailable(_MISSING)
    if unsupported := re.search(r"The (\S+) event is not supported|event syntax error: '([^']*)'", said):
        return SourceUnavailable(f"no event {unsupported[1] or unsupported[2]!r} here; `perf list` shows what there is")
    return SourceError(f"perf record {recorded.problem()}")
