"""Guests' current names in Proxmox."""

from pathlib import Path

import pytest

from tests.unit.kvm.test_guests import Machine
from virtscope.kvm.model import Domain
from virtscope.kvm.proxmox import Configuration, Known, families, joined, parse, parse_pools, read, understand
from virtscope.toolkit.collect import SourceUnavailable

CONFIGURATION = b"""#web shop of%3A sales
#second line
boot: order=scsi0
name: web01
tags: shop;prod,eu;prod
net0: virtio=BC:24:11:0A:0B:0C,bridge=vmbr0

[before-upgrade]
name: old
tags: older
"""
CONTAINER = b"arch: amd64\nhostname: mail\nmemory: 512\ntags: prod\n"
USERS = b"""\
user:root@pam:1:0:Jane:Doe:jane@example.org::
pool:sales:Their guests%3A two:100,102:local-lvm:
pool:a/nested::101 103; x,104::
acl:1:/pool/sales:@staff:PVEAdmin:
pool:malformed
"""


def test_a_guest_s_file() -> None:
    assert parse(CONFIGURATION) == Configuration("web01", "web shop of: sales", "eu;prod;shop")
    assert parse(CONTAINER) == Configuration("mail", "", "prod")
    assert parse(b"cores: 2\n") == Configuration("", "")
    assert parse(b"description: a%0Ab\nname: \xff\n") == Configuration("\\xff", "a")


def test_each_guest_of_this_node(tmp_path: Path) -> None:
    guests, containers = tmp_path / "qemu-server", tmp_path / "lxc"
    guests.mkdir()
    (guests / "100.conf").write_bytes(CONFIGURATION)
    (guests / "100.conf.tmp").write_bytes(b"")
    (guests / "other.conf").write_bytes(b"")
    assert read(tmp_path) == {"100": CONFIGURATION}
    containers.mkdir()
    (containers / "102.conf").write_bytes(CONTAINER)
    (tmp_path / "user.cfg").write_bytes(USERS)
    files = read(tmp_path)
    assert (files["100"], files["lxc/102"]) == (CONFIGURATION, CONTAINER)
    assert b"example.org" not in files["user.cfg"], "users stay private"
    pools = {"100": "sales", "102": "sales", "101": "a/nested", "103": "a/nested", "104": "a/nested"}
    assert understand(files) == Known({"100": parse(CONFIGURATION)}, {"102": parse(CONTAINER)}, pools)
    with pytest.raises(SourceUnavailable, match="Proxmox is not here"):
        read(tmp_path / "none")


def test_a_guest_that_was_renamed_has_its_new_name() -> None:
    machine = Machine()
    machine.starts(9, "-id", "100", "-name", "old")
    machine.starts(10, "-name", "web")
    known = Known({"100": parse(CONFIGURATION), "101": Configuration("other", "")}, {}, parse_pools(USERS))
    found = joined(machine.look().guests, known)
    assert [(guest.name, guest.domain) for guest in found] == [
        ("web01", Domain(title="web shop of: sales", tags="eu;prod;shop", pool="sales")),
        ("web", None),
    ]


def test_a_forged_vmid_gets_no_other_guest_s_name() -> None:
    machine = Machine()
    machine.starts(9, "-id", "100", "-name", "forged", cgroup="/user.slice/user-1000.slice/session-1.scope")
    known = Known({"100": Configuration("payroll", "of all")}, {}, {})
    assert [(guest.name, guest.domain) for guest in joined(machine.look().guests, known)] == [("forged", None)]
    machine.starts(10, "-id", "100", "-name", "old", cgroup="/qemu.slice/100.scope")
    guests = joined(machine.look(1).guests, known)
    assert [(guest.name, guest.id) for guest in guests] == [("forged", ""), ("payroll", "100")]


def test_a_title_can_be_shown_and_is_bounded() -> None:
    assert parse(b"#a%00%1b" + b"x" * 999 + b"\nname: " + b"n" * 999).title == "a\\x00\\x1b" + "x" * 191
    assert len(parse(b"name: " + b"n" * 999).name) == 200
    assert len(parse(b"tags: " + b"t;u" * 999).tags) <= 200
    assert parse_pools(b"pool:a\x1b" + b"p" * 999 + b"::100::")["100"] == "a\\x1b" + "p" * 195


def test_containers_have_names_of_their_own() -> None:
    """A guest keeps its name; a container without one has the name that Proxmox shows."""
    containers = {
        ctid: Configuration(name, "", "prod" if ctid == "102" else "")
        for ctid, name in {"102": "web", "103": "mail", "104": "shop", "105": "shop", "106": ""}.items()
    }
    [family] = families(Known({"100": Configuration("web", "")}, containers, {"103": "sales"}))
    shown = {sample.labels["id"]: sample.labels["container"] for sample in family.samples}
    assert shown == {"102": "web (102)", "103": "mail", "104": "shop (104)", "105": "shop (105)", "106": "CT106"}
    assert [sample.labels for sample in family.samples][:2] == [
        {"container": "web (102)", "id": "102", "cgroup": "/lxc/102", "title": "", "tags": "prod", "pool": ""},
        {"container": "mail", "id": "103", "cgroup": "/lxc/103", "title": "", "tags": "", "pool": "sales"},
    ]
