"""A counter that goes back a little, as the clocks of two physical CPUs do, stands still instead."""

from __future__ import annotations

from virtscope.xen.clocks import Clocks, WaitingClocks
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


def test_another_domain_begins_anew() -> None:
    clocks = Clocks()
    seen(clocks, domain(4, 1.2, 1.2))
    assert seen(clocks, domain(5, 0.9, 0.9)) == [(0.9, 0.9)]
    assert seen(clocks, domain(4, 0.8, 0.8)) == [(0.8, 0.8)], "it was gone in between"


def test_a_name_that_a_new_guest_took_over_begins_anew() -> None:
    clocks = Clocks()
    seen(clocks, domain(None, 90.0, 90.0))
    assert seen(clocks, domain(None, 2.0, 2.0)) == [(2.0, 2.0)]


def test_whole_seconds_fall_by_one() -> None:
    clocks = Clocks()
    seen(clocks, domain(None, 5.0, 3.0, None))
    assert seen(clocks, domain(None, 4.0, 2.0, None, 1.0)) == [(5.0, 3.0, None, 1.0)]


def test_a_new_guest_of_a_name_begins_anew_with_all_its_vcpus() -> None:
    """Also where one of them has run nearly as long as that of the guest before."""
    clocks = Clocks()
    seen(clocks, domain(None, 90.5, 90.0, 0.5))
    assert seen(clocks, domain(None, 2.0, 2.0, 0.0)) == [(2.0, 2.0, 0.0)]


def test_a_time_that_is_not_told_for_a_while_does_not_come_back_as_less() -> None:
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
    # A change of state bears a moment before the last read.
    assert waited(clocks, 4, 7.999999, 500.7, 1.269222564) == (8.0, 500.7, 1.278300936)
    assert waited(clocks, 4, 8.000001, 500.8, 1.3) == (8.000001, 500.8, 1.3)
    assert waited(clocks, 4, None, 500.9, 1.3) == (None, 500.9, 1.3)
    assert waited(clocks, 4, 8.0, 501.0, 60.0) == (8.000001, 501.0, 60.0)
    assert waited(clocks, 4, 0.4, 501.0, 0.5) == (0.4, 501.0, 0.5), "another domain's, under the same id"


def test_the_sum_over_fewer_vcpus_is_no_less() -> None:
    clocks = WaitingClocks()
    waited(clocks, 4, 32.0, 500.0)
    assert waited(clocks, 4, 16.0, 500.0) == (32.0, 500.0)
