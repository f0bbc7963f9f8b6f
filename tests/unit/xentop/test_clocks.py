"""A counter that goes back a little, as the clocks of two physical CPUs do, stands still instead."""

from __future__ import annotations

from virtscope.xentop.clocks import Clocks
from virtscope.xentop.model import Domain, Host, Vcpu


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
