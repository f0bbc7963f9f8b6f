"""Networks of xentop's domains from /proc/net/dev: no series passes from one interface to another."""

from collections.abc import Mapping, Sequence

from virtscope.xen.devices import network
from virtscope.xen.model import Bandwidth, Domain, Guest, Host, Missing, Share
from virtscope.xen.netdev import RawNetwork
from virtscope.xen.text_networks import PATIENCE, TextNetworks

COUNTED = (1001, 1002, 3, 4, 2001, 2002, 5, 6)
MORE = (9001, 9002, 3, 4, 9003, 9004, 5, 6)


def domain(name: str, *places: tuple[int, ...], domid: int | None = None, duplicate: int | None = None) -> Domain:
    """A domain in the text: its interfaces by place."""
    networks = tuple(network(place, counted) for place, counted in enumerate(places))
    return Domain(domid, name, 5.0, 1 << 20, None, 0, frozenset(), (), networks, (), duplicate=duplicate)


def guest(domid: int, name: str) -> Guest:
    return Guest(domid, name, 5.0, "", "", "", "", Share(), {}, {}, Bandwidth({}, {}))


class Looks:
    """Reads a host with these interfaces by domid, with a clock set by the test."""

    def __init__(self, by_domid: Mapping[int, Sequence[RawNetwork]] | None) -> None:
        self.clock = 0.0
        self._networks = TextNetworks(lambda: by_domid, lambda: self.clock)

    def at(self, *domains: Domain, guests: Sequence[Guest | None] = ()) -> list[dict[str, int]]:
        """Sent bytes of each domain by vif."""
        seen = self._networks.add_to(Host(domains=domains, guests=tuple(guests)))
        self.missing = seen.missing()
        return [{each.vif: each.transmit.bytes for each in domain.networks} for domain in seen.domains]


def vifs(*numbers: int) -> list[RawNetwork]:
    return [RawNetwork(number, *COUNTED, emulated=False) for number in numbers]


QEMUS = RawNetwork(0, *MORE, emulated=True)


def test_on_open_vswitch_guests_have_the_networks_that_xentop_leaves_out() -> None:
    looks = Looks({0: vifs(0), 3: vifs(0, 2)})
    dom0, web = domain("Domain-0", domid=0), domain("web01")
    assert looks.at(dom0, web, guests=[None, guest(3, "web01")]) == [{"0": 1001}, {"0": 1001, "2": 1001}]


def test_a_number_never_follows_a_place_that_is_another_interface_s() -> None:
    """QEMU's interface is first in the text, so its place equals the other one's number."""
    looks = Looks({3: [QEMUS, *vifs(0)]})
    hvm = domain("hvm", MORE, COUNTED)
    assert looks.at(hvm) == [{}], "the toolstack has not said which domain it is"
    assert looks.missing == Missing(0, 0, 0), "they are only not yet there"
    assert looks.at(hvm, guests=[guest(3, "hvm")]) == [{"0-emu": 9001, "0": 1001}]
    assert looks.at(hvm, guests=[None]) == [{}], "created again, with an id that isn't known yet"
    looks.clock += 10 * PATIENCE
    assert looks.at(hvm) == [{}]
    assert looks.at(hvm, guests=[guest(3, "hvm")]) == [{"0-emu": 9001, "0": 1001}]


def test_a_place_stays_a_place() -> None:
    looks = Looks({3: vifs(7)})
    web = domain("web01", MORE)
    assert looks.at(web, domain("bare")) == [{}, {}]
    looks.clock += PATIENCE + 1
    assert looks.at(web, domain("bare")) == [{"0": 9001}, {}], "the toolstack doesn't answer"
    shown = looks.at(web, domain("bare"), guests=[None, guest(3, "bare")])
    assert shown == [{"0": 9001}, {"7": 1001}], "one without interfaces in the text can wait for it"
    assert looks.at(web, guests=[guest(3, "web01")]) == [{"0": 9001}]
    assert looks.at() == []
    assert looks.at(web, guests=[guest(3, "web01")]) == [{"7": 1001}], "another one of that name"


def test_the_texts_own_are_shown_of_a_name_that_several_have_and_without_the_file() -> None:
    looks = Looks({3: vifs(0), 4: vifs(0)})
    assert looks.at(domain("web", COUNTED, duplicate=1), domain("web", MORE, duplicate=2)) == [{"0": 1001}, {"0": 9001}]
    assert Looks(None).at(domain("web01", MORE), guests=[guest(3, "web01")]) == [{"0": 9001}]
