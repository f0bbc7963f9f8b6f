"""The arithmetic of costs and miss rates, on the study's own inputs and against what it prints."""

from __future__ import annotations

import pytest

from lab.report.network import costs
from lab.report.network.study import load

STUDY = load()
DOMAIN0 = STUDY.receiver["xen-domain0", "linux"]


def test_a_byte_in_the_driver_domain_costs_1_107_times_that_on_linux() -> None:
    assert DOMAIN0.instructions
    assert DOMAIN0.throughput
    ratio = costs.instruction_cost_ratio(DOMAIN0.instructions, DOMAIN0.throughput)
    assert ratio == pytest.approx(1.107, abs=0.0005)
    assert round(ratio, 2) == DOMAIN0.instruction_cost


@pytest.mark.parametrize(("tlb", "derived"), [("data_tlb", 18.8), ("instruction_tlb", 24.6)])
def test_a_miss_rate_s_ratio_is_that_of_misses_over_that_of_instructions(tlb: str, derived: float) -> None:
    assert DOMAIN0.instructions
    ratio = costs.miss_rate_ratio(DOMAIN0.misses[tlb], DOMAIN0.instructions)
    assert ratio == pytest.approx(derived, abs=0.05)
    assert round(ratio) == DOMAIN0.miss_rates[tlb]


@pytest.mark.parametrize(("guest", "instructions", "l2"), [("xen-guest0", 2.068, 4.07), ("xen-guest1", 2.565, 3.90)])
def test_guests_need_twice_the_instructions_and_miss_the_l2_cache_four_times_as_often(
    guest: str, instructions: float, l2: float
) -> None:
    ratio = STUDY.instructions_ratio(guest, "xen-domain0")
    assert ratio == pytest.approx(instructions, abs=0.0005)
    published = STUDY.receiver[guest, "xen-domain0"]
    assert costs.misses_ratio(published.miss_rates["l2"], ratio) == pytest.approx(l2, abs=0.005)


def test_ratios_of_ratios_are_those_of_the_costs_and_rates_themselves() -> None:
    linux = {"instructions": 4e9, "bytes": 3e8, "misses": 2e6}
    domain0 = {"instructions": 3e9, "bytes": 2e8, "misses": 3e7}
    ratio = {name: domain0[name] / linux[name] for name in linux}
    cost, cost_on_linux = (costs.instruction_cost(one["instructions"], one["bytes"]) for one in (domain0, linux))
    assert costs.instruction_cost_ratio(ratio["instructions"], ratio["bytes"]) == pytest.approx(cost / cost_on_linux)
    rate, rate_on_linux = (costs.miss_rate(one["misses"], one["instructions"]) for one in (domain0, linux))
    assert costs.miss_rate_ratio(ratio["misses"], ratio["instructions"]) == pytest.approx(rate / rate_on_linux)


@pytest.mark.parametrize("nothing", [0.0, -1.0, float("nan")])
def test_what_nothing_was_counted_of_has_no_cost(nothing: float) -> None:
    with pytest.raises(ValueError, match="bytes or requests: count while there are some"):
        costs.instruction_cost(1e9, nothing)
    with pytest.raises(ValueError, match="instructions"):
        costs.miss_rate(1e6, nothing)
