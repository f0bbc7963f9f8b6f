"""An emulated Debian release with its own kernel and two CPUs, running sched-exporter under its unit."""

from __future__ import annotations

import functools
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.distributions.chroots import DEBIAN_11, Release
from tests.support import disk, reading
from tests.support.emulated import EmulatedMachine
from tests.support.pages import Page
from tests.support.privileges import UNITS
from tests.support.waiting import wait_for

PORT = 10298
KERNEL = "linux-image-cloud-amd64"  # the same scheduler with fewer drivers; boots faster
# On a quiet machine each takes a few seconds.
EXPORTER_SECONDS = 240
LOADS_SECONDS = 240
HARDWARE = ("-accel", "tcg,tb-size=256", "-cpu", "qemu64", "-m", "1024", "-smp", "2")
# QEMU serves this many of its requests a second, one by one.
DISK, DISK_OPERATIONS = "vdb", 100
# no_timer_check: on a busy machine a late tick fails the kernel's timer test, and it panics.
COMMAND_LINE = "console=ttyS0,115200 root=/dev/vda rw quiet mitigations=off net.ifnames=0 no_timer_check"
LOAD = "/run/load.sh"  # a file, as systemd replaces $$ in a service's command
READS = "/run/reads.py"
PROGRAM = '#!/bin/sh\nPYTHONPATH=/opt/virtscope exec python3 -m virtscope.sched "$@"\n'


class Setup(NamedTuple):
    """`kernel`: prefix of its version; None: the newest in the release's backports. `options`: for its command line."""

    name: str
    release: Release
    kernel: str | None
    options: str = ""


class Load(NamedTuple):
    """An endless load on one CPU in its own cgroup. `unit` is a scope, like containers, or a service.

    It computes, or reads the disk with some threads.
    """

    unit: str
    cpu: int
    properties: Sequence[str] = ("CPUWeight=100",)
    reads: int = 0

    @property
    def path(self) -> str:
        """The exporter's name of its cgroup."""
        return f"/system.slice/{self.unit}"


class Look(NamedTuple):
    """Readings of kernel and exporter while all loads are stopped, in seconds since the loads started."""

    waited: dict[Load, float]  # each load's run_delay (Documentation/scheduler/sched-stats.rst)
    throttled: dict[Load, float]  # throttled time of each load's cgroup, from its cpu.stat
    page: Page


