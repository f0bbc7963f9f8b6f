"""The clients' mix, the site's data that it asks for, and the histogram by which sensors are compared with clients."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from alerts.generator.sensors import sensors_edges
from deploy.programs import CHECKOUT
from lab.clients import mix
from lab.clients.metrics import DURATION_EDGES, LATE_SECONDS, LATENESS_EDGES
from lab.site import data


def test_visits_reach_the_shares_that_the_table_settles_at() -> None:
    assert set(mix.TRANSITIONS) == set(mix.PAGES)
    for page, followers in mix.TRANSITIONS.items():
        assert sum(followers.values()) == pytest.approx(1), page
    chance = random.Random(1)
    page, visits = mix.FIRST_PAGE, Counter[str]()
    for _ in range(100_000):
        visits[page] += 1
        following = mix.next_page(page, chance)
        page = mix.FIRST_PAGE if following == mix.LEAVE else following
    expected = mix.shares()
    assert sum(expected.values()) == pytest.approx(1)
    assert {page: count / 100_000 for page, count in visits.items()} == pytest.approx(expected, abs=0.006)
    assert len({mix.address("item", chance) for _ in range(100)}) > 50
    assert len({mix.address("category", chance) for _ in range(100)}) > 10


def test_data_are_the_same_for_everybody_whole_and_as_clients_count_on_it() -> None:
    assert list(data.sql()) == list(data.sql())
    assert list(data.sql()) != list(data.sql(data.SEED + 1))
    tables: dict[str, list[Sequence[int | str]]] = dict(data.tables())
    for table, count in (("categories", data.category_count()), ("items", data.item_count()), ("users", data.USERS)):
        assert [row[0] for row in tables[table]] == list(range(1, count + 1))
    titles = {row[0]: str(row[3]).lower() for row in tables["items"]}
    assert set(data.search_words()) <= {word for word, _ in tables["words"]}
    assert all(str(word) in titles[item] for word, item in tables["words"])


def test_clients_and_sensors_have_the_same_buckets() -> None:
    script = CHECKOUT / "telegraf" / "access_log.pl"
    assert sensors_edges(script.read_text()) == DURATION_EDGES
    assert LATE_SECONDS in LATENESS_EDGES
