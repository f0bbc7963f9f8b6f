"""Which cgroups are found, by which globs, in which of the hierarchies that a machine or a container has mounted."""

from __future__ import annotations

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
    "/system.slice/docker-0123.scope",
    "/system.slice/docker-4567.scope/inner/most",
    "/system.slice/cron.service",
    "/machine.slice/machine-qemu\\x2d1\\x2dweb.scope/libvirt/vcpu0",
    "/machine.slice/4f2c1f0e-7a53-4c1b-9d7e-2b6a5c0f9e11",
    "/lxc/größe mit leer",
    "/user.slice/user-1000.slice/session-1.scope",
)


class Host:
    """A procfs, and a cgroup2 hierarchy with folders of a test's own."""

    def __init__(self, folder: Path) -> None:
        self.procfs = folder / "proc"
        self.root = folder / "a mount"
        (self.procfs / "self").mkdir(parents=True)
        self.root.mkdir()
        escaped = str(self.root).replace(" ", "\\040")
        self.mounts(f"31 23 0:28 / {escaped} rw,nosuid shared:4 - cgroup2 cgroup2 rw")

    def mounts(self, *lines: str) -> None:
        (self.procfs / "self/mountinfo").write_text("".join(f"{line}\n" for line in lines))

    def make(self, *paths: str) -> None:
        for path in paths:
            (self.root / path.strip("/")).mkdir(parents=True)

    def found(self, *include: str, exclude: tuple[str, ...] = ()) -> list[str]:
        return [cgroup.path for cgroup in Cgroups(self.procfs, include, exclude).find()]


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path)
    host.make(*PATHS)
    return host


def test_a_glob_chooses_by_whole_names(host: Host) -> None:
    for glob, chosen in (
        ("/system.slice/docker-*.scope", ["/system.slice/docker-0123.scope", "/system.slice/docker-4567.scope"]),
        ("system.slice/cron.service/", ["/system.slice/cron.service"]),
        ("/*", ["/lxc", "/machine.slice", "/system.slice", "/user.slice"]),
        ("/system.slice/docker-[!0]*", ["/system.slice/docker-4567.scope"]),
        ("/machine.slice/machine-qemu\\x2d?\\x2dweb.scope", ["/machine.slice/machine-qemu\\x2d1\\x2dweb.scope"]),
        ("/lxc/* *", ["/lxc/größe mit leer"]),
        ("/**/inner", ["/system.slice/docker-4567.scope/inner"]),
        ("/system.slice/**/most", ["/system.slice/docker-4567.scope/inner/most"]),
        ("/system.slice/**/cron.service", ["/system.slice/cron.service"]),  # ** may stand for nothing
        ("/**/**/libvirt/**/vcpu0", ["/machine.slice/machine-qemu\\x2d1\\x2dweb.scope/libvirt/vcpu0"]),
        ("/user.slice", ["/user.slice"]),
        ("/slice", []),
        ("/system", []),
    ):
        assert host.found(glob) == chosen, glob


def test_excluded_are_those_the_glob_names_and_what_is_in_them_only_by_stars(host: Host) -> None:
    assert host.found("/system.slice/**", exclude=("/system.slice/docker-4567.scope",)) == [
        "/system.slice",
        "/system.slice/cron.service",
        "/system.slice/docker-0123.scope",
        "/system.slice/docker-4567.scope/inner",
        "/system.slice/docker-4567.scope/inner/most",
    ]
    assert host.found("/system.slice/**", exclude=("/**/docker-*/**", "/system.slice")) == [
        "/system.slice/cron.service"
    ]


def test_nothing_is_asked_for_where_no_glob_is_given(tmp_path: Path) -> None:
    assert Cgroups(tmp_path / "no proc", [], ["/x"]).find() == []


def test_a_glob_without_a_name_is_refused(tmp_path: Path) -> None:
    for glob in ("", "/", "//"):
        assert_refused(GlobError, r"/machine\.slice/\*", Cgroups, tmp_path, [glob], [])


def test_symbolic_links_are_not_followed(host: Host) -> None:
    (host.root / "link").symlink_to(host.root / "system.slice")
    assert host.found("/link", "/link/*") == []


def test_a_name_that_is_not_utf_8_is_escaped(host: Host) -> None:
    (host.root / "lxc" / os.fsdecode(b"\xff")).mkdir()
    assert host.found("/lxc/*") == ["/lxc/\\xff", "/lxc/größe mit leer"]
    (host.root / "lxc" / "\\xff").mkdir()  # by its name nothing could tell it from the first
    assert host.found("/lxc/*") == ["/lxc/\\xff", "/lxc/größe mit leer"]


