"""An emulated Xen host: boots the image in QEMU or resumes a snapshot, runs commands in its Dom0."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.live.program import free_port
from tests.xen.image import Image
from tools.programs import ProgramsError, debian, releases

AGENT_PORT = 7000
EXPORTER_PORT = 10290
SECOND_EXPORTER_PORT = 10291
SSH_PORT = 22
BOOT_SECONDS = 400  # about 30 on a quiet machine
SAVE_SECONDS = 300


class MachineError(Exception):
    """The machine failed to do what was asked of it; the message ends with its last output."""


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


@dataclass(frozen=True)
class Completed:
    """A command that ended in Dom0: its exit status (124: took too long) and what it printed on both streams."""

    status: int
    output: str


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


class Machine:
    """A running Xen host, booted without guests or resumed from the file that save() left; use as a context manager.

    Attributes:
        exporter: address on this machine that reaches port 10290 of Dom0, e.g. "127.0.0.1:40123".
        second_exporter: likewise for port 10291.
        ssh: likewise for port 22, on which Dom0 listens if a test has it do so.
        serial_log: the console of Xen and Dom0.
    """

    def __init__(self, image: Image, setup: Setup, workdir: Path, saved: Path | None = None) -> None:
        self.image = image
        self.setup = setup
        self.saved = saved
        self.serial_log = workdir / "serial.log"
        self.monitor = workdir / "qmp"
        self.agent, self.exporter, self.second_exporter, self.ssh = (f"127.0.0.1:{free_port()}" for _ in range(4))
        self.qemu: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        ports = {
            self.agent: AGENT_PORT,
            self.exporter: EXPORTER_PORT,
            self.second_exporter: SECOND_EXPORTER_PORT,
            self.ssh: SSH_PORT,
        }
        forwarded = ",".join(f"hostfwd=tcp:{here}-:{there}" for here, there in ports.items())
        # pdeathsig: QEMU ends even if the tests are killed.
        command: list[str | Path] = [
            *("setpriv", "--pdeathsig", "TERM", "qemu-system-x86_64", "-accel", "tcg,tb-size=256"),
            *("-cpu", self.setup.cpu, "-smp", str(self.setup.cpus), "-m", "1536"),
            *("-display", "none", "-nodefaults", "-no-reboot", "-serial", f"file:{self.serial_log}"),
            *("-device", "virtio-net-pci,netdev=net,romfile=", "-netdev", f"user,id=net,{forwarded}"),
            *("-kernel", self.image.hypervisor, "-append", f"console=com1 com1=115200,8n1 {self.setup.xen}"),
            *("-initrd", f"{self.image.kernel} console=hvc0 quiet,{self.image.initramfs}"),
            *("-qmp", f"unix:{self.monitor},server=on,wait=off"),
        ]
        if self.saved:
            command += ["-incoming", f"exec:zstd --quiet --decompress --stdout {self.saved}"]
        self.qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        try:
            self.wait_for_agent()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.qemu is not None:
            self.qemu.kill()  # its disks are in its memory: nothing to save
            self.qemu.wait()

    def wait_for_agent(self) -> None:
        assert self.qemu is not None
        deadline = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < deadline:
            if self.qemu.poll() is not None:
                raise MachineError(f"QEMU ended with status {self.qemu.returncode}; console:\n{self.console()}")
            try:
                self.request("GET", "/", b"", timeout=2)
            except (OSError, http.client.HTTPException):
                time.sleep(0.5)
            else:
                return
        raise MachineError(f"Dom0 did not answer within {BOOT_SECONDS} s; console:\n{self.console()}")

    def save(self, state: Path) -> None:
        """Stops the machine for good and writes its state to the file `state`. Raises MachineError.

        The commands: https://www.qemu.org/docs/master/interop/qemu-qmp-ref.html#migration
        """
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(SAVE_SECONDS)
            connection.connect(str(self.monitor))
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

    def console(self, lines: int = 40) -> str:
        """The last lines of the console."""
        text = self.serial_log.read_text(errors="replace") if self.serial_log.exists() else ""
        return "\n".join([*text.splitlines()[-lines:], f"(complete: {self.serial_log})"])

    def run(self, command: str, timeout: float = 60) -> Completed:
        """Runs a shell command in Dom0, killed there after `timeout` seconds; a failing command raises nothing."""
        status, output = self.request("POST", f"/?timeout={timeout}", command.encode(), timeout + 30)
        return Completed(status, output.decode(errors="replace"))

    def check(self, command: str, timeout: float = 60) -> str:
        """Runs a command that must succeed; returns what it printed. Raises MachineError."""
        completed = self.run(command, timeout)
        if completed.status != 0:
            raise MachineError(f"{command!r} failed with status {completed.status} in Dom0:\n{completed.output}")
        return completed.output

    def put(self, path: str, content: bytes) -> None:
        """Writes a file in Dom0, creating the folders above it."""
        self.request("PUT", path, content, timeout=60)

    def request(self, method: str, path: str, body: bytes, timeout: float) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.agent, timeout=timeout)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return int(response.headers["X-Status"]), response.read()
        finally:
            connection.close()
