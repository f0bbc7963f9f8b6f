"""Cgroups found by globs, in the hierarchies that a machine or a container has mounted."""

import logging
import os
from pathlib import Path

import pytest

from tests.support.refusals import assert_refused
from virtscope.perf.cgroups import Cgroups
from virtscope.toolkit import hierarchy
from virtscope.toolkit.collect import SourceUnavailable
from virtscope.toolkit.hierarchy import GlobError

PATHS = (
    *("/system.slice/docker-0123.scope", "/system.slice/docker-4567.scope/inner/most", "/system.slice/cron.service"),
    *("/machine.slice/machine-qemu\\x2d1\\x2dweb.scope/libvirt/vcpu0", "/machine.slice/4f2c1f0e-7a53-4c1b-9d7e"),
    *("/lxc/größe mit leer", "/user.slice/user-1000.slice/session-1.scope"),
)
CONTAINER = ["/lxc/größe mit leer"]


class Host:
    """A procfs, and a cgroup2 hierarchy with folders made by a test."""

    def __init__(self, folder: Path) -> None:
        self.procfs = folder / "proc"
        self.root = folder / "a mount"
        (self.procfs / "self").mkdir(parents=True)
        (self.procfs / "1").mkdir()
        self.shows("/")
        self.make(*PATHS)

    def shows(self, begins: str) -> None:
        """Mount the hierarchy from this cgroup on."""
        escaped = str(self.root).replace(" ", "\\040")
        self.mounts(f"31 23 0:28 {begins} {escaped} rw,nosuid shared:4 - cgroup2 cgroup2 rw")

    def mounts(self, *lines: str) -> None:
        (self.procfs / "self/mountinfo").write_text("".join(f"{line}\n" for line in lines))

    def make(self, *paths: str) -> None:
        for path in paths:
            (self.root / path.strip("/")).mkdir(parents=True)

    def found(self, *include: str, exclude: tuple[str, ...] = ()) -> list[str]:
        return [cgroup.path for cgroup in Cgroups(self.procfs, include, exclude).find()]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_glob_chooses_by_whole_names(host: Host) -> None:
    for glob, chosen in (
        ("/system.slice/docker-*.scope", ["/system.slice/docker-0123.scope", "/system.slice/docker-4567.scope"]),
        ("system.slice/cron.service/", ["/system.slice/cron.service"]),
        ("/*", ["/lxc", "/machine.slice", "/system.slice", "/user.slice"]),
        ("/system.slice/docker-[!0]*", ["/system.slice/docker-4567.scope"]),
        ("/machine.slice/machine-qemu\\x2d?\\x2dweb.scope", ["/machine.slice/machine-qemu\\x2d1\\x2dweb.scope"]),
        ("/lxc/* *", CONTAINER),
        ("/system.slice/**/most", ["/system.slice/docker-4567.scope/inner/most"]),
        ("/system.slice/**/cron.service", ["/system.slice/cron.service"]),  # ** matches the empty path
        ("/**/**/libvirt/**/vcpu0", ["/machine.slice/machine-qemu\\x2d1\\x2dweb.scope/libvirt/vcpu0"]),
        ("/slice", []),
        ("/system", []),
    ):
        assert host.found(glob) == chosen, glob
    for glob in ("", "//"):
        assert_refused(GlobError, r"/machine\.slice/\*", Cgroups, host.procfs, [glob], [])
    assert Cgroups(host.procfs / "none", [], ["/x"]).find() == []


def test_excluded_are_those_the_glob_names_and_what_is_in_them_only_by_stars(host: Host) -> None:
    docker, cron = [f"/system.slice/docker-4567.scope/{inner}" for inner in ("inner", "inner/most")], PATHS[2]
    left = ["/system.slice", cron, PATHS[0], *docker]
    assert host.found("/system.slice/**", exclude=("/system.slice/docker-4567.scope",)) == left
    assert host.found("/system.slice/**", exclude=("/**/docker-*/**", "/system.slice")) == [cron]


