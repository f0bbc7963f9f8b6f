"""From one look at the host to the next: no counter goes back, and no series passes from one guest to another."""

from __future__ import annotations

from virtscope.xen import model
from virtscope.xen.continuity import Clocks, DuplicateNames, Places, WaitingClocks
from virtscope.xen.model import Domain, Host, Vcpu, Waiting


def host(*domains: Domain) -> Host:
    return Host("4.17.7", 2, 2_000_000_000, 1 << 30, 1 << 20, domains)


def domain(domid: int | None, cpu_seconds: float | None, *vcpus: float | None, name: str = "web01") -> Domain:
    times = tuple(Vcpu(True, seconds) for seconds in vcpus)
    return Domain(domid, name, cpu_seconds, 1 << 20, None, 0, frozenset(), times, (), ())


def seen(clocks: Clocks, *domains: Domain) -> list[tuple[float | None, ...]]:
    looked_at = clocks.steady(host(*domains)).domains
    return [(each.cpu_seconds, *(vcpu.cpu_seconds for vcpu in each.vcpus)) for each in looked_at]


def test_a_small_fall_is_shown_as_standing_still_until_the_counter_has_caught_up() -> None:
    clocks = Clocks()
    assert seen(clocks, domain(4, 1.278300936, 1.278300936)) == [(1.278300936, 1.278300936)]
    assert seen(clocks, domain(4, 1.269222564, 1.269222564)) == [(1.278300936, 1.278300936)]
    assert seen(clocks, domain(4, 1.27, 1.27, name="renamed")) == [(1.278300936, 1.278300936)]
    assert seen(clocks, domain(4, 1.3, 1.29)) == [(1.3, 1.29)]


def test_another_domain_starts_over() -> None:
    clocks = Clocks()
    seen(clocks, domain(4, 1.2, 1.2))
    assert seen(clocks, domain(5, 0.9, 0.9)) == [(0.9, 0.9)]
    assert seen(clocks, domain(4, 0.8, 0.8)) == [(0.8, 0.8)], "it was gone in between"


def test_a_name_that_a_new_guest_took_over_starts_over() -> None:
    clocks = Clocks()
    seen(clocks, domain(None, 90.0, 90.0))
    assert seen(clocks, domain(None, 2.0, 2.0)) == [(2.0, 2.0)]


def test_whole_seconds_fall_by_one() -> None:
    clocks = Clocks()
    seen(clocks, domain(None, 5.0, 3.0, None))
    assert seen(clocks, domain(None, 4.0, 2.0, None, 1.0)) == [(5.0, 3.0, None, 1.0)]


def test_a_new_guest_of_a_name_starts_over_with_all_its_vcpus() -> None:
    """Also where one of them has run nearly as long as that of the guest before."""
    clocks = Clocks()
    seen(clocks, domain(None, 90.5, 90.0, 0.5))
    assert seen(clocks, domain(None, 2.0, 2.0, 0.0)) == [(2.0, 2.0, 0.0)]


def test_a_time_that_is_absent_for_a_while_does_not_come_back_smaller() -> None:
    clocks = Clocks()
    seen(clocks, domain(4, 5.01, 3.01, 2.0))
    assert seen(clocks, domain(4, None, 3.02, None)) == [(None, 3.02, None)]
    assert seen(clocks, domain(4, 5.0, 3.02, 1.99)) == [(5.01, 3.02, 2.0)]


def waited(clocks: WaitingClocks, domid: int, runnable: float | None, *states: float) -> tuple[float | None, ...]:
    account = {f"state {number}": seconds for number, seconds in enumerate(states)}
    (steady,) = clocks.steady([Waiting(domid, "web01", account, 7, runnable)])
    assert list(steady.runstate_seconds) == list(account)
    return (steady.runnable_seconds, *steady.runstate_seconds.values())


def test_no_time_of_waiting_goes_back() -> None:
    clocks = WaitingClocks()
    assert waited(clocks, 4, 8.0, 500.0, 1.278300936) == (8.0, 500.0, 1.278300936)
    # A change of state has a time before that of the last read.
    assert waited(clocks, 4, 7.999999, 500.7, 1.269222564) == (8.0, 500.7, 1.278300936)
    assert waited(clocks, 4, 8.000001, 500.8, 1.3) == (8.000001, 500.8, 1.3)
    assert waited(clocks, 4, None, 500.9, 1.3) == (None, 500.9, 1.3)
    assert waited(clocks, 4, 8.0, 501.0, 60.0) == (8.000001, 501.0, 60.0)
    assert waited(clocks, 4, 0.4, 501.0, 0.5) == (0.4, 501.0, 0.5), "another domain's, under the same id"


def test_the_sum_over_fewer_vcpus_is_no_less() -> None:
    clocks = WaitingClocks()
    waited(clocks, 4, 32.0, 500.0)
    assert waited(clocks, 4, 16.0, 500.0) == (32.0, 500.0)


PLAIN = model.Domain(None, "web01", 0.0, 1 << 20, None, 0, frozenset(), (), (), ())


class Iterations:
    """Shows iterations of (name, CPU seconds) to one DuplicateNames; returns the number of each row."""

    def __init__(self) -> None:
        self._duplicate_names = DuplicateNames()

    def show(self, *rows: tuple[str, float]) -> list[int | None]:
        domains = tuple(PLAIN._replace(name=name, cpu_seconds=seconds) for name, seconds in rows)
        return [
            each.duplicate
            for each in self._duplicate_names.tell_apart(model.Host(None, None, None, None, None, domains)).domains
        ]


