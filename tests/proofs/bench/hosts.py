"""Whole hosts: the real exporters compared with programs that show an administrator the same values."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.proofs.bench import scraping
from tests.proofs.bench.containers import Containers
from tests.proofs.bench.domains import Domains
from tests.proofs.bench.kvm import THREADS, Qemus
from tests.proofs.bench.libvirt import LibvirtError, LibvirtGuests
from tests.proofs.bench.scraping import Target, cpu_seconds_of, verdict
from tests.proofs.bench.xentop import XentopError, find_xentop
from virtscope.kvm import disks
from virtscope.kvm.host_files import HostFiles

GUESTS = (10, 100, 1_000)
KVM_GUESTS = (10, 100, 1_000)  # real processes
LIBVIRT_GUESTS = 100  # real QEMUs
DISK_GUESTS, DISKS = 100, 2
SCRAPES = 12  # the cheapest counts
HERTZ_SECONDS = 10
READINGS, READING_SECONDS = 4, 0.25  # of the recordings
CORE_BAR = 1.0  # percent of a core for 100 guests, every second
MEMORY_BAR = 40.0  # MB for 100 guests
CONTAINERS_BAR = 60.0  # ms for 1,000 containers
BUSY = {"nothing": 0.0, "a third": 0.3, "all": 1.0}  # share of containers whose usage changes between two scrapes


def measure() -> None:
    """Print both tables, and the cost of 100 guests at one scrape per second."""
    print(
        "\nWhole hosts: CPU ms per scrape of the real exporter, beside a program that reads the same once"
        f"\nBars: 1,000 containers at most {CONTAINERS_BAR:.0f} ms; 100 guests every second at most {CORE_BAR:.0f} % of"
        f" a core and {MEMORY_BAR:.0f} MB"
        "\nchanging: guests whose values differ from the last scrape's; replayed: the same host from a recording,"
        "\nwhich is decoded for each scrape and marked in each series"
    )
    print(" guests  changing    series  vestat-exporter  resident MB       cat  times cat's")
    for count in GUESTS:
        _measure_containers(count)
    print(" guests  changing    series  xentop-exporter  resident MB    xentop  times xentop's")
    for count in GUESTS:
        _measure_domains(count)
    print(f" guests  changing    series     kvm-exporter  resident MB      cat  times cat's   ({THREADS} threads each)")
    for count in KVM_GUESTS:
        _measure_qemus(count)
    _measure_disks()
    _measure_libvirt()
    _every_second()


class _Row(NamedTuple):
    """A table row; `other` is the cost of the compared program, None if it is absent."""

    guests: int
    changing: str
    exporter: Target
    seconds: float
    other: float | None
    bar: float | None = None

    def print(self) -> None:
        compared = f"{self.other * 1e3:10.1f}{self.seconds / self.other:14.1f}" if self.other else f"{'absent':>10}"
        judged = f"   {verdict(self.seconds * 1e3, self.bar)}" if self.bar else ""
        resident = self.exporter.resident_bytes() / 1e6
        print(
            f"{self.guests:7,}  {self.changing:10}{self.exporter.series:8,}{self.seconds * 1e3:17.1f}{resident:13.0f}"
            f"{compared}{judged}"
        )


class _Watched(NamedTuple):
    """How the exporter of a simulated host is started; `change` simulates activity between two scrapes."""

    folder: Path  # for its files
    package: str
    flags: Sequence[str]
    environment: Mapping[str, str] | None = None
    change: Callable[[], object] = partial(time.sleep, READING_SECONDS)

    def exporter(self) -> Target:
        """Start the exporter on the host."""
        return scraping.exporter(self.package, *self.flags, environment=self.environment)

    def replayed(self) -> Target:
        """Record the host for a second, and start the exporter on the recording."""
        recording = self.folder / "host.jsonl.gz"
        how = [f"--for={READINGS * READING_SECONDS}s", f"--interval={READING_SECONDS}s", "--log.level=error"]
        recorder = subprocess.Popen(
            [*scraping.command_of(self.package), "record", str(recording), *how, *self.flags],
            env=scraping.with_exporters(self.environment),
            stdout=subprocess.DEVNULL,
        )
        while recorder.poll() is None:
            self.change()
            time.sleep(READING_SECONDS)
        if recorder.returncode:
            raise RuntimeError(f"{recorder.args!r} ended with status {recorder.returncode}")
        return scraping.exporter(self.package, f"--source=replay:{recording}", environment=self.environment)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="virtscope-bench-") as name:
        yield Path(name)


@contextmanager
def _containers(count: int) -> Iterator[tuple[Containers, _Watched]]:
    with _folder() as folder:
        host = Containers(folder / "proc", count)
        change = partial(host.run_on, BUSY["a third"])
        yield host, _Watched(folder, "openvz", [f"--path.procfs={host.procfs}"], change=change)


@contextmanager
def _domains(count: int) -> Iterator[_Watched]:
    with _folder() as folder:
        host = Domains(folder, count)
        flags = [*host.flags, "--source=libxenstat", "--xl.interval=0"]
        yield _Watched(folder, "xen", flags, host.environment(), host.run_on)


@contextmanager
def _qemus(count: int) -> Iterator[tuple[Qemus, _Watched]]:
    with _folder() as folder, Qemus(folder, count) as host:
        yield host, _Watched(folder, "kvm", ["--libvirt.interval=0"])


def _measure_containers(count: int) -> None:
    with _containers(count) as (host, watched):
        files = [str(host.procfs / name) for name in ("vz/vestat", "vz/veinfo", "bc/resources")]
        cat = _least(partial(cpu_seconds_of, ["cat", *files]))
        with watched.exporter() as exporter:
            for what, busy in BUSY.items():
                seconds = _least_scrape(exporter, partial(host.run_on, busy))
                _Row(count, what, exporter, seconds, cat, CONTAINERS_BAR if count == 1_000 else None).print()
        _measure_recording(count, watched, cat)


def _measure_domains(count: int) -> None:
    with _domains(count) as watched:
        xentop: float | None = None
        try:
            command = [str(find_xentop()), "-b", "-i", "1", "-f", "-n", "-x", "-v"]
        except XentopError as error:
            print(f"         xentop is absent: {error}")
        else:
            xentop = _least(partial(cpu_seconds_of, command, watched.environment))
        with watched.exporter() as exporter:
            _Row(count, "all", exporter, _least_scrape(exporter, watched.change), xentop).print()
        _measure_recording(count, watched, xentop)


def _measure_qemus(count: int) -> None:
    """Compared with `cat` of stat and schedstat of all threads, which libvirt reads for each answer."""
    with _qemus(count) as (host, watched):
        files = [str(file) for task in host.tasks() for file in (task / "stat", task / "schedstat")]
        cat = _least(partial(cpu_seconds_of, ["cat", *files]))
        with watched.exporter() as exporter:
            exporter.scrape()
            _Row(count, "all", exporter, _least_scrape(exporter, watched.change), cat).print()


def _measure_disks() -> None:
    """Guests' io.stat, as files in a folder: without the time in which the kernel writes it."""
    names = {f"253:{minor}": f"dm-{minor}" for minor in range(DISKS)}
    text = "".join(f"{device} rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n" for device in names)
    with _folder() as folder:
        for guest in range(DISK_GUESTS):
            (folder / f"{guest}.scope").mkdir()
            (folder / f"{guest}.scope/io.stat").write_text(text)
        files = HostFiles({"sys": str(folder)})

        def seconds() -> float:
            begun = time.process_time()
            for guest in range(DISK_GUESTS):
                assert len(disks.read(files, f"sys/{guest}.scope", names)) == DISKS
            return time.process_time() - begun

        milliseconds = _least(seconds) * 1e3
    print(f"{DISK_GUESTS} guests, {DISKS} disks each: {milliseconds:.1f} ms to read io.stat, without the kernel")


