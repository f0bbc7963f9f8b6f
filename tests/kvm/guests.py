"""Guests of exactly known load: each a boot sector (guest.asm) in its own QEMU, with KVM if that works.

Needs nasm and QEMU, and root for quotas. Nothing is installed and no network is used.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.emulated import MachineError, Monitor
from tests.support.needs import lacking
from tests.support.waiting import wait_for

SECTOR = Path(__file__).with_name("guest.asm")
DISK_BYTES = 16 << 20
BOOT_SECONDS = {"kvm": 60, "tcg": 120}  # KVM without hardware virtualisation emulates the BIOS: half a minute
START_SECONDS = 20
ANSWER_SECONDS = 20
AT_ITS_LOAD = re.compile(r"^EIP=00007[cd]", re.MULTILINE)  # vCPU 0 is in the boot sector
MANY_READS = re.compile(r"rd_operations=[0-9]{2,}")  # more than the BIOS's one


class GuestError(Exception):
    """A guest doesn't start or doesn't reach its load; the message names it and has QEMU's output."""


@dataclass(frozen=True)
class Load:
    """The load of a guest, as named in guest.asm; `duty` is in tenths of vCPU 0's time."""

    mode: str
    duty: int = 0
    rate: int = 1


BURN = Load("BURN")
DISK = Load("DISK")  # 100 reads of 32 KiB a second


def duty(tenths: int) -> Load:
    """Spins for this many of ten ticks, and halts in the others."""
    return Load("DUTYC", duty=tenths)


def why_not_here() -> str | None:
    """Why guests can't run on this machine, with a remedy; None if they can."""
    return lacking(qemu_system_x86="qemu-system-x86_64", nasm="nasm", util_linux="setpriv")


def kvm_answers() -> bool:
    """Whether QEMU starts with KVM: the device may exist and still refuse."""
    command = ["qemu-system-x86_64", "-accel", "kvm", "-cpu", "qemu64", "-m", "16", "-display", "none", "-nodefaults"]
    command += ["-S", "-monitor", "stdio"]
    try:
        return subprocess.run(command, input=b"quit\n", capture_output=True, check=False, timeout=10).returncode == 0
    except subprocess.TimeoutExpired:
        return False


class Guest:
    """A QEMU that ends with the `with` block or with the tests. Only its first vCPU runs."""

    def __init__(
        self,
        name: str,
        load: Load,
        folder: Path,
        accelerator: str,
        *,
        cpu: int | None = None,
        cgroup: Path | None = None,
        vcpus: int = 2,
        options: Sequence[str] = (),
    ) -> None:
        """`accelerator`: "kvm" or "tcg". `cpu`: the host CPU it is pinned to. `cgroup`: a folder.

        `options`: additional QEMU options.
        """
        self.name, self.load, self.accelerator, self.vcpus = name, load, accelerator, vcpus
        self._cpu, self._cgroup, self._options = cpu, cgroup, options
        self._image, self._monitor, self._log = folder / "disk.img", folder / "monitor", folder / "qemu.log"
        self._qemu: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._qemu is not None, "it has not been started"
        return self._qemu.pid

    def __enter__(self) -> Self:
        assemble(self.load, self._image)
        self._monitor.unlink(missing_ok=True)
        with self._log.open("wb") as log:
            # Its own session, like a daemon: the kernel's autogroups give it the same share of a CPU as the tests.
            self._qemu = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self._wait_for_monitor()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._qemu is not None
        self._qemu.kill()
        self._qemu.wait(START_SECONDS)

    def _command(self) -> list[str]:
        # pdeathsig: QEMU ends even if the tests are killed.
        command = ["setpriv", "--pdeathsig", "KILL"]
        if self._cgroup is not None:
            command = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(self._cgroup), *command]
        if self._cpu is not None:
            command += ["taskset", "--cpu-list", str(self._cpu)]
        command += ["qemu-system-x86_64", "-name", f"guest={self.name.replace(',', ',,')},debug-threads=on"]
        command += ["-accel", self.accelerator, "-cpu", "qemu64", "-m", "16", "-smp", str(self.vcpus)]
        command += ["-nodefaults", "-no-user-config", "-display", "none"]
        # Reads by QEMU's worker threads, which come and go.
        command += ["-drive", f"file={self._image},format=raw,if=none,id=disk,cache=none,aio=threads"]
        command += ["-object", "iothread,id=iothread1", "-device", "virtio-blk-pci,drive=disk,iothread=iothread1"]
        return [*command, *self._options, "-qmp", f"unix:{self._monitor},server=on,wait=off"]

    def _wait_for_monitor(self) -> None:
        qemu = self._qemu
        assert qemu is not None

        def has_ended_or_answers() -> bool:
            return qemu.poll() is not None or bool(self.ask("query-status"))

        wait_for(has_ended_or_answers, START_SECONDS, every=0.05, explain=self._log.read_text, not_yet=(OSError,))
        if qemu.poll() is not None:
            raise GuestError(f"{self.name} does not start: {self._log.read_text()}")

    def ask(self, command: str, **arguments: object) -> Any:
        """QEMU's answer to a command."""
        try:
            with Monitor(self._monitor, ANSWER_SECONDS) as monitor:
                return monitor.ask(command, **arguments)
        except MachineError as error:
            raise GuestError(f"{self.name}: {error}") from error

    def is_at_its_load(self) -> bool:
        """Whether the BIOS has finished."""

        def shown(what: str) -> str:
            return str(self.ask("human-monitor-command", **{"command-line": f"info {what}"}))

        if self.load.mode == "DISK":  # reads through the BIOS, and so is mostly in BIOS code
            return MANY_READS.search(shown("blockstats")) is not None
        return AT_ITS_LOAD.search(shown("registers")) is not None


