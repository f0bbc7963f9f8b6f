"""A machine emulated by QEMU, with an agent (tests/xen/dom0/agent.py) that runs commands and receives files."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import requests

from tests.support.ports import free_port
from tests.support.waiting import wait_for

AGENT_PORT = 7000
BOOT_SECONDS = 400  # about 30 on a quiet machine
EXPORTER_SECONDS = 120
MONITOR_SECONDS = 300  # until a machine's state has been written


class MachineError(Exception):
    """An operation on the machine failed; the message ends with its last output."""


class EmulatedMachine:
    """A machine that runs until the end of the `with` block; its disk writes are discarded.

    Attributes:
        name: its name in messages.
        forwarded: by each of its TCP ports, the address on this machine that reaches it, e.g. "127.0.0.1:40123".
        serial_log: its console.
    """

    def __init__(self, name: str, workdir: Path, ports: Sequence[int], hardware: Sequence[str | Path]) -> None:
        """`hardware`: QEMU's flags except console and network."""
        self.name = name
        self.serial_log = workdir / "serial.log"
        self.forwarded = {port: f"127.0.0.1:{free_port()}" for port in (AGENT_PORT, *ports)}
        self._hardware = hardware
        self._qemu: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        forwarded = ",".join(f"hostfwd=tcp:{here}-:{there}" for there, here in self.forwarded.items())
        # pdeathsig: QEMU ends even if the tests are killed.
        command: list[str | Path] = [
            *("setpriv", "--pdeathsig", "TERM", "qemu-system-x86_64"),
            *("-display", "none", "-nodefaults", "-no-reboot", "-serial", f"file:{self.serial_log}"),
            *("-device", "virtio-net-pci,netdev=net,romfile=", "-netdev", f"user,id=net,{forwarded}"),
            *self._hardware,
        ]
        self._qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        try:
            self._wait_for_agent(self._qemu)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._qemu is not None:
            self._qemu.kill()  # nothing to save
            self._qemu.wait()

    def _wait_for_agent(self, qemu: subprocess.Popen[bytes]) -> None:
        def has_ended_or_answers() -> bool:
            return qemu.poll() is not None or self.request("GET", "/", b"", timeout=2)[0] == 0

        not_yet = (OSError, http.client.HTTPException)
        wait_for(has_ended_or_answers, BOOT_SECONDS, every=0.5, explain=self.console, not_yet=not_yet)
        if qemu.poll() is not None:
            raise MachineError(f"QEMU ended with status {qemu.returncode}; console:\n{self.console()}")

    def console(self, lines: int = 40) -> str:
        """The last lines of the console, where a hanging kernel reports."""
        text = self.serial_log.read_text(errors="replace") if self.serial_log.exists() else ""
        return "\n".join([*text.splitlines()[-lines:], f"(complete: {self.serial_log})"])

    def run(self, command: str, timeout: float = 120) -> str:
        """Run a shell command that must succeed within `timeout` seconds, as root; return its output.

        Raises MachineError.
        """
        try:
            status, printed = self.request("POST", f"/?timeout={timeout}", command.encode(), timeout + 30)
        except (OSError, http.client.HTTPException) as error:
            said = f"{self.name} did not answer ({error!r}) to {command!r}"
            raise MachineError(f"{said}; console:\n{self.console()}") from error
        output = printed.decode(errors="replace")
        if status != 0:
            raise MachineError(f"{command!r} failed with status {status} in {self.name}:\n{output}")
        return output

    def put(self, path: str, content: bytes) -> None:
        """Write a file in it, creating parent folders."""
        self.request("PUT", path, content, timeout=60)

    def install(self, tar: bytes) -> None:
        """Unpack tests.xen.package's tar file into /opt/virtscope."""
        self.put("/tmp/virtscope.tar", tar)
        self.run("mkdir -p /opt/virtscope && tar -xf /tmp/virtscope.tar -C /opt/virtscope && rm /tmp/virtscope.tar")

    def start_exporter(self, module: str, port: int, flags: str = "", *, before: str = "") -> None:
        """Start virtscope.MODULE, with `before` as a prefix, and wait until it answers; it logs to log_of."""
        command = f"{before} python3 -m virtscope.{module} --web.listen-address=0.0.0.0:{port} {flags}"
        self.run(f"cd /; PYTHONPATH=/opt/virtscope setsid {command} >{log_of(module)} 2>&1 &")
        wait_for(
            lambda: requests.get(f"http://{self.forwarded[port]}/-/healthy", timeout=5).ok,
            EXPORTER_SECONDS,
            every=0.5,
            explain=lambda: self.run(f"cat {log_of(module)}"),
        )

    def request(self, method: str, path: str, body: bytes, timeout: float) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.forwarded[AGENT_PORT], timeout=timeout)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return int(response.headers["X-Status"]), response.read()
        finally:
            connection.close()


def log_of(module: str) -> str:
    """The log file of an exporter in the machine."""
    return f"/var/log/{module}-exporter"


class Monitor:
    """QEMU's protocol QMP (https://www.qemu.org/docs/master/interop/qemu-qmp-ref.html), over a socket."""

    def __init__(self, path: Path, seconds: float = MONITOR_SECONDS) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(seconds)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("rw")

    def __enter__(self) -> Self:
        self._lines.readline()  # the greeting
        self.ask("qmp_capabilities")
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._socket.close()

    def ask(self, command: str, **arguments: object) -> Any:  # as QEMU returns it
        """QEMU's answer to a command. Raises MachineError."""
        self._lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._lines.flush()
        while "event" in (answer := json.loads(self._lines.readline())):
            pass
        if "error" in answer:
            raise MachineError(f"QEMU refuses {command}: {answer['error']['desc']}")
        return answer["return"]
