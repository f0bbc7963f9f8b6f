"""Commands for each manager, with names that a shell must not read."""

from typing import Any

import pytest

from advise.commands import PCT, QM, VIRSH, VZ, XL, Managed, Managers, cap, move, vcpus
from advise.reading import Place, Reading
from advise.seen import Guest
from deploy.api import Api

INFO: dict[str, list[dict[str, str]]] = {
    "xen_domain_info": [
        {"host": "x", "domain": "a", "cpupool": "Pool-0"},
        {"host": "x", "domain": "b", "cpupool": "old"},
        {"host": "y", "domain": "a", "cpupool": "old"},
        {"host": "x", "domain": "c"},  # without xl
    ],
    "xen_cpupool_info": [
        {"host": "x", "cpupool": "Pool-0", "scheduler": "credit2"},
        {"host": "x", "cpupool": "old", "scheduler": "credit"},
        {"host": "y", "cpupool": "old", "scheduler": "rtds"},
    ],
    "kvm_guest_info": [
        {"host": "k", "guest": "a", "manager": "libvirt", "id": "3"},
        {"host": "k", "guest": "b", "manager": "proxmox", "id": "101"},
        {"host": "k", "guest": "c", "manager": "", "id": ""},
    ],
    "kvm_container_info": [{"host": "k", "container": "d", "id": "102"}],
}


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (XL, "xl migrate 'web 1' xen2"),
        (VIRSH, "virsh migrate --live --persistent --undefinesource 'web 1' qemu+ssh://xen2/system"),
        (QM, "qm migrate 'web 1' xen2 --online"),
        (PCT, "pct migrate 'web 1' xen2 --restart"),
        (VZ, "vzmigrate --online xen2 'web 1'"),
    ],
)
def test_a_move(by: str, expected: str) -> None:
    assert move(Managed(by, "web 1"), "xen2") == expected


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (XL, "xl sched-credit2 --domain=web --cap=25"),
        (VIRSH, "virsh schedinfo web --live global_period=100000 global_quota=25000"),
        (QM, "qm set web --cpulimit 0.25"),
        (PCT, "pct set web --cpulimit 0.25"),
        (VZ, "vzctl set web --cpulimit 25 --save"),
    ],
)
def test_a_cap(by: str, expected: str) -> None:
    assert cap(Managed(by, "web"), 0.25) == expected


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (XL, "xl vcpu-set web 4"),
        (VIRSH, "virsh setvcpus web 4 --live --config"),
        (QM, "qm set web --vcpus 4"),
        (VZ, None),
    ],
)
def test_vcpus(by: str, expected: str | None) -> None:
    assert vcpus(Managed(by, "web"), 4) == expected


@pytest.mark.parametrize(
    ("scheduler", "expected"), [("credit", "xl sched-credit --domain=web --cap=25"), ("rtds", None), ("null", None)]
)
def test_a_cap_with_xens_other_schedulers(scheduler: str, expected: str | None) -> None:
    assert cap(Managed(XL, "web", scheduler), 0.25) == expected


@pytest.mark.parametrize(
    ("place", "name", "managed"),
    [
        (Place("x", "xen"), "a", Managed(XL, "a", "credit2")),
        (Place("x", "xen"), "b", Managed(XL, "b", "credit")),
        (Place("y", "xen"), "a", Managed(XL, "a", "rtds")),
        (Place("x", "xen"), "c", Managed(XL, "c", "credit2")),
        (Place("v", "openvz"), "101", Managed(VZ, "101")),
        (Place("k", "kvm"), "a", Managed(VIRSH, "a")),
        (Place("k", "kvm"), "b", Managed(QM, "101")),
        (Place("k", "kvm"), "c", None),
        (Place("k", "cgroup"), "d", Managed(PCT, "102")),
        (Place("k", "cgroup"), "b", None),  # a container with the name of a virtual machine
        (Place("k", "kvm"), "d", None),
        (Place("other", "kvm"), "a", None),
    ],
)
def test_what_manages_a_guest(
    monkeypatch: pytest.MonkeyPatch, place: Place, name: str, managed: Managed | None
) -> None:
    def data(_self: Api, _path: str, query: str, **_times: str) -> Any:
        return {"result": [{"metric": labels, "value": [0, "1"]} for labels in INFO[query]]}

    monkeypatch.setattr(Api, "data", data)
    managers = Managers(Reading(Api("http://127.0.0.1:1"), at=1e9, present=900, past=86400))
    assert managers.of(Guest(name, place, cpu=0.1)) == managed