class Machine(EmulatedMachine):
    """The machine, whose disk is built the first time. `exporter` is the exporter's address on this machine."""

    def __init__(self, setup: Setup, workdir: Path) -> None:
        """Raises BuildError and chroots.MissingError."""
        libbpf = "libbpf0" if setup.release == DEBIAN_11 else "libbpf1"
        newest = setup.kernel is None
        kind = f"kernels/{setup.release.suite}{'-backports' if newest else ''}"
        made = disk.debian(kind, Path(__file__), setup.release, KERNEL, libbpf, backported=newest)
        hardware: list[str | Path] = [
            *HARDWARE,
            *("-drive", f"file={made.disk},format=raw,if=virtio,snapshot=on"),
            *("-drive", f"driver=null-co,size=64M,if=virtio,throttling.iops-total={DISK_OPERATIONS}"),
            *("-kernel", made.kernel, "-initrd", made.initramfs, "-append", f"{COMMAND_LINE} {setup.options}"),
        ]
        super().__init__(setup.name, workdir, [PORT], hardware)
        self.setup, self.exporter = setup, self.forwarded[PORT]

    @functools.cached_property
    def _cgroups(self) -> str:
        """The mount of the CPU controller, which has a folder of its own in version 1."""
        return self.run("cd /sys/fs/cgroup; [ -d cpu ] && cd cpu; pwd").strip()

    @property
    def has_cgroup_v1(self) -> bool:
        return self._cgroups.endswith("/cpu")

    def start_unit(self, tar: bytes) -> None:
        """Unpack tests.xen.package's tar file and start the exporter; returns once it counts."""
        unit = "sched-exporter.service"
        self.install(tar)
        self.put("/opt/virtscope/bin/sched-exporter", PROGRAM.encode())
        self.put(f"/etc/systemd/system/{unit}", (UNITS / unit).read_bytes())
        self.put("/etc/virtscope/sched-exporter.env", f"ARGS=--web.listen-address=0.0.0.0:{PORT}\n".encode())
        self.run(f"chmod 755 /opt/virtscope/bin/sched-exporter; systemctl daemon-reload; systemctl start {unit}")
        counting = "sched_switches_total"
        wait_for(lambda: Page.of(self.exporter).all(counting), EXPORTER_SECONDS, every=0.5, explain=self.log)

    def log(self) -> str:
        return self.run("journalctl --no-pager --unit=sched-exporter --lines=40")

    def start(self, loads: Sequence[Load]) -> None:
        """Start all loads, stopped: on a busy emulated CPU, systemd would take long to start the next one."""
        self.put(READS, reading.SCRIPT.encode())
        read = f'exec python3 {READS} /dev/{DISK} "$1"'
        self.put(LOAD, f'kill -STOP $$\n[ "$1" = 0 ] || {read}\nwhile :; do :; done\n'.encode())
        started = ""
        for load in loads:
            properties = " ".join(shlex.quote(f"--property={text}") for text in load.properties)
            kind = "--scope --unit" if load.unit.endswith(".scope") else "--unit"
            started += (
                f"systemd-run --quiet {kind}={load.unit} --slice=system.slice {properties}"
                f" taskset --cpu-list {load.cpu} sh {LOAD} {load.reads}"
                f" </dev/null >/run/{load.unit} 2>&1 &\n"
            )
        stopped = " && ".join(f"{self._pids(load)} | xargs -r ps -o stat=,args= | grep -q '^T.* sh '" for load in loads)
        said = " ".join(f"/run/{load.unit}" for load in loads)
        self.run(
            f"{started}for i in $(seq {LOADS_SECONDS}); do {stopped} && exit; sleep 1; done; cat {said}; exit 1",
            LOADS_SECONDS * 2,
        )

    def stop(self, loads: Sequence[Load]) -> None:
        """Stop all loads, so that none of their counters changes."""
        self._signal("STOP", loads)
        time.sleep(1)  # a throttled process only stops when its cap lets it run again

    def waited(self, load: Load) -> float:
        """The run_delay of the unit's only process."""
        _ran, waited, _slices = self.run(f"cat /proc/$({self._pids(load)})/schedstat").split()
        return int(waited) / 1e9

    def throttled(self, load: Load) -> float:
        words = self.run(f"cat {self._cgroups}{load.path}/cpu.stat").split()
        stat = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        return stat["throttled_time"] / 1e9 if self.has_cgroup_v1 else stat["throttled_usec"] / 1e6

    def disk_seconds(self) -> float:
        """Time of all completed requests of the disk (Documentation/block/stat.rst)."""
        words = self.run(f"cat /sys/block/{DISK}/stat").split()
        return (int(words[3]) + int(words[7])) / 1e3

    def look(self, loads: Sequence[Load]) -> Look:
        """Read the counters of these stopped loads."""
        waited, throttled = ({load: of(load) for load in loads} for of in (self.waited, self.throttled))
        return Look(waited, throttled, Page.of(self.exporter))

    def resume(self, loads: Sequence[Load]) -> None:
        self._signal("CONT", loads)

    def _signal(self, name: str, loads: Sequence[Load]) -> None:
        self.run(f"kill -{name} {' '.join(f'$({self._pids(load)})' for load in loads)}")

    def _pids(self, load: Load) -> str:
        """The command that prints the pid of the load's only process."""
        return f"cat {self._cgroups}{load.path}/cgroup.procs"
