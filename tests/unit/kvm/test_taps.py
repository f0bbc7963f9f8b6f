"""Guests' interfaces, from the guest's side."""

from tests.unit.kvm.captured import recorded
from tests.unit.kvm.test_guests import Machine
from virtscope.kvm.model import Domain, Network, Traffic
from virtscope.kvm.taps import Taps, network, opened, parse

HEAD = b"Inter-|   Receive    |  Transmit\n face |bytes ... |bytes ...\n"
SENT, RECEIVED = Traffic(1000, 10, 1, 2), Traffic(500, 5, 3, 4)
TAP0 = ("-netdev", "tap,ifname=tap0")


def row(name: str) -> bytes:
    """An interface with the guest's sent and received values."""
    return f"{name}: 1000 10 1 2 0 0 0 0 500 5 3 4 0 0 0 0\n".encode()


class Host(Machine):
    """A host with guests, a process 1 with its interfaces, and the interfaces of each guest."""

    def __init__(self, interfaces: bytes = b"") -> None:
        super().__init__()
        self.content["proc/1/net/dev"] = HEAD + interfaces

    def networks(self, now: float = 0, domain: Domain | None = None) -> list[tuple[Network, ...]]:
        guests = [each._replace(domain=domain) for each in self.look(now).guests]
        return [each.networks for each in Taps(self.files).add_to(guests)]


def test_what_a_tap_receives_the_guest_has_sent() -> None:
    host = Host(row("eth0") + row("vnet7"))
    host.starts(9, "-netdev", "tap,ifname=vnet7")
    assert host.networks() == [(Network("vnet7", receive=RECEIVED, transmit=SENT),)]
    host.starts(9)
    named = Domain(interfaces=("vnet7", "gone0"))  # libvirt also lists them
    assert host.networks(domain=named) == [(Network("vnet7", receive=RECEIVED, transmit=SENT),)]
    turned = network("macvtap0", range(16))
    assert turned == Network("macvtap0", Traffic(0, 1, 2, 3), Traffic(8, 9, 10, 11)), "a macvtap is not turned"
    fdinfo = {"proc/9/fdinfo/36": b"pos:\t138\nflags:\t0104002\niff:\tvnet1\n", "proc/9/fdinfo/3": b"pos:\t0\n"}
    assert opened(recorded(fdinfo), 9, [36, 3, 4]) == ["vnet1"]


def test_proxmox_names_them_by_the_vmid_and_the_firewall_s_count_once() -> None:
    host = Host(b"".join(map(row, ("tap100i0", "tap100i1", "fwpr100p0", "fwln100i0", "tap1001i0"))))
    host.starts(9, "-id", "100")
    assert [each.device for each in host.networks()[0]] == ["tap100i0", "tap100i1"]


def test_a_malformed_line_is_passed_over() -> None:
    for line in (b"vnet0: 1 2 3\n", b"vnet0: a b\n", b"vnet0\n", b"vnet0: " + b"-1 " * 16 + b"\n"):
        assert set(parse(HEAD + line + row("vnet1"))) == {"vnet1"}, line


def test_a_name_of_the_host_s_is_another_interface_in_a_pod() -> None:
    """Each KubeVirt guest has a tap0; the host's own tap0 is a VPN's."""
    host = Host(row("eth0") + row("tap0").replace(b"1000", b"9999"))
    host.starts(9, *TAP0, net_dev=HEAD + row("tap0"))
    host.starts(10, *TAP0, net_dev=HEAD + row("eth0"))
    assert host.networks() == [(Network("tap0", receive=RECEIVED, transmit=SENT),), ()]


def test_an_interface_that_several_claim_is_the_one_s_that_its_manager_vouches_for() -> None:
    host = Host(row("tap100i0"))
    for pid, group in ((9, "qemu.slice/100.scope"), (10, "user.slice/user-7.slice"), (11, "system.slice/cron.service")):
        host.starts(pid, "-id", "100", cgroup=f"/{group}")
    assert [len(each) for each in host.networks()] == [1, 0, 0]
    host.ends(9)
    host.starts(12, "-id", "100")
    assert [len(each) for each in host.networks(1)] == [0, 0, 0]


def test_a_namespace_full_of_interfaces_costs_no_more_than_some() -> None:
    host = Host()
    host.starts(9, *TAP0, net_dev=HEAD + row("tap0") + row("tap1") * 6000)
    assert host.networks() == [()]