def unique(name: str) -> str:
    """A name that no other guest of this machine has, with characters that need escaping."""
    return f'{name}, "{os.getpid()}" Grün'


def assemble(load: Load, image: Path) -> None:
    """Write the guest's disk: the boot sector, and nothing after it."""
    image.parent.mkdir(parents=True, exist_ok=True)
    defines = [f"-DMODE={load.mode}", f"-DDUTY={load.duty}", f"-DRATE={load.rate}"]
    subprocess.run(["nasm", "-f", "bin", *defines, SECTOR, "-o", image], check=True)
    os.truncate(image, DISK_BYTES)


def wait_for_loads(guests: Sequence[Guest]) -> None:
    """Return once all guests are at their load; raises `GuestError`, naming the others."""

    def in_the_bios() -> list[str]:
        return [guest.name for guest in guests if not guest.is_at_its_load()]

    try:
        wait_for(in_the_bios, max(BOOT_SECONDS[guest.accelerator] for guest in guests), until=lambda names: not names)
    except AssertionError as error:
        raise GuestError(f"still in the BIOS: {error}") from error


@contextlib.contextmanager
def running(wanted: Mapping[str, Mapping[str, Any]], folder: Path) -> Iterator[dict[str, Guest]]:
    """Guests at their loads, one per arguments of `Guest`; with KVM if that gets them there in time.

    Names contain the number of this process unless given, because other guests may run on this machine.
    Raises `GuestError`.
    VIRTSCOPE_TEST_ACCELERATOR=tcg selects TCG even if KVM works.
    """
    accelerators = ["kvm", "tcg"] if kvm_answers() else ["tcg"]
    if chosen := os.environ.get("VIRTSCOPE_TEST_ACCELERATOR"):
        accelerators = [chosen]
    for accelerator in accelerators:
        with contextlib.ExitStack() as stack:
            try:
                guests = {}
                for short, given in wanted.items():
                    arguments = {"name": unique(short), "folder": folder / accelerator / short, **given}
                    guests[short] = stack.enter_context(Guest(accelerator=accelerator, **arguments))
                wait_for_loads([*guests.values()])
            except GuestError:
                if accelerator == accelerators[-1]:
                    raise
                continue
            yield guests
            return
