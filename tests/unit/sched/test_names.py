"""Whose a cgroup is: a container's, a guest's, a chosen one's, a unit's or the host's."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from virtscope.sched.names import HOST, Name, Names
from virtscope.toolkit import hierarchy
from virtscope.toolkit.collect import SourceUnavailable
from virtscope.toolkit.hierarchy import Folders

RULES = Path(__file__).resolve().parents[3] / "prometheus/rules/cgroup.yml"
ID = "4f2c" * 16
GUEST = r"/machine.slice/machine-qemu\x2d1\x2dweb.scope"


def there(root: Path, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> Names:
    return Names(root, Folders(include, exclude, all_of_them=True))


def names(root: Path, *paths: str, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> dict[str, Name]:
    """Whose each of these cgroups is, by its path; all of them are made."""
    for path in paths:
        (root / path.strip("/")).mkdir(parents=True, exist_ok=True)
    found = there(root, include, exclude).find().names
    return {path: found[(root / path.strip("/")).stat().st_ino] for path in paths}


CONTAINERS = (
    (f"/docker/{ID}", f"/docker/{ID}"),
    (f"/docker/{ID}/system.slice/cron.service", f"/docker/{ID}"),
    (f"/system.slice/docker-{ID}.scope/init", f"/system.slice/docker-{ID}.scope"),
    (f"/machine.slice/libpod-{ID}.scope", f"/machine.slice/libpod-{ID}.scope"),
    ("/lxc/101/ns/user.slice", "/lxc/101"),
    ("/lxc.payload.web/init.scope", "/lxc.payload.web"),
    ("/machine.slice/systemd-nspawn@a.service/payload", "/machine.slice/systemd-nspawn@a.service"),
    (f"{GUEST}/libvirt", GUEST),
    ("/machine/qemu-1-web.libvirt-qemu/vcpu0", "/machine/qemu-1-web.libvirt-qemu"),
    ("/qemu.slice/100.scope", "/qemu.slice/100.scope"),
    (
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7.slice/crio-{ID}.scope",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7.slice",
    ),
    ("/virtscope/shop-web", "/virtscope/shop-web"),
)


@pytest.mark.parametrize(("path", "whose"), CONTAINERS)
def test_containers_and_guests_are_the_outermost(tmp_path: Path, path: str, whose: str) -> None:
    assert names(tmp_path, path)[path] == Name(whose, whose)


@pytest.mark.parametrize(("path", "whose"), [each for each in CONTAINERS if "qemu.slice" not in each[0]])
def test_the_rules_know_the_same_containers(path: str, whose: str) -> None:
    """So that what waits is joined with what cAdvisor has; guests of Proxmox are joined by kvm-exporter's metrics."""
    (written,) = re.findall(r"'part', 'container\$1', 'id',\s*'(/.*?)'\n", RULES.read_text(), re.DOTALL)
    found = re.fullmatch(re.sub(r"\\\n\s*", "", written), path)
    assert found
    assert path.removesuffix(found[1] or "") == whose


UNITS = (
    ("/system.slice/backup.service", "/system.slice/backup.service"),
    ("/system.slice/system-getty.slice/getty@tty1.service", "/system.slice/system-getty.slice/getty@tty1.service"),
    ("/system.slice/containerd.service/inner", "/system.slice/containerd.service"),
    ("/user.slice/user-1000.slice/session-4.scope", "/user.slice/user-1000.slice"),
    ("/init.scope", "/init.scope"),
    ("/system.slice", HOST),
    ("/some/folder", HOST),
    ("/lxc.monitor.web", HOST),
)


@pytest.mark.parametrize(("path", "whose"), UNITS)
def test_units_are_named_but_their_own_waiting_is_the_hosts(tmp_path: Path, path: str, whose: str) -> None:
    assert names(tmp_path, path)[path] == Name(HOST, whose)


def test_chosen_cgroups_are_shown_as_containers_are(tmp_path: Path) -> None:
    shop, inner, cron = "/system.slice/shop.service", "/system.slice/shop.service/worker", "/system.slice/cron.service"
    found = names(tmp_path, shop, inner, cron, include=("/system.slice/*.service",), exclude=("/**/cron.service",))
    assert found == {shop: Name(shop, shop), inner: Name(shop, shop), cron: Name(HOST, cron)}


def test_of_a_libvirt_guest_the_vcpus_wait_and_all_of_it_runs(tmp_path: Path) -> None:
    vcpus = [f"{GUEST}/libvirt/vcpu{number}" for number in (0, 12)]
    others = [f"{GUEST}/libvirt/emulator", f"{GUEST}/libvirt/iothread1", GUEST]
    found = names(tmp_path, *others, *vcpus)
    assert found == dict.fromkeys(vcpus, Name(GUEST, GUEST)) | dict.fromkeys(others, Name(HOST, GUEST))


def test_a_container_can_t_hide_its_waiting_by_a_cgroup_called_as_a_vcpu_s(tmp_path: Path) -> None:
    web = f"/docker/{ID}"
    assert names(tmp_path, f"{web}/vcpu0", f"{web}/worker")[f"{web}/worker"] == Name(web, web)


def test_what_is_shown_and_what_may_run(tmp_path: Path) -> None:
    for path in ("lxc/web/init", "system.slice/cron.service", "system.slice/ssh.service"):
        (tmp_path / path).mkdir(parents=True)
    found = there(tmp_path, include=("/system.slice/ssh.service",)).find()
    assert found.shown == {HOST, "/lxc/web", "/system.slice/ssh.service"}
    assert found.running == {HOST, "/lxc/web", "/system.slice/ssh.service", "/system.slice/cron.service"}


def test_what_is_not_utf_8_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "lxc").mkdir()
    folder = tmp_path / "lxc" / b"gr\xf6\xdfe".decode("utf-8", "surrogateescape")
    (folder / "in").mkdir(parents=True)
    found = there(tmp_path).find().names
    assert found[folder.stat().st_ino].waiting == found[(folder / "in").stat().st_ino].waiting == r"/lxc/gr\xf6\xdfe"


def test_the_root_is_the_hosts(tmp_path: Path) -> None:
    assert there(tmp_path).find().names == {tmp_path.stat().st_ino: Name(HOST, HOST)}


def test_a_hierarchy_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="No such file or directory"):
        there(tmp_path / "gone").find()


def test_too_many_cgroups_are_left_out_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(20):
        (tmp_path / f"lxc/{number}/inner").mkdir(parents=True)
    every = there(tmp_path)
    assert len(every.find().names) == 42
    monkeypatch.setattr(hierarchy, "MOST_FOLDERS", 10)
    with caplog.at_level(logging.WARNING):
        assert len(every.find().names) < 42
        every.find()
    assert [record.message for record in caplog.records] == ["not every cgroup was looked at"]