def test_a_unique_name_needs_no_number() -> None:
    iterations = Iterations()
    for seconds in (10, 11, 0):  # rebooted, at the end: the name goes on
        assert iterations.show(("web01", seconds), ("db01", 1)) == [None, None]


def test_domains_of_the_same_name_are_numbered_in_order() -> None:
    iterations = Iterations()
    assert iterations.show(("copy", 10), ("web01", 1), ("copy", 20)) == [1, None, 2]
    assert iterations.show(("copy", 11), ("web01", 1), ("copy", 20)) == [1, None, 2]


def test_the_one_that_is_left_does_not_take_another_ones_number() -> None:
    iterations = Iterations()
    assert iterations.show(("copy", 10)) == [None]
    assert iterations.show(("copy", 10), ("copy", 20)) == [1, 2]
    assert iterations.show(("copy", 20)) == [3]  # which of the two?
    assert iterations.show(("copy", 21)) == [3]
    assert iterations.show() == []
    assert iterations.show(("copy", 22)) == [4]


def test_one_of_two_duplicates_is_replaced_between_iterations() -> None:
    iterations = Iterations()
    assert iterations.show(("copy", 10), ("copy", 20)) == [1, 2]
    assert iterations.show(("copy", 20), ("copy", 0)) == [3, 4]  # the first is gone, a third has come


def test_dom0_has_an_id() -> None:
    dom0 = PLAIN._replace(domid=0, name="Domain-0")
    host = model.Host(None, None, None, None, None, (dom0, dom0._replace(domid=None)))
    assert [each.duplicate for each in DuplicateNames().tell_apart(host).domains] == [None, None]


def test_an_unused_name_is_forgotten_but_not_soon() -> None:
    """Guests come and go under new names again and again; a query's range may reach back to them for a while."""
    iterations = Iterations()
    assert iterations.show(("copy", 10), ("copy", 20)) == [1, 2]
    for _ in range(600):
        iterations.show()
    assert iterations.show(("copy", 30), ("copy", 40)) == [3, 4]
    for _ in range(5000):
        iterations.show()
    assert iterations.show(("copy", 50)) == [None]


def test_a_name_in_use_is_not_forgotten() -> None:
    iterations = Iterations()
    assert iterations.show(("copy", 10), ("copy", 20)) == [1, 2]
    for _ in range(5000):
        assert iterations.show(("copy", 20)) == [3]
    assert iterations.show() == []
    assert iterations.show(("copy", 20)) == [4]


class Interfaces:
    """Shows the packets of a guest's interfaces, by their places, to one Places; answers with their names."""

    def __init__(self) -> None:
        self._places = Places()

    def show(self, *packets: int, seconds: float = 10.0, domain: model.Domain = PLAIN) -> list[str]:
        networks = tuple(
            model.Network(str(place), model.Traffic(0, 0, 0, 0), model.Traffic(0, counted, 0, 0))
            for place, counted in enumerate(packets)
        )
        guest = domain._replace(networks=networks, cpu_seconds=seconds)
        (named,) = self._places.tell_apart(model.Host(None, None, None, None, None, (guest,))).domains
        return [network.vif for network in named.networks]


def test_interfaces_that_stay_keep_their_places() -> None:
    interfaces = Interfaces()
    for packets in ((), (0, 0), (5, 900), (5, 901)):  # none while the guest was being made
        assert interfaces.show(*packets) == ["0", "1"][: len(packets)]


def test_after_one_was_taken_out_the_one_behind_it_does_not_go_on_in_its_series() -> None:
    interfaces = Interfaces()
    interfaces.show(5, 900)
    assert interfaces.show(901) == ["0-2"]
    assert interfaces.show(902) == ["0-2"]
    assert interfaces.show(0, 903) == ["0-3", "1-3"]  # another was added, before it
    assert interfaces.show(904, 0) == ["0-4", "1-4"]  # both happened since the last look


def test_a_reboot_starts_over_in_the_same_series() -> None:
    interfaces = Interfaces()
    assert interfaces.show(5, 900, seconds=500.0) == ["0", "1"]
    assert interfaces.show(seconds=0.0) == []
    assert interfaces.show(0, 0, seconds=1.0) == ["0", "1"]


def test_a_line_that_is_missing_for_once_changes_no_place() -> None:
    interfaces = Interfaces()
    both = PLAIN._replace(vifs=2)
    assert interfaces.show(5, 900, domain=both) == ["0", "1"]
    assert interfaces.show(6, domain=both) == ["0"]
    assert interfaces.show(7, 901, domain=both) == ["0", "1"]


def test_interfaces_are_remembered_for_a_while_and_no_longer() -> None:
    for looks, names in ((3500, ["0-2"]), (3700, ["0"])):
        interfaces = Interfaces()
        interfaces.show(5, 900)
        for _ in range(looks):
            interfaces.show(901, domain=PLAIN._replace(name="db01"))
        assert interfaces.show(901) == names


def test_how_long_they_are_remembered_does_not_depend_on_when_they_were_seen() -> None:
    interfaces = Interfaces()
    others = PLAIN._replace(name="db01")
    for _ in range(2000):
        interfaces.show(901, domain=others)
    interfaces.show(5, 900)
    for _ in range(2000):
        interfaces.show(901, domain=others)
    assert interfaces.show(901) == ["0-2"]


def test_another_domains_interfaces_have_places_of_their_own() -> None:
    interfaces = Interfaces()
    interfaces.show(5, 900)
    assert interfaces.show(901, domain=PLAIN._replace(name="db01")) == ["0"]
    assert interfaces.show(901) == ["0-2"], "it is remembered for a while"
