"""The controller of caps: simulated sites whose responses follow from queues, and what a step's intervals amount to."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest

from advise.model import Predicted
from lab import LabError
from lab.controller.caps import MAX_FALL, MIN_CAP, Caps, Loop, Seen, bounded, equal
from lab.controller.experiment import (
    ANSWERED,
    ERROR,
    FAILED,
    INSIDE,
    MISSED,
    OBJECTIVE,
    RESERVED,
    RESPONSE,
    Interval,
    values,
)

COST = {"web": 0.010, "db": 0.001}  # CPU seconds of a request
WORK = sum(COST.values())
ALLOWED = 10 * WORK
SECONDS = 10.0
BUSY, IDLE = 0.45, 0.1
HALF = equal(COST, sites=2, cpus=1)


def seen(load: float, caps: Mapping[str, float], used: float = BUSY + IDLE) -> Seen:
    """A site that wants to use so many CPUs; each tier is the queue M/M/1, of the CPU or of its cap.

    Where a cap is too small, its clients wait for a second.
    """
    wanted = {tier: load * cost / WORK for tier, cost in COST.items()}
    slowed = max(1.0, *(wanted[tier] / (0.97 * caps[tier]) for tier in COST))
    cpu = {tier: of / slowed for tier, of in wanted.items()}
    response = sum(
        cost + max(cost * used / (1 - used), cost * cpu[tier] / caps[tier] / (caps[tier] - cpu[tier]))
        for tier, cost in COST.items()
    )
    requests = load / slowed / WORK * SECONDS
    return Seen(SECONDS, requests, response if slowed == 1.0 else 1.0, {tier: of * SECONDS for tier, of in cpu.items()})


def course(loads: Sequence[Sequence[float]]) -> tuple[Loop, list[tuple[Caps, dict[str, Seen]]]]:
    """The caps of each interval, and what came of them."""
    caps: Caps = {"a": HALF, "b": HALF}
    loop, found = Loop(1.0, ALLOWED, caps), []
    for of_a, of_b in loads:
        used = min(0.97, of_a + of_b)
        came = {"a": seen(of_a, caps["a"], used), "b": seen(of_b, caps["b"], used)}
        found.append((caps, came))
        loop.learn(caps, came)
        caps = loop.decide(caps, came)
    return loop, found


def total(caps: Caps) -> float:
    return sum(sum(of.values()) for of in caps.values())


def test_equal_caps_divide_the_cpus_by_site_and_each_site_s_by_what_its_tiers_use() -> None:
    assert sum(HALF.values()) == pytest.approx(0.5)
    assert HALF["web"] == pytest.approx(0.45)
    assert HALF["db"] == MIN_CAP
    thirds = equal({"web": 3.0, "db": 1.0}, sites=3, cpus=1)
    assert thirds == pytest.approx({"web": 0.25, "db": 1 / 12})


def test_caps_follow_a_load_that_changes_places_and_hold_the_objective_with_less_than_all_cpus() -> None:
    assert seen(BUSY, HALF).response > ALLOWED, "equal caps don't hold it"
    _, found = course([(BUSY, IDLE)] * 9 + [(IDLE, BUSY)] * 9)
    for caps, came in [*found[4:9], *found[13:]]:
        assert max(of.response for of in came.values()) <= ALLOWED
        assert BUSY + IDLE < total(caps) < 0.98


@pytest.mark.parametrize("loads", [(BUSY, IDLE), (0.6, 0.2), (0.5, 0.4), (0.88, 0.02), (0.02, 0.02)])
def test_caps_are_within_bounds(loads: tuple[float, float]) -> None:
    _, found = course([loads] * 5 + [loads[::-1]] * 5)
    for caps, _ in found:
        assert total(caps) <= 1 + 1e-9
        assert min(cap for of in caps.values() for cap in of.values()) >= MIN_CAP - 1e-12
    for (before, _), (after, _) in pairwise(found):
        if total(after) < 0.99:  # otherwise the CPUs don't suffice for all
            assert all(
                after[site][tier] >= (1 - MAX_FALL) * before[site][tier] - 1e-9 for site in after for tier in COST
            )


def test_what_it_predicts_comes_except_where_a_cap_was_used_up() -> None:
    loop, found = course([(BUSY, IDLE)] * 8)
    caps, came = found[-1]
    predicted = loop.predict(caps, came, caps)
    assert {site: of.median for site, of in predicted.items()} == pytest.approx(
        {site: of.response for site, of in came.items()}, rel=0.1
    )
    halved = {site: {tier: 0.5 * cap for tier, cap in of.items()} for site, of in caps.items()}
    slower = loop.predict(caps, came, {**caps, "b": halved["b"]})
    assert slower["b"].median > predicted["b"].median
    assert loop.predict(halved, {"a": seen(BUSY, halved["a"]), "b": came["b"]}, caps).keys() == {"b"}


def test_a_site_with_few_requests_asks_for_its_equal_share() -> None:
    caps: Caps = {"a": HALF, "b": HALF}
    loop = Loop(1.0, ALLOWED, caps)
    few = {"a": seen(0.2, HALF), "b": Seen(SECONDS, 3, 0.5, {"web": 0.03, "db": 0.003})}
    loop.learn(caps, few)
    assert loop.predict(caps, few, caps).keys() == {"a"}
    assert loop.decide(caps, few)["b"] == pytest.approx(HALF)
    silent = {site: Seen(SECONDS, 0, math.inf, {"web": 0.0, "db": 0.0}) for site in caps}
    assert loop.decide(caps, silent) == {site: pytest.approx(of) for site, of in caps.items()}


def test_where_the_cpus_dont_suffice_all_caps_are_reduced_towards_what_tiers_use_and_that_above_the_minimum() -> None:
    present = {"a": {"web": 0.4}, "b": {"web": 0.4}}
    demands = {"a": {"web": 0.5}, "b": {"web": 0.2}}
    wanted = {"a": {"web": 1.0}, "b": {"web": 0.4}}
    assert bounded(wanted, present, demands, 1.0) == {
        "a": {"web": pytest.approx(0.5 + 0.3 * 0.5 / 0.7)},
        "b": {"web": pytest.approx(0.2 + 0.3 * 0.2 / 0.7)},
    }
    full = bounded(wanted, present, {"a": {"web": 0.95}, "b": {"web": 0.25}}, 1.0)
    assert full == {
        "a": {"web": pytest.approx(0.05 + 0.9 * 0.9 / 1.1)},
        "b": {"web": pytest.approx(0.05 + 0.9 * 0.2 / 1.1)},
    }
    fallen = bounded({"a": {"web": 0.1}, "b": {"web": 0.01}}, present, demands, 1.0)
    assert fallen == {"a": {"web": 0.5}, "b": {"web": pytest.approx(0.32)}}


def test_what_a_step_s_intervals_amount_to() -> None:
    def of(requests: float, response: float, failed: float = 0.0) -> Seen:
        return Seen(10.0, requests, response, {"web": 1.0}, failed)

    def predicted(median: float) -> Predicted:
        return Predicted(0.8 * median, median, 1.2 * median)

    intervals = [
        Interval({"a": of(100, 0.1), "b": of(50, 0.04, 9)}, 1.0, {}),
        Interval({"a": of(100, 0.02), "b": of(100, 0.05)}, 0.5, {"a": predicted(0.03), "b": predicted(math.inf)}),
        Interval({"a": of(100, 0.02), "b": of(0, math.inf)}, 0.6, {"a": predicted(0.021), "b": predicted(0.02)}),
    ]
    assert values(intervals, 0.05) == pytest.approx(
        {
            RESPONSE: (100 * 0.1 + 50 * 0.04 + 2 * 100 * 0.02 + 100 * 0.05) / 450,
            MISSED: 100 * 2 / 6,
            RESERVED: 0.7,
            ANSWERED: 450 / 30,
            FAILED: 2,
            OBJECTIVE: 0.05,
            ERROR: 100 * (0.5 + 0.05) / 2,
            INSIDE: 50,
        }
    )
    assert ERROR not in values(intervals[:1], 0.05)
    with pytest.raises(LabError, match="no request has ended"):
        values([Interval({"a": of(0, math.inf)}, 1.0, {})], 0.05)