def _measure_libvirt() -> None:
    """libvirt guests, read from /proc and through libvirtd."""
    try:
        with (
            _folder() as folder,
            LibvirtGuests(folder, LIBVIRT_GUESTS) as host,
            scraping.exporter("kvm", "--libvirt.interval=0") as exporter,
        ):
            exporter.scrape()
            scrape = _least_scrape(exporter, partial(time.sleep, READING_SECONDS))
            at_once = _least(host.seconds_at_once)
            one_by_one = _least(host.seconds_one_by_one)
    except LibvirtError as error:
        print(f"{LIBVIRT_GUESTS} guests of libvirt's: absent, {error}")
        return
    print(
        f"{LIBVIRT_GUESTS} guests of libvirt's, CPU ms for all of them: kvm-exporter {scrape * 1e3:.1f} a scrape; virsh"
        f" domstats {at_once * 1e3:.1f}, {at_once / scrape:.1f} times that; guest after guest, as libvirt's exporters"
        f" ask, {one_by_one * 1e3:.1f}, {one_by_one / scrape:.1f} times"
    )


def _measure_recording(count: int, watched: _Watched, other: float | None) -> None:
    with watched.replayed() as exporter:
        seconds = _least_scrape(exporter, partial(time.sleep, READING_SECONDS))
        _Row(count, "replayed", exporter, seconds, other).print()


def _every_second() -> None:
    """Scrape hosts of 100 guests once a second: caches are colder and clocks slower than without pauses."""
    with (
        _containers(100) as (_, containers),
        _domains(100) as domains,
        _qemus(100) as (_, qemus),
        containers.exporter() as vestat,
        domains.exporter() as xentop,
        qemus.exporter() as kvm,
    ):
        exporters = {"vestat-exporter": vestat, "xentop-exporter": xentop, "kvm-exporter": kvm}
        for exporter in exporters.values():
            exporter.scrape()
        before = {name: exporter.cpu_seconds() for name, exporter in exporters.items()}
        begun = time.monotonic()
        for second in range(1, HERTZ_SECONDS + 1):
            containers.change()
            domains.change()
            time.sleep(max(begun + second - time.monotonic(), 0))
            for exporter in exporters.values():
                exporter.scrape()
        elapsed = time.monotonic() - begun
        for name, exporter in exporters.items():
            share = (exporter.cpu_seconds() - before[name]) / elapsed * 100
            memory = exporter.resident_bytes() / 1e6
            print(
                f"100 guests every second, {name}: {share:.2f} % of a core, {verdict(share, CORE_BAR)}; "
                f"{memory:.0f} MB resident, {verdict(memory, MEMORY_BAR)}"
            )


def _least_scrape(exporter: Target, change: Callable[[], object]) -> float:
    """Minimum CPU seconds of a scrape after a change of the host."""

    def changed() -> float:
        change()
        return exporter.cpu_seconds_per_scrape(1)

    return _least(changed)


def _least(measured: Callable[[], float]) -> float:
    return min(measured() for _ in range(SCRAPES))
