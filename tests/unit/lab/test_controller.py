"""The controller of caps: simulated sites whose responses follow from queues, and what a step's intervals amount to."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pytest

from advise.model import Predicted
from advise.queueing import delay
from lab.controller.caps import FALLS, LEAST, Caps, Loop, Seen, bounded, equal
from lab.controller.experiment import (
    ERROR,
    INSIDE,
    MISSED,
    OBJECTIVE,
    RESERVED,
    RESPONSE,
    SERVED,
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
    """A site that wants to use so many CPUs: where a cap is too small, its clients wait for a second."""
    wanted = {tier: load * cost / WORK for tier, cost in COST.items()}
    slowed = max(1.0, *(wanted[tier] / (0.97 * caps[tier]) for tier in COST))
    cpu = {tier: of / slowed for tier, of in wanted.items()}
    waiting = sum(float(delay(COST[tier], cpu[tier], cap=caps[tier], vcpus=np.nan, used=used, cpus=1)) for tier in COST)
    response = WORK + waiting if slowed == 1.0 else 1.0
    requests = load / slowed / WORK * SECONDS
    return Seen(SECONDS, requests, response, {tier: of * SECONDS for tier, of in cpu.items()})


def course(loads: Sequence[Sequence[float]], loop: Loop) -> list[tuple[Caps, dict[str, Seen]]]:
    """The caps of each interval, and what came of them."""
    caps: Caps = {"a": HALF, "b": HALF}
    found = []
    for of_a, of_b in loads:
        came = {"a": seen(of_a, caps["a"]), "b": seen(of_b, caps["b"])}
        found.append((caps, came))
        loop.learn(caps, came)
        caps = loop.decide(caps, came)
    return found


def total(caps: Caps) -> float:
    return sum(sum(of.values()) for of in caps.values())


def test_equal_caps_divide_the_cpus_by_site_and_each_site_s_by_what_its_tiers_use() -> None:
    assert sum(HALF.values()) == pytest.approx(0.5)
    assert HALF["web"] == pytest.approx(0.45)
    assert HALF["db"] == LEAST
    thirds = equal({"web": 3.0, "db": 1.0}, sites=3, cpus=1)
    assert thirds == pytest.approx({"web": 0.25, "db": 1 / 12})


def test_caps_follow_a_load_that_changes_places_and_hold_the_objective_with_less_than_all_cpus() -> None:
    assert seen(BUSY, HALF).response > ALLOWED, "equal caps don't hold it"
    loop = Loop(1.0, ALLOWED, {"a": HALF, "b": HALF})
    found = course([(BUSY, IDLE)] * 9 + [(IDLE, BUSY)] * 9, loop)
    for caps, came in [*found[4:9], *found[13:]]:
        assert max(of.response for of in came.values()) <= ALLOWED
        assert BUSY + IDLE < total(caps) < 0.95
    for caps, _ in found:
        assert total(caps) <= 1 + 1e-9
        assert min(cap for of in caps.values() for cap in of.values()) >= LEAST
    for (before, _), (after, _) in pairwise(found):
        if total(after) < 0.99:  # otherwise there isn't enough for all
            assert all(after[site][tier] >= FALLS * before[site][tier] - 1e-9 for site in after for tier in COST)


def test_what_it_predicts_comes() -> None:
    loop = Loop(1.0, ALLOWED, {"a": HALF, "b": HALF})
    caps, came = course([(BUSY, IDLE)] * 8, loop)[-1]
    predicted = loop.predict(caps, came)
    assert {site: of.median for site, of in predicted.items()} == pytest.approx(
        {site: of.response for site, of in came.items()}, rel=0.1
    )


def test_a_site_with_few_requests_has_its_equal_share() -> None:
    loop = Loop(1.0, ALLOWED, {"a": HALF, "b": HALF})
    came = {"a": seen(BUSY, HALF), "b": Seen(SECONDS, 3, 0.5, {"web": 0.03, "db": 0.003})}
    caps: Caps = {"a": HALF, "b": HALF}
    loop.learn(caps, came)
    assert loop.predict(caps, came).keys() == {"a"}
    assert loop.decide(caps, came)["b"]["web"] <= HALF["web"]
    silent = {site: Seen(SECONDS, 0, math.inf, {"web": 0.0, "db": 0.0}) for site in caps}
    assert loop.decide(caps, silent) == {site: pytest.approx(of) for site, of in caps.items()}


def test_where_there_is_not_enough_for_all_nobody_gets_less_than_it_uses_before_the_cpus_are_full() -> None:
    present = {"a": {"web": 0.4}, "b": {"web": 0.4}}
    demands = {"a": {"web": 0.5}, "b": {"web": 0.2}}
    wanted = {"a": {"web": 1.0}, "b": {"web": 0.4}}
    assert bounded(wanted, present, demands, 1.0) == {
        "a": {"web": pytest.approx(0.5 + 0.3 * 0.5 / 0.7)},
        "b": {"web": pytest.approx(0.2 + 0.3 * 0.2 / 0.7)},
    }
    full = bounded(wanted, present, {"a": {"web": 0.9}, "b": {"web": 0.3}}, 1.0)
    assert full == {"a": {"web": pytest.approx(0.75)}, "b": {"web": pytest.approx(0.25)}}
    fallen = bounded({"a": {"web": 0.1}, "b": {"web": 0.01}}, present, demands, 1.0)
    assert fallen == {"a": {"web": 0.5}, "b": {"web": pytest.approx(FALLS * 0.4)}}


def test_what_a_step_s_intervals_amount_to() -> None:
    def of(requests: float, response: float) -> Seen:
        return Seen(10.0, requests, response, {"web": 1.0})

    def predicted(median: float) -> Predicted:
        return Predicted(0.8 * median, median, 1.2 * median)

    intervals = [
        Interval({"a": of(100, 0.1), "b": of(50, 0.04)}, 1.0, {}),
        # Of b's there were twice as many as predicted for.
        Interval({"a": of(100, 0.02), "b": of(100, 0.05)}, 0.5, {"a": (predicted(0.03), 10), "b": (predicted(1), 5)}),
        Interval({"a": of(100, 0.02), "b": of(0, math.inf)}, 0.6, {"a": (predicted(0.021), 10)}),
    ]
    assert values(intervals, 0.05) == pytest.approx(
        {
            RESPONSE: (100 * 0.1 + 50 * 0.04 + 2 * 100 * 0.02 + 100 * 0.05) / 450,
            MISSED: 100 * 2 / 6,
            RESERVED: 0.7,
            SERVED: 450 / 30,
            OBJECTIVE: 0.05,
            ERROR: 100 * (0.5 + 0.05) / 2,
            INSIDE: 50,
        }
    )
    assert ERROR not in values(intervals[:1], 0.05)
