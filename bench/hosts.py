"""Whole hosts under watch: the real exporters, beside what an administrator would run to see the same figures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench import CHECKOUT
from bench.containers import Containers
from bench.domains import Domains
from bench.scraping import Target, free_port
from bench.xentop import XentopError, find_xentop

GUESTS = (10, 100, 1_000)
SCRAPES = 12  # of which the cheapest counts
HERTZ_SECONDS = 10
CORE_BAR = 1.0  # per cent of a core for 100 guests, every second
MEMORY_BAR = 40.0  # MB for 100 guests
CONTAINERS_BAR = 60.0  # ms for the figures of 1,000 containers
BUSY = {"nothing": 0.0, "a third": 0.3, "all": 1.0}  # containers that change what they hold between two scrapes


def measure() -> None:
    """Print both tables, and what 100 guests cost at one scrape per second."""
    print(
        "\nWhole hosts: CPU ms per scrape of the real exporter, beside a program that reads the same once"
        f"\nBars: 1,000 containers at most {CONTAINERS_BAR:.0f} ms; 100 guests every second at most {CORE_BAR:.0f} % of"
        f" a core and {MEMORY_BAR:.0f} MB"
    )
    print(" guests  changing    series  vestat-exporter  resident MB       cat  times cat's")
    for count in GUESTS:
        _containers(count)
    print(" guests  changing    series  xentop-exporter  resident MB    xentop  times xentop's")
    for count in GUESTS:
        _domains(count)
    _every_second()


class _Row(NamedTuple):
    """A line of the tables; `other` is what the program beside the exporter takes, None where it is absent."""

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
def _vestat_exporter(count: int) -> Iterator[tuple[Target, Containers]]:
    with _folder() as folder:
        host = Containers(folder, count)
        target = _exporter("virtscope.vestat", [f"--path.procfs={folder}"], dict(os.environ))
        try:
            yield target, host
        finally:
            target.stop()


@contextmanager
def _xentop_exporter(count: int) -> Iterator[tuple[Target, Domains]]:
    with _folder() as folder:
        host = Domains(folder, count)
        flags = [f"--path.sysfs={host.sysfs}", f"--path.procfs={folder}", "--source=libxenstat", "--xl.interval=0"]
        target = _exporter("virtscope.xentop", flags, host.environment())
        try:
            yield target, host
        finally:
            target.stop()


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="virtscope-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _exporter(module: str, flags: list[str], environment: dict[str, str]) -> Target:
    port = free_port()
    environment["PYTHONPATH"] = str(CHECKOUT / "exporters")
    command = [sys.executable, "-m", module, f"--web.listen-address=127.0.0.1:{port}", *flags]
    return Target(command, port, environment)


def _containers(count: int) -> None:
    with _vestat_exporter(count) as (exporter, host):
        files = [host.procfs / name for name in ("vz/vestat", "vz/veinfo", "bc/resources")]
        cat = _least(partial(_cpu_seconds, ["cat", *map(str, files)], dict(os.environ)))
        for what, busy in BUSY.items():
            seconds = _least(partial(_scrape_after, exporter, partial(host.run_on, busy)))
            _Row(count, what, exporter, seconds, cat, CONTAINERS_BAR if count == 1_000 else None).print()


def _domains(count: int) -> None:
    with _xentop_exporter(count) as (exporter, host):
        seconds = _least(partial(_scrape_after, exporter, host.run_on))
        try:
            command = [str(find_xentop()), "-b", "-i", "1", "-f", "-n", "-x", "-v"]
        except XentopError as error:
            _Row(count, "all", exporter, seconds, None).print()
            print(f"         xentop is absent: {error}")
        else:
            xentop = _least(partial(_cpu_seconds, command, host.environment()))
            _Row(count, "all", exporter, seconds, xentop).print()


def _verdict(figure: float, bar: float) -> str:
    return "met" if figure <= bar else "MISSED"


def _every_second() -> None:
    """Scrape hosts of 100 guests at one Hz, as caches and clocks are colder then than under scrape after scrape."""
    with _vestat_exporter(100) as (vestat, containers), _xentop_exporter(100) as (xentop, domains):
        exporters = {"vestat-exporter": vestat, "xentop-exporter": xentop}
        for exporter in exporters.values():
            exporter.scrape()
        before = {name: exporter.cpu_seconds() for name, exporter in exporters.items()}
        begun = time.monotonic()
        for second in range(1, HERTZ_SECONDS + 1):
            containers.run_on(BUSY["a third"])
            domains.run_on()
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
    """Return the CPU seconds that a program takes to its end, its start included."""
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr
    with child.stderr:
        complaint = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{command[0]} ended with status {child.returncode}: {complaint.decode()[:300]}")
    return used.ru_utime + used.ru_stime
