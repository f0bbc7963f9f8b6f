"""Cgroups of both versions on a made-up tree: written files, and errors if something can't be limited."""

import shutil
from pathlib import Path

import pytest

from lab.cgroups import Cgroup, CgroupError, Hierarchies, TierLimits, parse_mounts, settings
from tests.support.refusals import assert_refused

UNIFIED = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
# systemd's hybrid layout.
HYBRID = """\
30 23 0:27 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:28 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw
32 30 0:29 / /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup rw,xattr,name=systemd
36 30 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:15 - cgroup cgroup rw,cpu,cpuacct
37 30 0:34 / /sys/fs/cgroup/cpuset rw,nosuid shared:16 - cgroup cgroup rw,cpuset
38 30 0:35 / /sys/fs/cgroup/memory rw,nosuid shared:17 - cgroup cgroup rw,memory
39 30 0:36 / /sys/fs/cgroup/perf_event rw,nosuid shared:18 - cgroup cgroup rw,perf_event
"""
SYS = Path("/sys/fs/cgroup")


class Kernel:
    """A cgroup v2 tree in which new folders get the kernel's files."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        original = Path.mkdir

        def mkdir(folder: Path, **options: bool) -> None:
            there = folder.exists()
            original(folder, **options)
            if not there and root in folder.parents:
                self._fill(folder)

        monkeypatch.setattr(Path, "mkdir", mkdir)
        self._fill(root)

    def _fill(self, folder: Path) -> None:
        (folder / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        (folder / "cgroup.procs").write_text("")
        (folder / "cpu.stat").write_text("usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\n")
        (folder / "cpuset.cpus.effective").write_text("0-3\n")

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def cgroup(self, name: str, limits: TierLimits) -> Cgroup:
        made = Cgroup(name, Hierarchies(self.root, {}))
        made.make(limits)
        return made


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(tmp_path, monkeypatch)


def test_hierarchies_are_found_among_the_mounts() -> None:
    unified, hybrid = parse_mounts(UNIFIED), parse_mounts(HYBRID)
    assert unified == Hierarchies(SYS, {})
    assert (unified.version, unified.roots) == (2, (SYS,))
    assert hybrid.version == 1
    assert hybrid.by_controller["cpu"] == hybrid.by_controller["cpuacct"] == SYS / "cpu,cpuacct"
    assert hybrid.roots[0] == SYS / "unified"
    assert set(hybrid.roots[1:]) == {SYS / name for name in ("cpu,cpuacct", "cpuset", "memory", "perf_event")}
    # Version 1 controllers that limit nothing leave version 2 in charge.
    net = "40 30 0:37 / /sys/fs/cgroup/net_cls rw - cgroup cgroup rw,net_cls\n"
    perf = "41 30 0:38 / /sys/fs/cgroup/perf_event rw - cgroup cgroup rw,perf_event\n"
    assert parse_mounts(net + perf + UNIFIED) == unified
    disk, without = "23 1 8:1 / / rw - ext4 /dev/sda1 rw\n", HYBRID.replace("cgroup rw,cpuset", "cgroup rw,net_cls")
    assert_refused(CgroupError, "no cgroups are mounted: mount -t cgroup2", parse_mounts, disk)
    assert_refused(CgroupError, "lacks a mount of cpuset", parse_mounts, without)


def test_same_limits_in_the_words_of_either_version() -> None:
    limits = TierLimits(cpu_weight=200, cap=0.25, cpus="0-1")
    words = {version: [f"{name}={value}" for _, name, value in settings(limits, version)] for version in (1, 2)}
    assert words == {
        1: ["cpu.shares=2048", "cpu.cfs_period_us=20000", "cpu.cfs_quota_us=5000", "cpuset.cpus=0-1"],
        2: ["cpu.weight=200", "cpu.max=5000 20000", "cpuset.cpus=0-1"],
    }
    assert ("cpu", "cpu.max", "max 20000") in settings(TierLimits(), 2)  # resets the limit
    assert ("cpu", "cpu.cfs_quota_us", "-1") in settings(TierLimits(), 1)


def test_version_2_cgroup_is_made_with_its_limits_and_its_parents_controllers(kernel: Kernel) -> None:
    made = kernel.cgroup("web", TierLimits(cpu_weight=50, cap=0.5, cpus="1"))
    for parent in (".", "virtscope"):
        assert kernel.read(f"{parent}/cgroup.subtree_control") == "+cpu +cpuset +memory +io"
    limits = {"cpu.weight": "50", "cpu.max": "10000 20000", "cpuset.cpus": "1"}
    assert {name: kernel.read(f"virtscope/web/{name}") for name in limits} == limits
    (kernel.root / "virtscope/web/cpu.weight").write_text("as it was")
    made.cap(0.2)  # and no other setting
    assert (kernel.read("virtscope/web/cpu.max"), kernel.read("virtscope/web/cpu.weight")) == (
        "4000 20000",
        "as it was",
    )
    null = Path("/dev/null")  # a device that every machine has, with the same number
    made.throttle(null, 20)
    assert kernel.read("virtscope/web/io.max") == "1:3 riops=20"
    made.throttle(null, None)
    assert kernel.read("virtscope/web/io.max") == "1:3 riops=max"
    made.limit(TierLimits())
    assert kernel.read("virtscope/web/cpuset.cpus") == "0-3"
    assert made.cpu_seconds() == pytest.approx(1.234567)


def test_another_run_that_ends_may_take_away_their_parent(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Path] = []
    mkdir = Path.mkdir

    def just_before(folder: Path, **options: bool) -> None:
        if folder.name == "web" and not ended:
            ended.append(folder)
            shutil.rmtree(folder.parent)
        mkdir(folder, **options)

    monkeypatch.setattr(Path, "mkdir", just_before)
    kernel.cgroup("web", TierLimits(cap=0.2))
    assert ended
    assert kernel.read("virtscope/web/cpu.max") == "4000 20000"


def test_virtual_servers_compete_with_the_machine_one_by_one(kernel: Kernel) -> None:
    web = kernel.cgroup("web", TierLimits(cpu_weight=300))
    assert kernel.read("virtscope/cpu.weight") == "300"
    kernel.cgroup("db", TierLimits())
    assert kernel.read("virtscope/cpu.weight") == "400"
    web.limit(TierLimits(cpu_weight=10_000))
    assert kernel.read("virtscope/cpu.weight") == "10000"


def test_what_the_kernel_lacks_or_refuses_is_named_with_what_to_do(kernel: Kernel) -> None:
    made = kernel.cgroup("web", TierLimits())
    file = kernel.root / "virtscope/web/cpu.max"
    file.unlink()
    file.mkdir()
    words = rf"writing '2000 20000' to {file}: Is a directory; cgroups need root"
    assert_refused(CgroupError, words, made.limit, TierLimits(cap=0.1))
    (kernel.root / "cgroup.controllers").write_text("cpu memory\n")
    words = rf"{kernel.root}/cgroup\.controllers lacks cpuset: the lab needs"
    assert_refused(CgroupError, words, kernel.cgroup, "db", TierLimits())
