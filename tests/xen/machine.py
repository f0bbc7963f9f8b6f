"""An emulated Xen host: boots the image in QEMU or resumes a snapshot, and saves one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deploy.programs import ProgramsError, debian, releases
from tests.support.emulated import EmulatedMachine, MachineError, Monitor
from tests.support.needs import missing, need
from tests.support.waiting import wait_for
from tests.xen.image import Image

EXPORTER_PORT = 10290
SECOND_EXPORTER_PORT = 10291
SSH_PORT = 22
SAVE_SECONDS = 300


@dataclass(frozen=True)
class Setup:
    """The emulated hardware, and Xen's options.

    cpu: QEMU's model. With models richer than qemu64, Dom0 or programs in it crash; PVH guests need its feature npt.
    cpus: with two, each flushes the other's translations, which slows down emulation; less so if Dom0 is pinned to one.
    xen: the hypervisor's command line.
    """

    cpu: str
    cpus: int
    xen: str


def need_emulation() -> None:
    """Skip where this machine can't emulate a Xen host."""
    try:
        debian.system()  # the build needs its packages
        architecture = releases.architecture()
    except ProgramsError as error:
        missing(str(error))
    if architecture != "amd64":
        missing("the emulated Xen host is made of amd64 programs, some of which are run to build it")
    need(qemu_system_x86="qemu-system-x86_64", cpio="cpio", zstd="zstd")


class Machine(EmulatedMachine):
    """A running Xen host, booted without guests or resumed from a file written by save(); commands run in its Dom0.

    Attributes:
        exporter: address on this machine that reaches port 10290 of Dom0, e.g. "127.0.0.1:40123".
        second_exporter: the same for port 10291.
        ssh: the same for port 22, on which Dom0 listens if a test starts sshd.
    """

    def __init__(self, image: Image, setup: Setup, workdir: Path, saved: Path | None = None) -> None:
        self._monitor = workdir / "qmp"
        hardware: list[str | Path] = [
            *("-accel", "tcg,tb-size=256", "-cpu", setup.cpu, "-smp", str(setup.cpus), "-m", "1536"),
            *("-kernel", image.hypervisor, "-append", f"console=com1 com1=115200,8n1 {setup.xen}"),
            *("-initrd", f"{image.kernel} console=hvc0 quiet,{image.initramfs}"),
            *("-qmp", f"unix:{self._monitor},server=on,wait=off"),
        ]
        if saved:
            hardware += ["-incoming", f"exec:zstd --quiet --decompress --stdout {saved}"]
        super().__init__("Dom0", workdir, [EXPORTER_PORT, SECOND_EXPORTER_PORT, SSH_PORT], hardware)
        self.exporter = self.forwarded[EXPORTER_PORT]
        self.second_exporter = self.forwarded[SECOND_EXPORTER_PORT]
        self.ssh = self.forwarded[SSH_PORT]

    def save(self, state: Path) -> None:
        """Stop the machine and write its state to the file `state`. Raises MachineError."""
        with Monitor(self._monitor) as monitor:
            # In one pass, with the machine stopped: downtime doesn't matter.
            downtime = 1000 * SAVE_SECONDS
            monitor.ask("migrate-set-parameters", **{"max-bandwidth": 1 << 34, "downtime-limit": downtime})
            monitor.ask("migrate", uri=f"exec:zstd --quiet --fast=3 -o {state}")
            ended = ("completed", "failed", "cancelled")
            status = wait_for(
                lambda: monitor.ask("query-migrate"), SAVE_SECONDS, until=lambda status: status.get("status") in ended
            )
        if status["status"] != "completed":
            raise MachineError(f"QEMU can't save the machine: {status}")