def test_the_folder_of_one_that_has_gone_is_not_another_one_s(host: Host) -> None:
    host.make("/lxc/b")
    found = Cgroups(host.procfs, ["/lxc/b"], [])
    (first,) = found.find()
    folder = found.open(first)
    assert os.fstat(folder).st_ino == first.inode
    os.close(folder)
    (host.root / "lxc/b").rename(host.root / "b")
    with pytest.raises(FileNotFoundError):
        found.open(first)
    host.make("/lxc/b")
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        found.open(first)
    assert descriptors() == before
    (second,) = found.find()
    assert second.path == first.path
    assert second != first


def test_branches_that_no_glob_reaches_are_not_read(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    """So whoever owns a branch can't break what is counted elsewhere: here by a path longer than a path can be."""
    deep = host.root / "user.slice"
    here = os.open(deep, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("x" * 250, dir_fd=here)
        below = os.open("x" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    with caplog.at_level(logging.WARNING):
        assert host.found("/lxc/*") == ["/lxc/größe mit leer"]
        assert caplog.records == []
        assert host.found("/**/vcpu0") == ["/machine.slice/machine-qemu\\x2d1\\x2dweb.scope/libvirt/vcpu0"]
        assert [record.message for record in caplog.records] == ["not every cgroup was looked at"]


def test_however_many_there_are_the_walk_ends_and_the_upper_ones_are_found(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host.make(*(f"/lxc/nest/{number}/in" for number in range(50)))
    monkeypatch.setattr(hierarchy, "MOST_FOLDERS", 20)
    found = Cgroups(host.procfs, ["/**"], [])
    with caplog.at_level(logging.WARNING):
        upper = [cgroup.path for cgroup in found.find() if cgroup.path.count("/") < 3]
        found.find()
    assert upper == host.found("/*", "/*/*")
    assert [record.message for record in caplog.records] == ["not every cgroup was looked at"]  # said once


V1 = "40 31 0:35 {root} {at} rw - cgroup cgroup rw,{controllers}"
V2 = "41 31 0:38 {root} {at} rw,relatime shared:9 - cgroup2 {source} rw,nsdelegate"


def test_the_hierarchy_that_perf_event_counts_by(tmp_path: Path) -> None:
    host = Host(tmp_path)
    v1_cpu = V1.format(root="/", at="/c/cpu", controllers="cpu")
    v1_perf = V1.format(root="/", at="/c/perf", controllers="net_cls,perf_event")
    for lines, chosen in (
        ([V2.format(root="/", at="/sys/fs/cgroup", source="cgroup2")], "/sys/fs/cgroup"),
        ([v1_cpu, V2.format(root="/", at="/c/unified", source="none"), v1_perf], "/c/perf"),
        # A container's own part of it mounted before the host's whole one, and once more behind that.
        (
            [
                V2.format(root="/docker/0123", at="/part", source="cgroup"),
                V2.format(root="/", at="/own", source="cgroup"),
                V2.format(root="/../..", at="/host/sys/fs/cgroup", source="cgroup"),
                V2.format(root="/../../docker", at="/other", source="cgroup"),
            ],
            "/host/sys/fs/cgroup",
        ),
        ([V2.format(root="/", at="/has\\040blank\\134", source="x")], "/has blank\\"),
    ):
        host.mounts("22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw", *lines)
        assert hierarchy.hierarchy(host.procfs, "perf_event").root == Path(chosen)
    for lines in ([], [v1_cpu]):
        host.mounts(*lines)
        assert_refused(SourceUnavailable, "no cgroup2 is mounted", Cgroups(host.procfs, ["/x"], []).find)


def test_what_shows_only_a_part_of_the_host_is_said(host: Host) -> None:
    (host.procfs / "1").mkdir()
    escaped = str(host.root).replace(" ", "\\040")
    for mount, process_1, partial in (
        ("/", "0::/init.scope", False),
        ("/", "0::/../../init.scope", True),  # a container's own part
        ("/../..", "0::/../../init.scope", False),  # the host's, mounted into a container
        ("/", "4:cpu:/../../init.scope\n0::/", False),  # of another hierarchy
    ):
        (host.procfs / "1/cgroup").write_text(f"{process_1}\n")
        host.mounts(f"31 23 0:28 {mount} {escaped} rw,nosuid shared:4 - cgroup2 cgroup2 rw")
        if partial:
            words = "cgroup namespace of its own: give it the host's"
            assert_refused(SourceUnavailable, words, host.found, "/lxc/*")
        else:
            assert host.found("/lxc/*") == ["/lxc/größe mit leer"], (mount, process_1)
