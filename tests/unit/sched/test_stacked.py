"""Which block devices are above another disk."""

from pathlib import Path

import pytest

from virtscope.sched.stacked import is_above_a_disk

MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:40 / /tmp rw,nosuid - tmpfs tmpfs rw
24 22 0:41 / /mnt/a\040store rw - fuse.sshfs u@far: rw
25 22 0:42 / /data rw - btrfs /dev/sdb rw,subvol=/
26 25 0:43 / /data/nbd rw - fuse nbd rw
27 22 0:44 / /hidden rw - tmpfs tmpfs rw
28 22 8:2 / /hidden rw - xfs /dev/sda2 rw
29 22 0:45 / /tmp/deep rw - fuseblk /dev/sdc1 rw
30 22 0:25 /systemd/inaccessible/dir /home ro,nosuid shared:7 - tmpfs tmpfs rw,mode=755
"""


@pytest.mark.parametrize(
    ("file", "above"),
    [
        ("/var/lib/images/a.img", True),
        ("/tmp/a.img", False),
        ("/tmpfs.img", True),
        ("/mnt/a store/a.img", False),
        ("/data/a.img", True),
        ("/data/nbd/nbd", False),
        ("/hidden/a.img", True),
        ("/tmp/deep/a.img", True),
        ("/home/u/a.img", True),
    ],
)
def test_a_loop_device_is_where_its_file_is_on_a_disk(tmp_path: Path, file: str, *, above: bool) -> None:
    device = tmp_path / "loop0"
    (device / "loop").mkdir(parents=True)
    (device / "loop/backing_file").write_text(f"{file}\n")
    assert is_above_a_disk(device, MOUNTS) is above
    assert is_above_a_disk(device, "\n"), "mounts of another namespace: no second count"


def test_device_mapper_is_and_disks_are_not(tmp_path: Path) -> None:
    """A loop device that is detached isn't shown with what it has served before."""
    devices = {"dm-0": True, "loop7": True, "sda": False, "nvme0n1": False}
    assert {name: is_above_a_disk(tmp_path / name, MOUNTS) for name in devices} == devices
