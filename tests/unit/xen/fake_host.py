"""A made-up Xen host for the fake libxenstat: described in Python, compiled and read like the real library."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_libxen.c")
NO_LIMIT = 2**64 - 1


@dataclass
class FakeDomain:
    """A domain in the hypervisor; counters of networks and vbds in the order of xenstat.h."""

    id: int
    name: bytes | None
    cpu_ns: int = 0
    memory: int = 256 << 20
    limit: int = NO_LIMIT
    state: str = "blocked"
    vcpus: list[tuple[int, int]] = field(default_factory=lambda: [(1, 0)])
    networks: list[tuple[int, ...]] = field(default_factory=list)
    vbds: list[tuple[int, ...]] = field(default_factory=list)
    runstate: tuple[int, ...] | None = None  # state, missed, entered, six times, means runnable, running, nonaffine

    def lines(self) -> list[str]:
        states = (int(self.state == each) for each in ("dying", "crashed", "shutdown", "paused", "blocked", "running"))
        name = "-" if self.name is None else self.name.hex()
        lines: list[list[object]] = [
            ["domain", self.id, name, self.cpu_ns, self.memory, self.limit, 0, *states],
            *(["vcpu", *vcpu] for vcpu in self.vcpus),
            *(["network", *network] for network in self.networks),
            *(["vbd", *vbd] for vbd in self.vbds),
            *([["runstate", self.id, *self.runstate]] if self.runstate else []),
        ]
        return [" ".join(map(str, line)) for line in lines]


def write_net_dev(procfs: Path, interfaces: Mapping[str, Sequence[int]]) -> Path:
    """Write a net/dev with these interfaces: bytes, packets, errors and drops for each direction, received first."""
    lines = ["Inter-|   Receive                                                |  Transmit"]
    columns = "bytes    packets errs drop fifo"
    lines.append(f" face |{columns} frame compressed multicast|{columns} colls carrier compressed")
    way = "{:8} {:7} {:4} {:4} {:4} {:5} {:10} {:9}"
    for name, counted in interfaces.items():
        received, sent = way.format(*counted[:4], 71, 72, 73, 74), way.format(*counted[4:], 75, 76, 77, 78)
        lines.append(f"{name:>6}:{received} {sent}")
    path = procfs / "net/dev"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


class FakeXen:
    """A folder with a libxenstat.so.4.17, a sysfs of Xen 4.17, a procfs, and the description of the host."""

    def __init__(self, folder: Path, *compiler_flags: str) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("no C compiler for the fake libxenstat: apt-get install gcc libc6-dev")
        self.sysfs = folder / "sys"
        self.procfs = folder / "proc"
        self.libraries = folder / "lib"
        self.description = folder / "host.txt"
        self.idle: list[int] = []  # nanoseconds of each physical CPU
        version = self.sysfs / "hypervisor/version"
        version.mkdir(parents=True)
        self.libraries.mkdir()
        (self.sysfs / "hypervisor/type").write_text("xen\n")
        (version / "major").write_text("4\n")
        (version / "minor").write_text("17\n")
        (version / "extra").write_text(".7\n")
        self.build("libxenstat.so.4.17", *compiler_flags)
        self.show()

    def build(self, name: str, *compiler_flags: str) -> None:
        command = ["cc", "-shared", "-fPIC", *compiler_flags, "-o", str(self.libraries / name), str(SOURCE)]
        subprocess.run(command, check=True)

    def build_libxenctrl(self, *compiler_flags: str) -> None:
        """Add a libxenctrl: XenServer's, or according to the flags (see there)."""
        self.build("libxenctrl.so.4.17", *compiler_flags)

    def show(self, *domains: FakeDomain) -> None:
        """Replace the host atomically."""
        vifs = [(f"vif{domain.id}.{number}", counters) for domain in domains for number, *counters in domain.networks]
        write_net_dev(self.procfs, dict(vifs))
        lines = ["node 4.17.7 4 2400000000 17179869184 1073741824", " ".join(map(str, ["idle", *self.idle]))]
        for domain in domains:
            lines += domain.lines()
        self._write("\n".join(lines) + "\n")

    def say(self, line: str) -> None:
        """Set the library's behaviour: init-fails, fails ERRNO, hangs."""
        self._write(line + "\n")

    def _write(self, text: str) -> None:
        new = self.description.with_suffix(".new")
        new.write_text(text)
        new.replace(self.description)

    @property
    def flags(self) -> list[str]:
        return [f"--path.sysfs={self.sysfs}", f"--path.procfs={self.procfs}"]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "LD_LIBRARY_PATH": str(self.libraries), "FAKE_XENSTAT": str(self.description)}
