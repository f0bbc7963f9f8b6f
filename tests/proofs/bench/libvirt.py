"""Guests of a libvirtd started by the bench, and the cost of queries: for all guests at once, or one by one.

The guests are emulated and halt after starting, so that only queries take CPU time. Everything runs in separate
namespaces with empty folders, and ends with them.
"""

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Self

# Calls of exporters without domstats, in this order for each guest.
_ONE_BY_ONE = ("dumpxml {}", "dominfo {}", "vcpuinfo {}", "dommemstat {}", "domblkstat {} vda")
_PROGRAMS = ("libvirtd", "virtlogd", "virsh", "qemu-system-x86_64", "setpriv", "unshare", "nsenter")
_FOLDERS = ("/run/libvirt", "/var/lib/libvirt", "/var/log/libvirt", "/var/cache/libvirt", "/etc/libvirt")
_NAMESPACES = (
    *("setpriv", "--pdeathsig", "KILL"),  # ends with the bench, even if it is killed
    *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
# If KVM exists but doesn't work, libvirt spends seconds per guest on probing QEMU's capabilities.
_WITHOUT_KVM = """test ! -e /dev/kvm || {
  touch /run/libvirt/none && mount --bind /run/libvirt/none /dev/kvm && mount -o remount,bind,ro /dev/kvm
  echo 'namespaces = []' >/etc/libvirt/qemu.conf
}
"""
_CGROUPS = Path("/sys/fs/cgroup")
_START_SECONDS = 60.0
_SETTLING_SECONDS = 20.0  # the guests' firmware
_ENDING_SECONDS = 10.0

# A boot sector: cli, hlt, and a jump back.
_HALTS = b"\xfa\xf4\xeb\xfd".ljust(510, b"\0") + b"\x55\xaa"

_DOMAIN = """
<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>16</memory>
  <vcpu>2</vcpu>
  <iothreads>1</iothreads>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <cpu mode='custom' match='exact' check='none'><model fallback='forbid'>qemu64</model></cpu>
  <devices>
    <emulator>{emulator}</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='none' iothread='1'/>
      <source file='{disk}'/><target dev='vda' bus='virtio'/><readonly/>
    </disk>
  </devices>
  <seclabel type='static' model='dac' relabel='no'><label>+0:+0</label></seclabel>
</domain>
"""


class LibvirtError(Exception):
    """libvirtd can't run here; the message says what is missing or what failed."""


class LibvirtGuests:
    """Runs `count` guests until the `with` block ends; raises LibvirtError if that fails."""

    def __init__(self, folder: Path, count: int) -> None:
        missing = [name for name in _PROGRAMS if not shutil.which(name)]
        if missing:
            packages = "libvirt-daemon-system libvirt-clients qemu-system-x86"
            raise LibvirtError(f"no {missing[0]}; apt-get install {packages}")
        if os.geteuid():
            raise LibvirtError("the bench isn't run as root")
        self._folder = folder
        self._names = [f"guest{number}" for number in range(count)]
        self._namespace: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._start_libvirtd()
            self._create()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def seconds_at_once(self) -> float:
        """CPU seconds of one answer about all guests: virsh, libvirtd and guests."""
        return self._seconds(["domstats --raw"])

    def seconds_one_by_one(self) -> float:
        """CPU seconds of querying one guest after the other."""
        return self._seconds([line.format(name) for name in self._names for line in _ONE_BY_ONE])

    def _start_libvirtd(self) -> None:
        mounts = "".join(f"mkdir -p {folder} && mount -t tmpfs tmpfs {folder}\n" for folder in _FOLDERS)
        with (self._folder / "libvirtd.log").open("wb") as log:
            self._namespace = subprocess.Popen(
                [*_NAMESPACES, "sh", "-ec", f"{mounts}{_WITHOUT_KVM}virtlogd -d; libvirtd"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _START_SECONDS
        while not _children(self._namespace.pid) or self._virsh(["version"]).returncode:
            if self._namespace.poll() is not None or time.monotonic() > deadline:
                raise LibvirtError(f"libvirtd doesn't start: {(self._folder / 'libvirtd.log').read_text()[-300:]}")
            time.sleep(0.2)

    def _create(self) -> None:
        disk = self._folder / "halts.img"
        disk.write_bytes(_HALTS.ljust(1 << 20, b"\0"))
        for name in self._names:
            described = _DOMAIN.format(name=name, emulator=shutil.which("qemu-system-x86_64"), disk=disk)
            (self._folder / f"{name}.xml").write_text(described)
        made = self._virsh([f"create {self._folder / name}.xml" for name in self._names])
        if made.stderr:
            raise LibvirtError(f"libvirtd starts no guests: {made.stderr.decode()[-300:]}")
        time.sleep(_SETTLING_SECONDS)

    def _virsh(self, commands: list[str]) -> subprocess.CompletedProcess[bytes]:
        assert self._namespace
        inside = ["nsenter", "--mount", f"--target={_children(self._namespace.pid)[0]}"]
        return subprocess.run(
            [*inside, "virsh", "-q", "-c", "qemu:///system"],
            input="".join(f"{command}\n" for command in commands).encode(),
            capture_output=True,
            check=False,
        )

    def _seconds(self, commands: list[str]) -> float:
        before = self._used()
        answered = self._virsh(commands)
        if answered.stderr:
            raise LibvirtError(f"virsh: {answered.stderr.decode()[-300:]}")
        return self._used() - before

    def _used(self) -> float:
        """CPU seconds of everything in the namespaces, and of ended virsh processes."""
        assert self._namespace
        ended = os.times()
        clocks = [(~pid << 3) | 2 for pid in _below(self._namespace.pid)]  # as returned by clock_getcpuclockid(3)
        return ended.children_user + ended.children_system + sum(map(time.clock_gettime, clocks))

    def _stop(self) -> None:
        if self._namespace:
            self._namespace.kill()  # ends everything in its PID namespace
            self._namespace.wait()
        # Without systemd, libvirt leaves its guests' cgroups behind.
        deadline = time.monotonic() + _ENDING_SECONDS
        while (left := [*_CGROUPS.glob("machine"), *_CGROUPS.glob("*/machine")]) and time.monotonic() < deadline:
            for machine in left:
                for folder in (*sorted(machine.rglob("*/"), reverse=True), machine):
                    with contextlib.suppress(OSError):  # not empty yet
                        folder.rmdir()
            time.sleep(0.1)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _below(pid: int) -> list[int]:
    return [each for child in _children(pid) for each in (child, *_below(child))]
