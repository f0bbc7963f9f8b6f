"""Disk counters of a guest by its cgroup, on LVM, partitions and RAID."""

from __future__ import annotations

import pytest

from tests.unit.kvm.captured import recorded
from tests.unit.kvm.test_guests import Machine
from virtscope.kvm.disks import parse, uppermost
from virtscope.kvm.exporter import recordable
from virtscope.kvm.model import Block, Requests
from virtscope.kvm.recorded import anonymised_files
from virtscope.toolkit.record import StandIns

SCOPE = "/qemu.slice/100.scope"
IO_STAT = f"sys/fs/cgroup{SCOPE}/io.stat"
PROXMOX = ("-id", "100", "-name", "web")


def counters(device: str, read: int, written: int) -> str:
    return f"{device} rbytes={read * 4096} wbytes={written * 512} rios={read} wios={written} dbytes=0 dios=0\n"


def stacked(*layers: tuple[str, str, str]) -> dict[str, bytes]:
    """Files of sysfs: each device's number, its path, and the paths of those below it, from the disk upwards."""
    found: dict[str, bytes] = {}
    for number, path, below in layers:
        folder = f"sys/dev/block/{number}"
        found[folder] = f"../../devices/{path}".encode()
        for slave in below.split():
            name = slave.rpartition("/")[2]
            found[f"{folder}/slaves/{name}"] = f"../../../{slave}".encode()
            # A slave's folder is a symbolic link, below which the path goes on.
            for other, at, _ in layers:
                if at == slave:
                    under = f"sys/dev/block/{other}/slaves/"
                    deeper = {path: text for path, text in found.items() if path.startswith(under)}
                    found |= {f"{folder}/slaves/{name}/slaves/{path[len(under) :]}": deeper[path] for path in deeper}
    return found


# Proxmox's local-lvm: a thin volume, its pool, the pool's data, the partition of a disk.
THIN = stacked(
    ("8:0", "pci0000:00/0000:00:05.0/block/sda", ""),
    ("253:3", "virtual/block/dm-3", "pci0000:00/0000:00:05.0/block/sda/sda3"),
    ("253:4", "virtual/block/dm-4", "virtual/block/dm-3"),
    ("253:6", "virtual/block/dm-6", "virtual/block/dm-4"),
)
NVME = "virtual/nvme-subsystem/nvme-subsys0/nvme0n1"
RAID = stacked(
    ("259:0", NVME, ""), ("259:5", "block/nvme1n1", ""), ("9:0", "block/md0", f"{NVME}/nvme0n1p2 block/nvme1n1")
)


def test_an_io_stat() -> None:
    whole = counters("8:0", 2, 3)
    assert parse(whole.encode()) == {"8:0": [2, 8192, 3, 1536]}
    assert parse(b"7:1 7:0 " + whole.encode()) == {"8:0": [2, 8192, 3, 1536]}, "without ends of lines"
    for malformed in (
        "8:0\n",
        "8:0 rbytes=1\n",
        "x " + whole[4:],
        whole.replace("=2", "=-2"),
        whole.replace("=2", "=x"),
    ):
        assert parse(malformed.encode()) == {}, malformed


@pytest.mark.parametrize(
    ("files", "devices", "shown"),
    [
        (THIN, "253:6 253:4 253:3 8:0", {"253:6": "dm-6"}),
        (THIN, "253:6 8:0", {"253:6": "dm-6"}),  # the layers between aren't counted
        (THIN, "8:0", {"8:0": "sda"}),
        (RAID, "9:0 259:0 259:5", {"9:0": "md0"}),
        (RAID, "259:0", {"259:0": "nvme0n1"}),
        ({}, "8:0 230:16", {"8:0": "8:0", "230:16": "230:16"}),
    ],
)
def test_bytes_of_stacked_devices_count_once(files: dict[str, bytes], devices: str, shown: dict[str, str]) -> None:
    assert uppermost(recorded(files), devices.split()) == shown


def test_a_guest_s_disks_by_its_cgroup_in_a_recording_too() -> None:
    machine = Machine()
    machine.starts(9, *PROXMOX, cgroup=SCOPE)
    machine.starts(10, "-name", "user", cgroup="/user.slice/user-1000.slice")  # shared, so whose requests isn't known
    machine.starts(
        11, "-name", "db", "-mon", "chardev=charmonitor", cgroup=r"/machine.slice/machine-qemu\x2d1\x2ddb.scope"
    )
    text = "".join(counters(device, 5, 7) for device in ("253:6", "253:4", "253:3", "8:0")).encode()
    machine.content |= THIN | {IO_STAT: text, "sys/fs/cgroup/cgroup.controllers": b"cpu io\n"}
    machine.content["sys/fs/cgroup/user.slice/user-1000.slice/io.stat"] = text
    machine.content[r"sys/fs/cgroup/machine.slice/machine-qemu\x2d1\x2ddb.scope/io.stat"] = text
    none = Requests(None, None, None)
    disks = (Block("dm-6", Requests(5, 20480, None), Requests(7, 3584, None), none),)
    assert [guest.disks for guest in machine.look().guests] == [disks, (), ()]
    machine.content = dict(anonymised_files(recordable(recorded(machine.content)).read(), StandIns()))
    assert [guest.disks for guest in machine.look(1).guests] == [disks, (), ()]
    assert b"pci0000" not in repr(machine.content).encode()


def test_without_the_controller_io_there_are_none() -> None:
    machine = Machine()
    machine.starts(9, *PROXMOX, cgroup=SCOPE)
    machine.content |= {"sys/fs/cgroup/cgroup.controllers": b"cpu\n"}
    assert machine.look().guests[0].disks == ()
