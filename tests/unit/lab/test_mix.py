"""The browsing mix, as a table and as what visitors make of it."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from lab.clients import mix


def test_the_table_is_complete() -> None:
    assert set(mix.TRANSITIONS) == set(mix.PAGES)
    for page, followers in mix.TRANSITIONS.items():
        assert sum(followers.values()) == pytest.approx(1), page
        assert set(followers) <= {*mix.PAGES, mix.LEAVE}
        assert min(followers.values()) > 0


def test_visits_reach_the_shares_that_the_table_settles_at() -> None:
    chance = random.Random(1)
    page, visits = mix.FIRST_PAGE, Counter[str]()
    for _ in range(100_000):
        visits[page] += 1
        following = mix.next_page(page, chance)
        page = mix.FIRST_PAGE if following == mix.LEAVE else following
    expected = mix.shares()
    assert sum(expected.values()) == pytest.approx(1)
    assert {page: count / 100_000 for page, count in visits.items()} == pytest.approx(expected, abs=0.006)


def test_what_is_asked_for_differs_from_visit_to_visit() -> None:
    chance = random.Random(1)
    assert len({mix.address("item", chance) for _ in range(100)}) > 50
    assert len({mix.address("category", chance) for _ in range(100)}) > 10
