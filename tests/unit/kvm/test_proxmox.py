"""Guests' current names in Proxmox."""

from pathlib import Path

import pytest

from tests.unit.kvm.test_guests import Machine
from virtscope.kvm.proxmox import Configuration, joined, parse, read
from virtscope.toolkit.collect import SourceUnavailable

CONFIGURATION = b"""#web shop of%3A sales
#second line
boot: order=scsi0
name: web01
net0: virtio=BC:24:11:0A:0B:0C,bridge=vmbr0

[before-upgrade]
name: old
"""


def test_a_guest_s_file() -> None:
    assert parse(CONFIGURATION) == Configuration("web01", "web shop of: sales")
    assert parse(b"cores: 2\n") == Configuration("", "")
    assert parse(b"description: a%0Ab\nname: \xff\n") == Configuration("\\xff", "a")


def test_each_guest_of_this_node(tmp_path: Path) -> None:
    (tmp_path / "100.conf").write_bytes(CONFIGURATION)
    (tmp_path / "100.conf.tmp").write_bytes(b"")
    assert read(tmp_path) == {"100": CONFIGURATION}
    with pytest.raises(SourceUnavailable, match="Proxmox is not here"):
        read(tmp_path / "none")


def test_a_guest_that_was_renamed_has_its_new_name() -> None:
    machine = Machine()
    machine.starts(9, "-id", "100", "-name", "old")
    machine.starts(10, "-name", "web")
    found = joined(machine.look().guests, {"100": parse(CONFIGURATION), "101": Configuration("other", "")})
    assert [(guest.name, guest.domain.title if guest.domain else None) for guest in found] == [
        ("web01", "web shop of: sales"),
        ("web", None),
    ]


def test_a_forged_vmid_gets_no_other_guest_s_name() -> None:
    machine = Machine()
    machine.starts(9, "-id", "100", "-name", "forged", cgroup="/user.slice/user-1000.slice/session-1.scope")
    known = {"100": Configuration("payroll", "of all")}
    assert [(guest.name, guest.domain) for guest in joined(machine.look().guests, known)] == [("forged", None)]
    machine.starts(10, "-id", "100", "-name", "old", cgroup="/qemu.slice/100.scope")
    guests = joined(machine.look(1).guests, known)
    assert [(guest.name, guest.id) for guest in guests] == [("forged", ""), ("payroll", "100")]


def test_a_title_can_be_shown_and_is_bounded() -> None:
    assert parse(b"#a%00%1b" + b"x" * 999 + b"\nname: " + b"n" * 999).title == "a\\x00\\x1b" + "x" * 191
    assert len(parse(b"name: " + b"n" * 999).name) == 200