def test_symbolic_links_are_not_followed_and_a_name_that_is_not_utf_8_is_escaped(host: Host) -> None:
    (host.root / "link").symlink_to(host.root / "system.slice")
    assert host.found("/link", "/link/*") == []
    for name in (os.fsdecode(b"\xff"), "\\xff"):  # the second one couldn't be distinguished from the first
        (host.root / "lxc" / name).mkdir()
        assert host.found("/lxc/*") == ["/lxc/\\xff", *CONTAINER]


def test_the_folder_of_one_that_has_gone_is_not_another_one_s(host: Host) -> None:
    host.make("/lxc/b")
    found = Cgroups(host.procfs, ["/lxc/b"], [])
    (first,) = found.find()
    folder = found.open(first)
    assert os.fstat(folder).st_ino == first.inode
    os.close(folder)
    (host.root / "lxc/b").rename(host.root / "b")
    host.make("/lxc/b")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with pytest.raises(FileNotFoundError):
        found.open(first)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    (second,) = found.find()
    assert second.path == first.path
    assert second != first


def test_branches_that_no_glob_reaches_are_not_read(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise a branch's owner could break other counters: here with a path longer than PATH_MAX."""
    here = os.open(host.root / "user.slice", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("x" * 250, dir_fd=here)
        below = os.open("x" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    with caplog.at_level(logging.WARNING):
        assert host.found("/lxc/*") == CONTAINER
        assert caplog.records == []
        assert host.found("/**/vcpu0") == ["/machine.slice/machine-qemu\\x2d1\\x2dweb.scope/libvirt/vcpu0"]
        assert [record.message for record in caplog.records] == ["some cgroups were skipped"]


def test_the_hierarchy_that_perf_event_counts_by(host: Host) -> None:
    def version_1(at: str, controllers: str) -> str:
        return f"40 31 0:35 / {at} rw - cgroup cgroup rw,{controllers}"

    def version_2(root: str, at: str, source: str = "cgroup") -> str:
        return f"41 31 0:38 {root} {at} rw,relatime shared:9 - cgroup2 {source} rw,nsdelegate"

    v1_cpu = version_1("/c/cpu", "cpu")
    # A container's own part mounted before the host's hierarchy, and mounted again after it.
    own = [version_2("/docker/0123", "/part"), version_2("/", "/own"), version_2("/../..", "/host/sys/fs/cgroup")]
    for lines, chosen in (
        ([version_2("/", "/sys/fs/cgroup")], "/sys/fs/cgroup"),
        ([v1_cpu, version_2("/", "/c/unified", "none"), version_1("/c/perf", "net_cls,perf_event")], "/c/perf"),
        ([*own, version_2("/../../docker", "/other")], "/host/sys/fs/cgroup"),
        ([version_2("/", "/has\\040blank\\134")], "/has blank\\"),
    ):
        host.mounts("22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw", *lines)
        assert hierarchy.hierarchy(host.procfs, "perf_event").root == Path(chosen)
    host.mounts(v1_cpu)
    assert_refused(SourceUnavailable, "no cgroup2 is mounted", Cgroups(host.procfs, ["/x"], []).find)


def test_what_shows_only_a_part_of_the_host_is_said(host: Host) -> None:
    for mount, process_1, partial in (
        ("/", "0::/init.scope", False),
        ("/", "0::/../../init.scope", True),  # a container's own part
        ("/../..", "0::/../../init.scope", False),  # the host's, mounted into a container
        ("/", "4:cpu:/../../init.scope\n0::/", False),  # another hierarchy's
    ):
        (host.procfs / "1/cgroup").write_text(f"{process_1}\n")
        host.shows(mount)
        if partial:
            assert_refused(SourceUnavailable, "namespace of its own: give it the host's", host.found, "/lxc/*")
        else:
            assert host.found("/lxc/*") == CONTAINER, (mount, process_1)
