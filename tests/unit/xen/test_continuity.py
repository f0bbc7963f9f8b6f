"""Between two readings of a host: no counter decreases, and no series passes from one guest to another.

test_random_churn.py compares pages with true values; these tests assert the exact pages.
"""

from __future__ import annotations

from virtscope.xen import model
from virtscope.xen.continuity import Clocks, DuplicateNames, Places, WaitingClocks
from virtscope.xen.model import Domain, Host, Vcpu, Waiting

PLAIN = Domain(None, "web01", 0.0, 1 << 20, None, 0, frozenset(), (), (), ())


def host(*domains: Domain) -> Host:
    return Host("4.17.7", 2, 2_000_000_000, 1 << 30, 1 << 20, domains)


Times = tuple[float | None, ...]  # the domain's, then its vCPUs'


def test_no_cpu_time_goes_back() -> None:
    clocks = Clocks()

    def steady(domid: int | None, seconds: float | None, *vcpus: float | None) -> Times:
        times = tuple(Vcpu(True, each) for each in vcpus)
        [seen] = clocks.steady(host(PLAIN._replace(domid=domid, cpu_seconds=seconds, vcpus=times))).domains
        return (seen.cpu_seconds, *(vcpu.cpu_seconds for vcpu in seen.vcpus))

    assert steady(4, 5.01, 3.01, 2.0) == (5.01, 3.01, 2.0)
    assert steady(4, None, 3.0, None) == (None, 3.01, None), "a small fall stands still, and what is absent is no fall"
    assert steady(4, 5.0, 3.02, 1.99) == (5.01, 3.02, 2.0)
    assert steady(4, 0.8, 0.8) == (0.8, 0.8), "another domain's, under the same id"
    assert steady(None, 5.0, 3.0, None) == (5.0, 3.0, None)
    assert steady(None, 4.0, 2.0, None, 1.0) == (5.0, 3.0, None, 1.0), "as whole seconds fall"


def test_no_time_of_waiting_goes_back() -> None:
    clocks = WaitingClocks()

    def waited(domid: int, runnable: float | None, *states: float) -> Times:
        account = {f"state {number}": seconds for number, seconds in enumerate(states)}
        (steady,) = clocks.steady([Waiting(domid, "web01", account, 7, runnable)])
        return (steady.runnable_seconds, *(steady.runstate_seconds[state] for state in account))

    assert waited(4, 8.0, 500.0, 1.278300936) == (8.0, 500.0, 1.278300936)
    # A change of state whose time is before the last read.
    assert waited(4, 7.999999, 500.7, 1.269222564) == (8.0, 500.7, 1.278300936)
    assert waited(4, None, 500.9, 1.3) == (None, 500.9, 1.3)
    assert waited(4, 4.0, 501.0, 60.0) == (8.0, 501.0, 60.0), "as the sum over fewer vCPUs"
    assert waited(4, 0.4, 501.0, 0.5) == (0.4, 501.0, 0.5), "another domain's, under the same id"


def duplicates(names: DuplicateNames, *rows: tuple[str, float]) -> list[int | None]:
    """Read an iteration of (name, CPU seconds); return the number of each row."""
    domains = [PLAIN._replace(name=name, cpu_seconds=seconds) for name, seconds in rows]
    return [each.duplicate for each in names.tell_apart(host(*domains)).domains]


def test_domains_of_the_same_name_are_numbered_as_long_as_none_changes() -> None:
    names = DuplicateNames()
    for seconds in (10, 11, 0):  # rebooted at the end: the name continues
        assert duplicates(names, ("copy", seconds), ("db01", 1)) == [None, None]
    for _ in range(2):
        assert duplicates(names, ("copy", 10), ("web01", 1), ("copy", 20)) == [1, None, 2]
    assert duplicates(names, ("copy", 20), ("copy", 0)) == [3, 4], "the first is gone, a third has come"
    for seconds in (20, 21):
        assert duplicates(names, ("copy", seconds)) == [5]  # it could be either
    dom0 = PLAIN._replace(domid=0, name="Domain-0")
    told_apart = DuplicateNames().tell_apart(host(dom0, dom0._replace(domid=None)))
    assert [each.duplicate for each in told_apart.domains] == [None, None], "Dom0 has an id"


def test_an_unused_name_is_forgotten_but_not_soon() -> None:
    """Guests come and go under new names; a query's range may still include old ones for a while."""
    names = DuplicateNames()
    duplicates(names, ("copy", 10), ("copy", 20))
    for _ in range(5000):
        assert duplicates(names, ("copy", 20)) == [3]
    for _ in range(600):
        duplicates(names)
    assert duplicates(names, ("copy", 30), ("copy", 40)) == [4, 5]
    for _ in range(5000):
        duplicates(names)
    assert duplicates(names, ("copy", 50)) == [None]


def vifs(places: Places, *packets: int, seconds: float = 10.0, domain: Domain = PLAIN) -> list[str]:
    """Read the packets of a guest's interfaces by place; return the interfaces' names."""
    networks = tuple(
        model.Network(str(place), model.Traffic(0, 0, 0, 0), model.Traffic(0, counted, 0, 0))
        for place, counted in enumerate(packets)
    )
    (named,) = places.tell_apart(host(domain._replace(networks=networks, cpu_seconds=seconds))).domains
    return [network.vif for network in named.networks]


def test_interfaces_that_stay_keep_their_places() -> None:
    places = Places()
    for packets in ((), (0, 0), (5, 900), (5, 901)):  # no interfaces while the guest was being created
        assert vifs(places, *packets) == ["0", "1"][: len(packets)]
    both = PLAIN._replace(vifs=2)
    assert vifs(places, 6, domain=both) == ["0"], "a line is missing for once"
    assert vifs(places, 7, 901, domain=both) == ["0", "1"]
    assert vifs(places, seconds=0.0) == []
    assert vifs(places, 0, 0, seconds=1.0) == ["0", "1"], "rebooted, in the same series"
    assert vifs(places, 901, domain=PLAIN._replace(name="db01")) == ["0"], "another domain's"
    for counted in (901, 902):
        assert vifs(places, counted) == ["0-2"], "after one was taken out"


def test_interfaces_are_remembered_for_a_while_and_no_longer() -> None:
    for looks_before, looks, names in ((0, 3500, ["0-2"]), (0, 3700, ["0"]), (2000, 2000, ["0-2"])):
        places = Places()
        for _ in range(looks_before):
            vifs(places, 901, domain=PLAIN._replace(name="db01"))
        vifs(places, 5, 900)
        for _ in range(looks):
            vifs(places, 901, domain=PLAIN._replace(name="db01"))
        assert vifs(places, 901) == names, (looks_before, looks)
