"""Three hundred guests that come and go on three hosts, and two real cgroups of this machine.

There are a hundred of each: domains in libxenstat (the tests' library), domains printed by xentop, OpenVZ containers.
Each second one guest per host ends, and another starts under a new name and id, so that a guest lives for five minutes
in the mean.
"""

import contextlib
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.proofs.bench.domains import SECOND, guest
from tests.unit.openvz import fake_host
from tests.unit.xen.fake_host import FakeDomain, FakeXen
from virtscope.perf.cgroups import CONTROLLER
from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.hierarchy import hierarchy

GUESTS = 100  # of each host
LIFE = 300.0  # seconds, in the mean
REAL = 2

_HEADER = (
    "      NAME  STATE   CPU(sec) CPU(%)     MEM(k) MEM(%)  MAXMEM(k) MAXMEM(%) VCPUS NETS NETTX(k) NETRX(k) VBDS"
    "   VBD_OO   VBD_RD   VBD_WR  VBD_RSECT  VBD_WSECT SSID\n"
)
# Like the real one, an iteration per second.
_XENTOP = """#!/bin/sh
while cat "{iteration}"; do sleep 1; done
"""
# A tenth of a CPU.
_LOAD = """
import time
while True:
    end = time.process_time() + 0.1
    while time.process_time() < end: pass
    time.sleep(0.9)
"""


class Lives:
    """The current guests, each with a unique number and the second of its start."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._next = 1
        self.second = 0
        self.started: dict[int, int] = {}
        for _ in range(GUESTS):
            self._start()

    def go_on(self) -> None:
        """Advance by a second."""
        self.second += 1
        for number in [number for number in self.started if self._random.random() < 1 / LIFE]:
            del self.started[number]
            self._start()

    def _start(self) -> None:
        self.started[self._next] = self.second
        self._next += 1


class Domains:
    """A Xen host for a xentop-exporter that reads libxenstat."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._xen = FakeXen(folder)
        self._lives = Lives(1)
        self.flags = [*self._xen.flags, "--source=libxenstat", "--xl.interval=0"]
        self.environment = self._xen.environment()
        self.go_on()

    def go_on(self) -> None:
        self._lives.go_on()
        now = self._lives.second
        dom0 = FakeDomain(0, b"Domain-0", cpu_ns=now * SECOND // 10, state="running")
        self._xen.show(dom0, *[guest(number, now - begun) for number, begun in self._lives.started.items()])


class Text:
    """A Xen host for a xentop-exporter that runs xentop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._iteration = folder / "iteration"
        programs = folder / "bin"
        programs.mkdir(parents=True)
        xentop = programs / "xentop"
        self._lives = Lives(2)
        self.go_on()
        xentop.write_text(_XENTOP.format(iteration=self._iteration))
        xentop.chmod(0o755)
        self.flags = ["--source=xentop", "--xl.interval=0", f"--path.sysfs={folder}"]
        self.environment = {"PATH": f"{programs}:/usr/bin:/bin"}

    def go_on(self) -> None:
        self._lives.go_on()
        rows = [
            _row("Domain-0", "-----r", self._lives.second),
            *(
                _row(f"text-{number}", "--b---", self._lives.second - begun)
                for number, begun in self._lives.started.items()
            ),
        ]
        new = self._folder / "iteration.new"
        new.write_text(_HEADER + "".join(rows))
        new.replace(self._iteration)


def _row(name: str, state: str, age: int) -> str:
    columns = "98304    4.7   no limit       n/a     1    1     {0}     {0}    1        0  {0}  {0}  {0}  {0}    0"
    net = f"{age * 1000}bytes {age * 10}pkts 0err 0drop"
    return (
        f"{name:>10} {state} {age // 9:10}    0.0      {columns.format(age)}\n"
        f"VCPUs(sec):   0: {age // 9:10}s\n"
        f"Net0 RX: {net}  TX: {net}\n"
        f"VBD BlkBack 51712 [ca: 0]  OO: 0   RD: {age}   WR: {age}   RSECT: {age}   WSECT: {age}\n"
    )


class Containers:
    """An OpenVZ host for a vestat-exporter."""

    def __init__(self, folder: Path) -> None:
        self._procfs = folder / "proc"
        self._lives = Lives(3)
        fake_host.write(self._procfs, version="042stab145.3\n", stats=fake_host.stats(1_000_000, 1000))
        self.go_on()
        self.flags = [f"--path.procfs={self._procfs}", "--vzlist.interval=0"]
        self.environment: dict[str, str] = {}

    def go_on(self) -> None:
        self._lives.go_on()
        rows = [
            fake_host.row(str(1000 + number), self._lives.second - begun + 1, waits=1)
            for number, begun in self._lives.started.items()
        ]
        new = self._procfs / "vz/vestat.new"
        new.write_text(fake_host.vestat(rows))
        new.replace(self._procfs / "vz/vestat")


Host = Domains | Text | Containers


@contextlib.contextmanager
def real() -> Iterator[list[str]]:
    """Two cgroups whose processes use a tenth of a CPU each: their paths, for perf-exporter; none without a hierarchy.

    Prints the reason if there are none.
    """
    with contextlib.ExitStack() as running:
        paths: list[str] = []
        try:
            root = hierarchy(Path("/proc"), CONTROLLER).root
            for number in range(REAL):
                folder = root / f"soak-{number + 1}"
                folder.mkdir(exist_ok=True)
                running.callback(folder.rmdir)
                inside = f'echo $$ >"{folder}/cgroup.procs" && exec "$@"'
                load = subprocess.Popen(["sh", "-c", inside, "sh", sys.executable, "-c", _LOAD])
                running.callback(load.wait)
                running.callback(load.kill)
                paths.append(f"/{folder.name}")
        except (OSError, SourceError) as error:
            print(f"no real guests: {error}; run this as root, with a cgroup hierarchy that perf events support")
            paths = []
        yield paths
