"""The owner of a cgroup: a container, a guest, a chosen cgroup, a unit or the host."""

import logging
import os
from pathlib import Path

import pytest

from virtscope.sched.names import HOST, REST, Name, Names
from virtscope.toolkit import hierarchy
from virtscope.toolkit.collect import SourceUnavailable
from virtscope.toolkit.hierarchy import Folders

ID = "4f2c" * 16
GUEST = r"/machine.slice/machine-qemu\x2d1\x2dweb.scope"


def there(root: Path, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> Names:
    return Names(root, Folders(include, exclude, all_of_them=True), vcpus_alone=True)


def names(root: Path, *paths: str, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> dict[str, Name]:
    """The owners of these cgroups by path; all of them are created."""
    for path in paths:
        (root / path.strip("/")).mkdir(parents=True, exist_ok=True)
    found = there(root, include, exclude).find().names
    return {path: found[(root / path.strip("/")).stat().st_ino] for path in paths}


def own(path: str) -> Name:
    """A container or guest: it waits and runs as itself."""
    return Name(path, path)


def test_containers_and_guests_are_the_outermost_and_the_waiting_of_all_else_is_the_host_s(tmp_path: Path) -> None:
    pod = "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod7.slice"
    getty = "/system.slice/system-getty.slice/getty@tty1.service"
    owners = {
        f"/docker/{ID}/lxc/web": own(f"/docker/{ID}"),
        f"{pod}/crio-{ID}.scope": own(pod),
        **dict.fromkeys(("/default/web", "/default/web/in"), own("/default/web")),
        # Only the vCPUs of a libvirt guest wait; a container can't hide its waiting by such a name.
        **dict.fromkeys((f"{GUEST}/libvirt/vcpu0", f"{GUEST}/libvirt/vcpu12"), own(GUEST)),
        **dict.fromkeys((GUEST, f"{GUEST}/libvirt/emulator", f"{GUEST}/libvirt/iothread1"), Name(HOST, GUEST)),
        **dict.fromkeys(("/lxc/shop/vcpu0", "/lxc/shop/worker"), own("/lxc/shop")),
        getty: Name(HOST, getty),
        "/system.slice/containerd.service/inner": Name(HOST, "/system.slice/containerd.service"),
        "/user.slice/user-1000.slice/session-4.scope": Name(HOST, "/user.slice/user-1000.slice"),
        "/init.scope": Name(HOST, "/init.scope"),
        **dict.fromkeys(("/system.slice", "/some/folder", "/lxc.monitor.web"), Name(HOST, HOST)),
    }
    assert names(tmp_path, *owners) == owners
    whole = Names(tmp_path, Folders((), (), all_of_them=True), vcpus_alone=False).find()
    assert whole.names[(tmp_path / f"{GUEST}/libvirt/emulator".strip("/")).stat().st_ino] == own(GUEST), "its disk I/O"


def test_chosen_cgroups_are_shown_as_containers_are(tmp_path: Path) -> None:
    shop, inner, cron = "/system.slice/shop.service", "/system.slice/shop.service/worker", "/system.slice/cron.service"
    chosen = {"include": ("/system.slice/*.service",), "exclude": ("/**/cron.service",)}
    found = names(tmp_path, "/lxc/web/init", shop, inner, cron, **chosen)
    assert found == {"/lxc/web/init": own("/lxc/web"), shop: own(shop), inner: own(shop), cron: Name(HOST, cron)}
    shown = there(tmp_path, **chosen).find()
    assert shown.shown == {HOST, "/lxc/web", shop}
    assert shown.running == {HOST, "/lxc/web", shop, cron}


def test_a_long_name_is_cut_and_stays_one_of_its_own(tmp_path: Path) -> None:
    """As shell arguments, 250 bytes that aren't UTF-8 become 1,000, and four of these exceed Prometheus's limit."""
    deep = os.fsdecode(b"/user.slice" + 3 * (b"/" + b"\xff" * 250))
    found = names(tmp_path, f"{deep}/lxc/a", f"{deep}/lxc/b", f"{deep}/lxc/a/in")
    a, b, inside = (name.waiting for name in found.values())
    assert a == inside != b
    assert len(a.encode()) == len(b.encode()) == 512
    assert a.startswith(r"/user.slice/\xff\xff")


def test_a_user_s_many_containers_are_in_the_rest_and_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of 4 places the user, who has 6 cgroups, gets the remaining ones: the 2 other users' are shown."""
    monkeypatch.setattr("virtscope.sched.names.MAX_SHOWN", 4)
    flood = [f"/user.slice/user-1000.slice/{folder}/{number:064x}" for folder in "xyz" for number in (1, 2)]
    others = [f"/docker/{ID}", "/user.slice/user-1001.slice/app.slice/lxc.payload.web"]
    with caplog.at_level(logging.WARNING):
        found = names(tmp_path, *flood, f"{flood[-1]}/in", *others)
        again = there(tmp_path).find()
    assert [found[path] for path in others] == [own(path) for path in others]
    assert sorted(found[path].waiting for path in flood)[:4] == [REST] * 4
    assert found[f"{flood[-1]}/in"] == found[flood[-1]]
    assert len(again.shown - {HOST, REST}) == 4
    assert [record.__dict__["fields"]["left_out"] for record in caplog.records] == [4, 4]


def test_long_names_of_a_user_are_in_the_rest_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for 400 bytes: 9 for the short name, and 1 of 211."""
    monkeypatch.setattr("virtscope.sched.names.MAX_NAMES_BYTES", 400)
    long = [f"/user.slice/user-1000.slice/{'w' * 178}/lxc/{number}" for number in range(3)]
    found = names(tmp_path, *long, "/lxc/shop")
    assert found["/lxc/shop"].waiting == "/lxc/shop"
    assert sorted(found[path].waiting == REST for path in long) == [False, True, True]


def test_a_container_with_too_many_cgroups_has_no_other_one_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        (tmp_path / f"lxc/flood/{number}/inner").mkdir(parents=True)
    others = ["/user.slice/user-1.slice/user@1.service/app.slice/lxc.payload.a/init", f"/docker/{ID}/a/b/c"]
    for path in others:
        (tmp_path / path[1:]).mkdir(parents=True)
    monkeypatch.setattr(hierarchy, "MAX_FOLDERS", 40)
    found = there(tmp_path).find().names
    assert len(found) == 40
    assert all((tmp_path / path[1:]).stat().st_ino in found for path in others)


def test_a_hierarchy_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="No such file or directory"):
        there(tmp_path / "gone").find()
