"""Between two readings of a host: no counter decreases, and no series passes from one guest to another.

test_random_churn.py compares pages with true values; these tests assert the exact pages.
"""

from __future__ import annotations

from virtscope.xen import model
from virtscope.xen.continuity import Accounts, Clocks, DuplicateNames, Places, WaitingClocks, WaitingTotal
from virtscope.xen.model import Block, Domain, Host, Network, Requests, Totals, Traffic, Vcpu, Waiting

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


VCPUS = (Vcpu(True, None), Vcpu(True, None))


def counting(domid: int | None, seconds: float, network: int = 0, disk: int | None = 0, name: str = "web") -> Domain:
    """Return a domain with so many bytes received and written, twice as many sent and read."""
    vif = Network("0", Traffic(network, 0, 0, 0), Traffic(2 * network, 0, 0, 0))
    read, written = (None if disk is None else Requests(0, of) for of in (2 * (disk or 0), disk))
    vbd = Block("xvda", "ca:0", "BlkBack", read, written, 0)
    return PLAIN._replace(domid=domid, name=name, cpu_seconds=seconds, networks=(vif,), blocks=(vbd,))


def accounted(*readings: Host) -> Totals | None:
    """Return the totals after these readings, one a minute."""
    accounts, totals = Accounts(), None
    for minute, reading in enumerate(readings):
        totals = accounts.add_to(reading, 60.0 * minute).totals
    return totals


def test_totals_keep_what_ended_guests_used() -> None:
    def dom0(seconds: float) -> Domain:
        return PLAIN._replace(domid=0, name="Domain-0", cpu_seconds=seconds)

    totals = accounted(
        host(dom0(9000), counting(1, 7200, 10**9, 10**9)),
        host(dom0(9010), counting(1, 7230, 10**9 + 5, 10**9 + 7), counting(2, 20, 100, 1000)),
        host(dom0(9020), counting(2, 20, 100, 1000)),
        # A domain that is dying is still read; one that was migrated in counts from then on.
        host(dom0(9030), counting(2, 25, 100, 1000), counting(3, 7200, 10**9, 10**9)),
        host(dom0(9040), counting(3, 7201, 10**9 + 1, 10**9 + 1)),
    )
    # Half of the last interval of each guest that ended is in the host's CPU time only.
    assert totals == Totals(40 + 56 + 30 / 2 + 5 / 2, 56, 106, 212, 2016, 1008)


def test_a_total_is_absent_if_the_source_does_not_count_it() -> None:
    totals = accounted(host(), host(counting(1, 5, 6, None)))
    assert totals == Totals(5, 5, 6, 12, None, None)
    unnamed = counting(None, 5)._replace(networks=(), vifs=1)  # until the toolstack has listed it
    assert accounted(host(unnamed)) == Totals(0, 0, None, None, 0, 0)
    assert accounted(host(), host(unnamed), host(counting(None, 6, 30))) == Totals(6, 6, 30, 60, 0, 0)


def test_domains_that_share_a_name_count_from_their_first_reading_on() -> None:
    first, second = (counting(None, 20, 30)._replace(duplicate=number) for number in (1, 2))
    both = host(first, second), host(first._replace(cpu_seconds=21), second)
    totals = accounted(host(counting(None, 19, 20)), *both)
    assert totals == Totals(1, 1, 0, 0, 0, 0)


def test_cpu_time_of_the_host_is_all_but_idle_time() -> None:
    accounts = Accounts()

    def busy(minute: float, seconds: float, *idle: float) -> float:
        nanoseconds = [int(each * 1e9) for each in idle]
        totals = accounts.add_to(host(counting(0, seconds)), minute * 60, nanoseconds or None).totals
        assert totals
        return round(totals.cpu_seconds, 6)

    assert busy(0, 500, 1000, 2000, 0) == 0
    assert busy(1, 501, 1050, 2060, 0) == 10, "the third CPU is offline"
    assert busy(2, 511, 1110.001, 2120, 0) == 10, "a clock that is ahead is no fall"
    assert busy(3, 521, 1170.001, 2150, 300) == 39.999
    assert busy(4, 531, 1230.001, 100, 360) == 39.999, "a CPU that starts again has no time"
    assert busy(5, 541) == 49.999, "without idle times, the sum over domains"
    assert busy(6, 551, 1300, 200, 400) == 59.999
    assert busy(7, 561, 1350, 250, 450, 0, 0) == 89.999


def test_without_idle_times_an_ended_guest_counts_for_another_half_interval() -> None:
    accounts = Accounts()

    def used(minute: float, **guests: float) -> float:
        domains = (counting(None, seconds, name=name)._replace(vcpus=VCPUS) for name, seconds in guests.items())
        totals = accounts.add_to(host(*domains), minute * 60).totals
        assert totals
        return totals.cpu_seconds

    assert used(0, web=7000) == 0
    assert used(1, web=7030) == 30
    assert used(2) == 45, "half a CPU for half a minute"
    assert used(3, web=7060) == 60, "it only missed a reading"
    assert used(4, web=7060, short=20) == 80
    assert used(5, web=7060) == 100, "one that was read once had run for half a minute, on average"
    assert used(6, web=7060, migrated=9000) == 100
    assert used(7, web=7060) == 100, "nothing is known of its rate"


def test_the_total_of_waiting_keeps_ended_guests() -> None:
    def account(domid: int, seconds: float | None) -> Waiting:
        return Waiting(domid, "web", {}, 0, seconds)

    total = WaitingTotal()
    assert total.add([account(0, 5), account(1, 100)], 4, 0) == 0
    assert total.add([account(0, 9), account(1, 110), account(2, 30)], 4, 60) == 40
    assert total.add([account(0, 9), account(2, 31)], 4, 120) == 41
    assert WaitingTotal().add([account(0, None), account(1, None)], 4, 0) is None


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
