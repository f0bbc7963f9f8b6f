"""Caps at every cgroup level, weights and throttling, in the cgroups of libvirt, Proxmox and systemd."""

import os
from pathlib import Path

import pytest

from tests.unit.kvm.captured import DEBIAN_12, files, recorded
from virtscope.kvm.exporter import HostView
from virtscope.kvm.limits import NOTHING, Cgroups, parse_path, parse_quota, parse_stat

V2 = {"sys/fs/cgroup/cgroup.controllers": b"cpu\n"}


def cgroups(content: dict[str, bytes]) -> Cgroups:
    return Cgroups(recorded({**V2, **content}))


def of_guest(path: str, **more: bytes) -> dict[str, bytes]:
    """Process 9 in this cgroup v2, whose files are named with _ instead of dots."""
    folder = f"sys/fs/cgroup{path}"
    return {"proc/9/cgroup": f"0::{path}\n".encode()} | {
        f"{folder}/{name.replace('_', '.')}": text for name, text in more.items()
    }


@pytest.mark.parametrize(
    ("top", "inner"),
    [
        (r"machine.slice/machine-qemu\x2d1\x2dweb.scope", "/libvirt"),
        (r"machine.slice/machine-rt.slice/machine-qemu\x2dweb.scope", ""),
        ("machine/qemu-1-web.libvirt-qemu", "/libvirt"),
        ("machine/rt.partition/qemu-1-web.libvirt-qemu", ""),
        ("libvirt/qemu/web", ""),
        ("a/cgroup/of/its/own", "/libvirt"),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_libvirt_s_vcpus_with_and_without_a_level_between(top: str, inner: str, version: int) -> None:
    """Two vCPUs of 0.25 CPUs, each throttled for 3 s."""
    root = "sys/fs/cgroup" if version == 2 else "sys/fs/cgroup/cpu"
    content = {f"{root}/{top}/cpu.{'weight' if version == 2 else 'shares'}": b"512\n"}
    for vcpu in (0, 1):
        folder = f"{root}/{top}{inner}/vcpu{vcpu}"
        if version == 2:
            content[f"{folder}/cpu.max"] = b"25000 100000\n"
            content[f"{folder}/cpu.stat"] = b"nr_periods 100\nnr_throttled 40\nthrottled_usec 3000000\n"
        else:
            content[f"{folder}/cpu.cfs_quota_us"], content[f"{folder}/cpu.cfs_period_us"] = b"25000\n", b"100000\n"
            content[f"{folder}/cpu.stat"] = b"nr_periods 100\nnr_throttled 40\nthrottled_time 3000000000\n"
    line = f"0::/{top}{inner}/emulator\n" if version == 2 else f"5:cpu,cpuacct:/{top}{inner}/emulator\n0::/x\n"
    groups = cgroups({"proc/9/cgroup": line.encode(), **content})
    found = groups.find(9)
    assert (found.limits, found.cgroup) == ((0.5, 512), f"/{top}")
    assert groups.throttling(found.throttles) == (("vcpu", 200, 80, 6.0),)


def test_proxmox_s_scope_and_the_smallest_cap_of_those_above() -> None:
    stat = b"usage_usec 1\nnr_periods 7\nnr_throttled 3\nthrottled_usec 250000\n"
    content = of_guest("/qemu.slice/100.scope", cpu_max=b"150000 100000\n", cpu_weight=b"100\n", cpu_stat=stat)
    groups = cgroups(content)
    found = groups.find(9)
    assert found.limits == (1.5, 100)
    assert groups.throttling(found.throttles) == (("all", 7, 3, 0.25),)
    assert cgroups({**content, "sys/fs/cgroup/qemu.slice/cpu.max": b"50000 100000\n"}).find(9).limits.cpus == 0.5


def test_guests_that_share_a_cgroup_have_its_cap_and_nothing_else() -> None:
    """A user's libvirt creates no cgroups: all guests are in its service, together with libvirtd."""
    service = "/user.slice/user-1000.slice/user@1000.service/session.slice/libvirtd.service"
    stat = b"nr_periods 100\nnr_throttled 40\nthrottled_usec 3000000\n"
    shared = {"cgroup_procs": b"700\n9\n810\n", "cpu_weight": b"100\n", "cpu_max": b"200000 100000\n", "cpu_stat": stat}
    groups = cgroups({**of_guest(service, **shared), "proc/810/cgroup": f"0::{service}\n".encode()})
    for pid in (9, 810):
        found = groups.find(pid)
        assert (found.limits, found.cgroup, groups.throttling(found.throttles)) == ((2.0, None), "", ())


def test_its_cgroup_is_called_as_other_exporters_call_it() -> None:
    for path, cgroup in (
        ("/kubepods.slice/kubepods-pod7.slice/cri-containerd-1.scope", "/kubepods.slice/kubepods-pod7.slice"),
        ("/lxc/shop/system.slice/web.service", "/lxc/shop/system.slice/web.service"),  # not alone in the container
        ("/system.slice/web.service", "/system.slice/web.service"),  # alone in it
        (f"/system.slice/{'w' * 600}.service", f"/system.slice/{'w' * 479}...46bd6febd36d455e"),
    ):
        assert cgroups(of_guest(path, cgroup_procs=b"9\n")).find(9).cgroup == cgroup, path


def in_a_namespace(tmp_path: Path, mount_begins: str, guest: str) -> Cgroups:
    """As seen by an exporter in a folder below /vs.slice/exporter.scope, where its cgroup namespace begins."""
    own, other = (tmp_path / f"{slice_}.slice/exporter.scope/in" for slice_ in ("vs", "other"))
    for folder, processes in ((own, os.getpid()), (other, 1)):
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text(f"{processes}\n")
    scope = of_guest("/vs.slice/guest.scope", cgroup_procs=b"9\n", cpu_weight=b"512\n", cpu_max=b"50000 100000\n")
    seen = {
        "proc/self/mountinfo": f"31 23 0:28 {mount_begins} {tmp_path} rw - cgroup2 cgroup2 rw\n".encode(),
        "proc/self/cgroup": b"0::/in\n",
        "proc/9/cgroup": f"0::{guest}\n".encode(),
        "sys/fs/cgroup/vs.slice/exporter.scope/guest/cpu.max": b"70000 100000\n",
    }
    return cgroups({**scope, **seen})


def test_a_guest_is_found_from_where_the_namespace_begins(tmp_path: Path) -> None:
    guests = {
        "/../guest.scope": (0.5, 512),
        "/../../vs.slice/guest.scope": (0.5, 512),
        "/guest": (0.7, None),  # in the exporter's own cgroup
    }
    for number, (guest, limits) in enumerate(guests.items()):
        groups = in_a_namespace(tmp_path / f"{number}", "/../..", guest)
        assert (groups.find(9).limits, groups.unseen) == (limits, ""), guest


def test_what_the_mount_does_not_show_is_said_and_nothing_is_guessed(tmp_path: Path) -> None:
    hidden = in_a_namespace(tmp_path / "a", "/", "/../guest.scope")
    above = in_a_namespace(tmp_path / "b", "/..", "/../../vs.slice/guest.scope")
    lost = in_a_namespace(tmp_path / "c", "/../..", "/../guest.scope")
    (tmp_path / "c/vs.slice/exporter.scope/in/cgroup.procs").write_text("")  # the exporter's own cgroup isn't found
    for groups in (hidden, above, lost):
        assert groups.find(9) == NOTHING
        assert "cgroup namespace" in groups.unseen


def test_the_source_s_detail_says_what_can_not_be_seen(tmp_path: Path) -> None:
    content = dict(files(DEBIAN_12))
    content["proc/self/mountinfo"] = f"31 23 0:28 / {tmp_path} rw - cgroup2 cgroup2 rw\n".encode()
    said = []
    for of_a_guest in (content["proc/353/cgroup"], b"0::/../guest.scope\n"):
        host = HostView(recorded(content | {"proc/353/cgroup": of_a_guest}), [])
        host.families(0)
        said.append(host.origin("/proc"))
    assert said[0] == "/proc"
    assert said[1].startswith("/proc; cgroups of guests can't be seen: the exporter is in a cgroup namespace")


def test_of_quotas_for_some_vcpus_none_is_the_guest_s() -> None:
    top = "sys/fs/cgroup/machine.slice/a.scope/libvirt"
    quotas = {f"{top}/vcpu0/cpu.max": b"20000 100000\n", f"{top}/vcpu1/cpu.max": b"max 100000\n"}
    found = cgroups(of_guest("/machine.slice/a.scope/libvirt/emulator") | quotas).find(9)
    assert found.limits.cpus is None
    assert [part for part, _ in found.throttles] == ["vcpu"]


def test_a_weight_is_the_guest_s_own_or_none() -> None:
    """A QEMU started by a user is in its own unit, or in the session with other processes."""
    for processes, weight in ((b"9\n", 300), (b"9\n10\n", None)):
        limited = {"cgroup_procs": processes, "cpu_weight": b"300\n", "cpu_max": b"50000 100000\n"}
        found = cgroups(of_guest("/system.slice/web.service", **limited)).find(9)
        assert (found.limits, bool(found.throttles)) == ((0.5, weight), weight is not None), processes


def test_without_cgroups_there_is_nothing() -> None:
    assert cgroups({}).find(9) == NOTHING
    assert cgroups({"proc/9/cgroup": b"0::/\n"}).find(9).limits == (None, None)


def test_paths_quotas_and_counters_that_say_nothing() -> None:
    paths = {
        b"4:cpu,cpuacct:/v1\n1:name=systemd:/x\n0::/v2\n": ("v1", True),
        b"3:cpuset:/x\n0::/v2\n": ("v2", False),
        b"3:cpuset:/x\n": None,
        b"0::/../../machine.slice/a.scope\n": ("../../machine.slice/a.scope", False),  # as seen in a container
        b"0::/\n": ("", False),
    }
    assert {text: parse_path(text) for text in paths} == paths
    assert [parse_quota(text) for text in (b"max 100000\n", b"-1\n 100000\n", b"", b"1 0", b"a b")] == [None] * 5
    assert parse_stat(b"usage_usec 5\n") is None
