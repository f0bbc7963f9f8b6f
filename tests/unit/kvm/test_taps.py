"""Guests' interfaces, from the guest's side."""

from __future__ import annotations

from tests.unit.kvm.captured import command_line, recorded
from tests.unit.kvm.test_guests import Machine
from tests.unit.kvm.test_threads import stat
from virtscope.kvm.model import Domain, Guest, Network, Traffic
from virtscope.kvm.taps import Taps, network, opened, parse

HEAD = b"Inter-|   Receive    |  Transmit\n face |bytes ... |bytes ...\n"
SENT, RECEIVED = Traffic(1000, 10, 1, 2), Traffic(500, 5, 3, 4)


def row(name: str) -> bytes:
    """An interface whose guest has sent and received that."""
    return f"{name}: 1000 10 1 2 0 0 0 0 500 5 3 4 0 0 0 0\n".encode()


def guest(*words: str, content: bytes = b"", **more: object) -> Guest:
    machine = Machine()
    machine.runs(9, command_line("-name", "web", *words), stat("qemu", 5))
    machine.content["proc/1/net/dev"] = HEAD + content
    (found,) = machine.look().guests
    (found,) = Taps(machine.files).add_to([found._replace(**more)])  # type: ignore[arg-type]
    return found


def test_what_a_tap_receives_the_guest_has_sent() -> None:
    found = guest("-netdev", "tap,ifname=vnet7", content=row("eth0") + row("vnet7"))
    assert found.networks == (Network("vnet7", receive=RECEIVED, transmit=SENT),)
    found = guest(content=row("vnet7"), domain=Domain(interfaces=("vnet7", "gone0")))  # libvirt names them too
    assert found.networks == (Network("vnet7", receive=RECEIVED, transmit=SENT),)
    turned = network("macvtap0", range(16))
    assert turned == Network("macvtap0", Traffic(0, 1, 2, 3), Traffic(8, 9, 10, 11)), "a macvtap is not turned"


def test_proxmox_names_them_by_the_vmid_and_the_firewall_s_count_once() -> None:
    rows = b"".join(map(row, ("tap100i0", "tap100i1", "fwpr100p0", "fwln100i0", "tap1001i0")))
    found = guest("-id", "100", content=rows)
    assert [each.device for each in found.networks] == ["tap100i0", "tap100i1"]


def test_one_in_a_network_namespace_is_found_there() -> None:
    machine = Machine()
    machine.runs(9, command_line("-name", "web", "-netdev", "tap,ifname=tap0"), stat("qemu", 5))
    machine.content["proc/9/net/dev"] = HEAD + row("tap0")
    (found,) = Taps(machine.files).add_to(machine.look().guests)
    assert found.networks == (Network("tap0", receive=RECEIVED, transmit=SENT),)


def test_taps_as_open_files() -> None:
    files = recorded(
        {"proc/9/fdinfo/36": b"pos:\t138\nflags:\t0104002\niff:\tvnet1\n", "proc/9/fdinfo/3": b"pos:\t0\n"}
    )
    assert opened(files, 9, [36, 3, 4]) == ["vnet1"]


def test_a_malformed_line_is_passed_over() -> None:
    for line in (b"vnet0: 1 2 3\n", b"vnet0: a b\n", b"vnet0\n", b"vnet0: " + b"-1 " * 16 + b"\n"):
        assert set(parse(HEAD + line + row("vnet1"))) == {"vnet1"}, line


def test_a_name_of_the_host_s_is_another_interface_in_a_pod() -> None:
    """KubeVirt's guests each have a tap0; the host's is a VPN's."""
    machine = Machine()
    machine.runs(9, command_line("-name", "web", "-netdev", "tap,ifname=tap0"), stat("qemu", 5))
    machine.runs(10, command_line("-name", "db", "-netdev", "tap,ifname=tap0"), stat("qemu", 5))
    machine.content["proc/1/net/dev"] = HEAD + row("eth0") + row("tap0").replace(b"1000", b"9999")
    machine.content["proc/9/net/dev"] = HEAD + row("tap0")
    machine.content["proc/10/net/dev"] = HEAD + row("eth0")
    web, db = Taps(machine.files).add_to(machine.look().guests)
    assert web.networks == (Network("tap0", receive=RECEIVED, transmit=SENT),)
    assert db.networks == ()


def test_an_interface_that_several_claim_is_the_one_s_that_its_manager_vouches_for() -> None:
    machine = Machine()
    for pid, cgroup in (
        (9, "qemu.slice/100.scope"),
        (10, "user.slice/user-7.slice"),
        (11, "system.slice/cron.service"),
    ):
        machine.runs(pid, command_line("-id", "100", "-name", "web"), stat("kvm", 5))
        machine.content[f"proc/{pid}/cgroup"] = f"0::/{cgroup}\n".encode()
    machine.content["proc/1/net/dev"] = HEAD + row("tap100i0")
    assert [len(each.networks) for each in Taps(machine.files).add_to(machine.look().guests)] == [1, 0, 0]
    machine.ends(9)
    machine.runs(12, command_line("-id", "100", "-name", "web"), stat("kvm", 5))
    assert [len(each.networks) for each in Taps(machine.files).add_to(machine.look(1).guests)] == [0, 0, 0]


def test_a_namespace_full_of_interfaces_costs_no_more_than_some() -> None:
    machine = Machine()
    machine.runs(9, command_line("-name", "web", "-netdev", "tap,ifname=tap0"), stat("qemu", 5))
    machine.content["proc/9/net/dev"] = HEAD + row("tap0") + row("tap1") * 6000
    (found,) = Taps(machine.files).add_to(machine.look().guests)
    assert found.networks == ()
