"""The arithmetic of costs and miss rates, on the study's own inputs and against what it prints."""

from __future__ import annotations

import pytest

from lab.report.network import costs
from lab.report.network.study import load
from tests.support.refusals import assert_refused

STUDY = load()
DOMAIN0 = STUDY.receiver["xen-domain0", "linux"]


def test_what_the_study_derives_follows_from_what_it_prints() -> None:
    assert DOMAIN0.instructions
    assert DOMAIN0.throughput
    cost = costs.instruction_cost_ratio(DOMAIN0.instructions, DOMAIN0.throughput)
    assert cost == pytest.approx(1.107, abs=0.0005)
    assert round(cost, 2) == DOMAIN0.instruction_cost
    for tlb, derived in (("data_tlb", 18.8), ("instruction_tlb", 24.6)):
        rate = costs.miss_rate_ratio(DOMAIN0.misses[tlb], DOMAIN0.instructions)
        assert rate == pytest.approx(derived, abs=0.05)
        assert round(rate) == DOMAIN0.miss_rates[tlb]
    for guest, instructions, l2 in (("xen-guest0", 2.068, 4.07), ("xen-guest1", 2.565, 3.90)):
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


def test_what_nothing_was_counted_of_has_no_cost() -> None:
    for nothing in (0.0, -1.0, float("nan")):
        words = "bytes or requests: count while there are some"
        assert_refused(ValueError, words, costs.instruction_cost, 1e9, nothing)
        assert_refused(ValueError, "instructions", costs.miss_rate, 1e6, nothing)
