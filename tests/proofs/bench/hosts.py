"""Whole hosts: the real exporters compared with programs that show an administrator the same values."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.proofs.bench import CHECKOUT
from tests.proofs.bench.containers import Containers
from tests.proofs.bench.domains import Domains
from tests.proofs.bench.kvm import THREADS, Qemus
from tests.proofs.bench.libvirt import LibvirtError, LibvirtGuests
from tests.proofs.bench.scraping import Target
from tests.proofs.bench.xentop import XentopError, find_xentop
from tests.support.ports import free_port

GUESTS = (10, 100, 1_000)
KVM_GUESTS = (10, 100, 1_000)  # real processes
LIBVIRT_GUESTS = 100  # real QEMUs
SCRAPES = 12  # the cheapest counts
HERTZ_SECONDS = 10
READINGS, READING_SECONDS = 4, 0.25  # of the recordings
CORE_BAR = 1.0  # percent of a core for 100 guests, every second
MEMORY_BAR = 40.0  # MB for 100 guests
CONTAINERS_BAR = 60.0  # ms for 1,000 containers
BUSY = {
    "nothing": 0.0,
    "a third": 0.3,
    "all": 1.0,
}  # share of containers whose usage changes between two scrapes


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
        verdict = f"   {_verdict(self.seconds * 1e3, self.bar)}" if self.bar else ""
        resident = self.exporter.resident_bytes() / 1e6
        print(
            f"{self.guests:7,}  {self.changing:10}{self.exporter.series:8,}{self.seconds * 1e3:17.1f}{resident:13.0f}"
            f"{compared}{verdict}"
        )


@contextmanager
def _containers(count: int) -> Iterator[_Watched]:
    with tempfile.TemporaryDirectory(prefix="virtscope-bench-") as folder:
        host = Containers(Path(folder) / "proc", count)
        yield _Watched("virtscope.openvz", host, Path(folder), [f"--path.procfs={host.procfs}"], dict(os.environ))


@contextmanager
def _domains(count: int) -> Iterator[_Watched]:
    with tempfile.TemporaryDirectory(prefix="virtscope-bench-") as folder:
        host = Domains(Path(folder), count)
        flags = [*host.flags, "--source=libxenstat"]
        yield _Watched("virtscope.xen", host, Path(folder), flags, host.environment())


@contextmanager
def _qemus(count: int) -> Iterator[_Watched]:
    with tempfile.TemporaryDirectory(prefix="virtscope-bench-") as folder, Qemus(Path(folder), count) as host:
        yield _Watched("virtscope.kvm", host, Path(folder), ["--libvirt.interval=0"], dict(os.environ))


@contextmanager
def _libvirt_guests(count: int) -> Iterator[_Watched]:
    with tempfile.TemporaryDirectory(prefix="virtscope-bench-") as folder, LibvirtGuests(Path(folder), count) as host:
        yield _Watched("virtscope.kvm", host, Path(folder), ["--libvirt.interval=0"], dict(os.environ))


class _Watched(NamedTuple):
    """A simulated host, and how its exporter is started."""

    module: str
    host: Containers | Domains | Qemus | LibvirtGuests
    folder: Path  # for its files
    flags: list[str]
    environment: dict[str, str]

    @contextmanager
    def exporter(self) -> Iterator[Target]:
        """Start the exporter on the host."""
        with self._serving(*self.flags, *(["--xl.interval=0"] if isinstance(self.host, Domains) else [])) as target:
            yield target

    @contextmanager
    def replayed(self) -> Iterator[Target]:
        """Record the host for a second, and start the exporter on the recording."""
        recording = self.folder / "host.jsonl.gz"
        how = [f"--for={READINGS * READING_SECONDS}s", f"--interval={READING_SECONDS}s", "--log.level=error"]
        recorder = subprocess.Popen(
            [*self._command(), "record", str(recording), *how, *self.flags],
            env=self._environment(),
            stdout=subprocess.DEVNULL,
        )
        while recorder.poll() is None:
            _run_on(self.host)
            time.sleep(READING_SECONDS)
        if recorder.returncode:
            raise RuntimeError(f"{recorder.args!r} ended with status {recorder.returncode}")
        with self._serving(f"--source=replay:{recording}") as target:
            yield target

    @contextmanager
    def _serving(self, *flags: str) -> Iterator[Target]:
        port = free_port()
        command = [*self._command(), f"--web.listen-address=127.0.0.1:{port}", *flags]
        target = Target(command, port, self._environment())
        try:
            yield target
        finally:
            target.stop()

    def _command(self) -> list[str]:
        return [sys.executable, "-m", self.module]

    def _environment(self) -> dict[str, str]:
        return {**self.environment, "PYTHONPATH": str(CHECKOUT / "exporters")}


def _run_on(host: Containers | Domains | Qemus | LibvirtGuests) -> None:
    if isinstance(host, Containers):
        host.run_on(BUSY["a third"])
    elif isinstance(host, Domains):
        host.run_on()


def _measure_containers(count: int) -> None:
    with _containers(count) as watched:
        host = watched.host
        assert isinstance(host, Containers)
        files = [str(host.procfs / name) for name in ("vz/vestat", "vz/veinfo", "bc/resources")]
        cat = _least(partial(_cpu_seconds, ["cat", *files], watched.environment))
        with watched.exporter() as exporter:
            for what, busy in BUSY.items():
                seconds = _least(partial(_scrape_after, exporter, partial(host.run_on, busy)))
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
            xentop = _least(partial(_cpu_seconds, command, watched.environment))
        with watched.exporter() as exporter:
            seconds = _least(partial(_scrape_after, exporter, partial(_run_on, watched.host)))
            _Row(count, "all", exporter, seconds, xentop).print()
        _measure_recording(count, watched, xentop)


def _measure_qemus(count: int) -> None:
    """Compared with `cat` of stat and schedstat of all threads, which libvirt reads for each answer."""
    with _qemus(count) as watched:
        host = watched.host
        assert isinstance(host, Qemus)
        files = [str(file) for task in host.tasks() for file in (task / "stat", task / "schedstat")]
        cat = _least(partial(_cpu_seconds, ["cat", *files], watched.environment))
        with watched.exporter() as exporter:
            exporter.scrape()
            seconds = _least(partial(_scrape_after, exporter, partial(time.sleep, READING_SECONDS)))
            _Row(count, "all", exporter, seconds, cat).print()


def _measure_libvirt() -> None:
    """libvirt guests, read from /proc and through libvirtd."""
    try:
        with _libvirt_guests(LIBVIRT_GUESTS) as watched, watched.exporter() as exporter:
            host = watched.host
            assert isinstance(host, LibvirtGuests)
            exporter.scrape()
            scrape = _least(partial(_scrape_after, exporter, partial(time.sleep, READING_SECONDS)))
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
        seconds = _least(partial(_scrape_after, exporter, partial(time.sleep, READING_SECONDS)))
        _Row(count, "replayed", exporter, seconds, other).print()


def _verdict(value: float, bar: float) -> str:
    return "met" if value <= bar else "MISSED"


def _every_second() -> None:
    """Scrape hosts of 100 guests once a second: caches are colder and clocks slower than without pauses."""
    with (
        _containers(100) as containers,
        _domains(100) as domains,
        _qemus(100) as qemus,
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
            _run_on(containers.host)
            _run_on(domains.host)
            time.sleep(max(begun + second - time.monotonic(), 0))
            for exporter in exporters.values():
                exporter.scrape()
        elapsed = time.monotonic() - begun
        for name, exporter in exporters.items():
            share = (exporter.cpu_seconds() - before[name]) / elapsed * 100
            memory = exporter.resident_bytes() / 1e6
            print(
                f"100 guests every second, {name}: {share:.2f} % of a core, {_verdict(share, CORE_BAR)}; "
                f"{memory:.0f} MB resident, {_verdict(memory, MEMORY_BAR)}"
            )


def _scrape_after(exporter: Target, change: Callable[[], None]) -> float:
    change()
    return exporter.cpu_seconds_per_scrape(1)


def _least(measured: Callable[[], float]) -> float:
    return min(measured() for _ in range(SCRAPES))


def _cpu_seconds(command: list[str], environment: dict[str, str]) -> float:
    """CPU seconds of a program from start to end."""
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr
    with child.stderr:
        complaint = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{command[0]} ended with status {child.returncode}: {complaint.decode()[:300]}")
    return used.ru_utime + used.ru_stime
