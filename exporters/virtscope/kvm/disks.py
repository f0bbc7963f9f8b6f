"""Disk bytes and requests of a guest's processes, by the host's devices: io.stat of its cgroup (version 2).

    253:6 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0
    8:0 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0

Where devices are stacked (LVM, RAID, encryption) the kernel counts the same bytes for each layer, so only the uppermost
device is kept. Format: Documentation/admin-guide/cgroup-v2.rst. The file is absent unless the controller io is enabled.
By hand: `cat /sys/fs/cgroup/qemu.slice/100.scope/io.stat`, `lsblk --output NAME,MAJ:MIN`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from virtscope.kvm.host_files import Files
from virtscope.kvm.model import Block, Requests

_DEVICE = re.compile(r"[0-9]{1,9}:[0-9]{1,9}")
_KEYS = ("rios", "rbytes", "wios", "wbytes")
_MAX_DEVICES = 256  # of a guest
_NO_FLUSHES = Requests(None, None, None)


def parse(text: bytes) -> dict[str, list[int]]:
    """Return read requests, read bytes, write requests and written bytes by major:minor; skips other lines."""
    found: dict[str, list[int]] = {}
    for line in text.decode("ascii", "replace").split("\n")[:_MAX_DEVICES]:
        # Some kernels end no line after a device that has nothing to show: "7:1 7:0 8:0 rbytes=...".
        names = [word for word in line.split() if "=" not in word]
        values = dict(word.split("=", 1) for word in line.split() if "=" in word)
        counters = [values.get(key, "") for key in _KEYS]
        if names and _DEVICE.fullmatch(names[-1]) and all(each.isdigit() and len(each) < 21 for each in counters):
            found[names[-1]] = [int(each) for each in counters]
    return found


def uppermost(files: Files, devices: Iterable[str]) -> dict[str, str]:
    """Return the names of these devices by major:minor, without those that lie below another one."""
    names = {device: files.link(f"sys/dev/block/{device}").rpartition("/")[2] or device for device in devices}
    below = {name for device in names for name in _below(files, f"sys/dev/block/{device}")}
    return {device: name for device, name in names.items() if name not in below}


def read(files: Files, folder: str, names: Mapping[str, str]) -> tuple[Block, ...]:
    """Return the counters of these devices in a cgroup's folder."""
    counted = parse(files.content(f"{folder}/io.stat") or b"")
    return tuple(
        [
            Block(name, Requests(rios, rbytes, None), Requests(wios, wbytes, None), _NO_FLUSHES)
            for device, (rios, rbytes, wios, wbytes) in counted.items()
            if (name := names.get(device))
        ]
    )


def _below(files: Files, folder: str) -> Iterator[str]:
    """Yield the disks of which a device is made, at every depth."""
    for name in files.names(f"{folder}/slaves"):
        yield _disk(files.link(f"{folder}/slaves/{name}"))
        yield from _below(files, f"{folder}/slaves/{name}")


def _disk(target: str) -> str:
    """Return the name of the disk that a path in sysfs ends with, or of which it ends with a partition."""
    disk, name = ["", *target.split("/")][-2:]
    return disk if re.fullmatch(re.escape(disk) + "p?[0-9]+", name) else name
