"""An emulated Xen host: boots the image in QEMU or resumes a snapshot, and saves one."""

from __future__ import annotations

import json
import shutil
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.emulated import EmulatedMachine, MachineError
from tests.xen.image import Image
from tools.programs import ProgramsError, debian, releases

EXPORTER_PORT = 10290
SECOND_EXPORTER_PORT = 10291
SSH_PORT = 22
SAVE_SECONDS = 300


@dataclass(frozen=True)
class Setup:
    """The emulated hardware, and how Xen is started on it.

    cpu: QEMU's model. With models richer than qemu64, Dom0 or programs in it crash; PVH guests need its feature npt.
    cpus: with two, each flushes the other's translations, which slows emulation down; less so if Dom0 is pinned to one.
    xen: the hypervisor's command line.
    """

    cpu: str
    cpus: int
    xen: str


def why_not_here() -> str | None:
    """Why this machine can't emulate a Xen host, and what to do about it; None if it can."""
    try:
        debian.system()  # what it is made of comes from there
        architecture = releases.architecture()
    except ProgramsError as error:
        return str(error)
    if architecture != "amd64":
        return (
            "the emulated Xen host is made of amd64 programs, some of which are run to build it; use an amd64 machine"
        )
    brings = {"qemu-system-x86": "qemu-system-x86_64", "cpio": "cpio", "zstd": "zstd"}  # packages of packages.txt
    if missing := [package for package, program in brings.items() if shutil.which(program) is None]:
        return f"the emulated Xen host needs: apt-get install --no-install-recommends {' '.join(missing)}"
    return None


class Machine(EmulatedMachine):
    """A running Xen host, booted without guests or resumed from the file that save() left; commands run in its Dom0.

    Attributes:
        exporter: address on this machine that reaches port 10290 of Dom0, e.g. "127.0.0.1:40123".
        second_exporter: likewise for port 10291.
        ssh: likewise for port 22, on which Dom0 listens if a test has it do so.
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
        """Stops the machine for good and writes its state to the file `state`. Raises MachineError.

        The commands: https://www.qemu.org/docs/master/interop/qemu-qmp-ref.html#migration
        """
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(SAVE_SECONDS)
            connection.connect(str(self._monitor))
            lines = connection.makefile("rw")
            lines.readline()  # the greeting

            def ask(command: str, **arguments: object) -> dict[str, Any]:
                lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
                lines.flush()
                while "event" in (answer := json.loads(lines.readline())):
                    pass  # an event, not the answer
                if "error" in answer:
                    raise MachineError(f"QEMU refuses {command}: {answer['error']['desc']}")
                found: dict[str, Any] = answer["return"]
                return found

            ask("qmp_capabilities")
            # In one pass, with the machine stopped: its downtime doesn't matter.
            ask("migrate-set-parameters", **{"max-bandwidth": 1 << 34, "downtime-limit": 1000 * SAVE_SECONDS})
            ask("migrate", uri=f"exec:zstd --quiet --fast=3 -o {state}")
            deadline = time.monotonic() + SAVE_SECONDS
            while (status := ask("query-migrate")).get("status") != "completed":
                if status.get("status") in ("failed", "cancelled") or time.monotonic() > deadline:
                    raise MachineError(f"QEMU can't save the machine: {status}")
                time.sleep(0.2)
