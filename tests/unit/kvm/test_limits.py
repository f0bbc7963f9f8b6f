"""Caps where they stand, weights and throttling, as libvirt, Proxmox and systemd make cgroups."""

from __future__ import annotations

import pytest

from tests.unit.kvm.captured import DEBIAN_12, DEBIAN_13, VERSION_1, files, recorded
from virtscope.kvm.limits import NOTHING, Cgroups, parse_path, parse_quota, parse_stat

SCOPE = "sys/fs/cgroup/qemu.slice/100.scope"
V2 = {"sys/fs/cgroup/cgroup.controllers": b"cpu\n"}


def cgroups(content: dict[str, bytes]) -> Cgroups:
    return Cgroups(recorded({**V2, **content}))


@pytest.mark.parametrize(
    ("host", "pids"), [(DEBIAN_12, (353, 384, 415)), (DEBIAN_13, (422, 457, 490))], ids=["6.1", "6.12"]
)
def test_libvirt_s_quotas_of_each_kind(host: str, pids: tuple[int, int, int]) -> None:
    """`virsh schedinfo`: db_1.prod has 20 % for each of two vCPUs and half the shares, capped 40 % in all."""
    groups = Cgroups(recorded(files(host)))
    plain, of_vcpus, of_all = (groups.find(pid, "libvirt") for pid in pids)
    assert plain.limits == (None, 100)
    assert groups.throttling(plain.throttles) == ()
    assert of_vcpus.limits == (0.4, 512)
    assert {each.part for each in groups.throttling(of_vcpus.throttles)} == {"vcpu", "emulator"}
    assert of_all.limits == (0.4, 100)
    assert [each.part for each in groups.throttling(of_all.throttles)] == ["all"]


def test_throttling_is_read_where_the_quota_stands() -> None:
    groups = Cgroups(recorded(files(DEBIAN_12, "t1")))
    (throttling,) = groups.throttling(groups.find(415, "libvirt").throttles)
    assert throttling == ("all", 1665, 1526, 87.959195)


def test_version_1_without_systemd() -> None:
    groups = Cgroups(recorded(files(VERSION_1)))
    capped = groups.find(712, "libvirt")
    assert capped.limits == (0.4, 1024)
    (throttling,) = groups.throttling(capped.throttles)
    assert (throttling.part, throttling.throttled_periods) == ("vcpu", 208)
    assert throttling.throttled_seconds == pytest.approx(7.895185897)


def test_proxmox_s_scope() -> None:
    groups = cgroups(
        {
            "proc/9/cgroup": b"0::/qemu.slice/100.scope\n",
            f"{SCOPE}/cpu.max": b"150000 100000\n",
            f"{SCOPE}/cpu.weight": b"100\n",
            f"{SCOPE}/cpu.stat": b"usage_usec 1\nnr_periods 7\nnr_throttled 3\nthrottled_usec 250000\n",
        }
    )
    found = groups.find(9, "proxmox")
    assert found.limits == (1.5, 100)
    assert groups.throttling(found.throttles) == (("all", 7, 3, 0.25),)


def test_the_smallest_cap_counts_those_above_too() -> None:
    groups = cgroups(
        {
            "proc/9/cgroup": b"0::/qemu.slice/100.scope\n",
            "sys/fs/cgroup/qemu.slice/cpu.max": b"50000 100000\n",
            f"{SCOPE}/cpu.max": b"150000 100000\n",
        }
    )
    assert groups.find(9, "proxmox").limits.cpus == 0.5


def test_of_quotas_for_some_vcpus_none_is_the_guest_s() -> None:
    top = "sys/fs/cgroup/machine.slice/a.scope"
    groups = cgroups(
        {
            "proc/9/cgroup": b"0::/machine.slice/a.scope/libvirt/emulator\n",
            f"{top}/libvirt/vcpu0/cpu.max": b"20000 100000\n",
            f"{top}/libvirt/vcpu1/cpu.max": b"max 100000\n",
        }
    )
    found = groups.find(9, "libvirt")
    assert found.limits.cpus is None
    assert [part for part, _ in found.throttles.groups] == ["vcpu"]


@pytest.mark.parametrize(("processes", "weight"), [(b"9\n", 300), (b"9\n10\n", None)])
def test_a_weight_is_the_guest_s_own_or_none(processes: bytes, weight: int | None) -> None:
    """A QEMU that somebody started stands in a unit of its own, or beside all else of a session."""
    folder = "sys/fs/cgroup/system.slice/web.service"
    content = {
        "proc/9/cgroup": b"0::/system.slice/web.service\n",
        f"{folder}/cgroup.procs": processes,
        f"{folder}/cpu.weight": b"300\n",
        f"{folder}/cpu.max": b"50000 100000\n",
    }
    found = cgroups(content).find(9, "qemu")
    assert found.limits == (0.5, weight)
    assert bool(found.throttles.groups) == (weight is not None)


def test_without_cgroups_there_is_nothing() -> None:
    assert cgroups({}).find(9, "qemu") == NOTHING
    assert cgroups({"proc/9/cgroup": b"0::/\n"}).find(9, "qemu").limits == (None, None)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (b"0::/a/b\n", ("a/b", False)),
        (b"4:cpu,cpuacct:/v1\n1:name=systemd:/x\n0::/v2\n", ("v1", True)),
        (b"3:cpuset:/x\n0::/v2\n", ("v2", False)),
        (b"3:cpuset:/x\n", None),
        (b"0::/../../machine.slice/a.scope\n", ("machine.slice/a.scope", False)),  # to a container
        (b"0::/..\n", ("", False)),
        (b"0::/..//b.scope\n", ("b.scope", False)),
        (b"", None),
    ],
)
def test_paths(text: bytes, path: tuple[str, bool] | None) -> None:
    assert parse_path(text) == path


def test_quotas_and_counters_that_say_nothing() -> None:
    assert [parse_quota(text) for text in (b"max 100000\n", b"-1\n 100000\n", b"", b"1 0", b"a b")] == [None] * 5
    assert parse_stat(b"usage_usec 5\n") is None
    assert parse_stat(b"nr_periods 2\nnr_throttled 1\nthrottled_time 500000000\n") == (2, 1, 0.5)
