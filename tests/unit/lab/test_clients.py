"""The clients' request mix, the site's data that it queries, and the histogram that compares sensors with clients."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from alerts.generator.sensors import sensors_edges
from deploy.programs import CHECKOUT
from lab.clients import mix
from lab.clients.metrics import DURATION_EDGES, LATE_SECONDS, LATENESS_EDGES
from lab.site import data


def test_visits_go_everywhere_and_to_random_content() -> None:
    assert set(mix.TRANSITIONS) == set(mix.PAGES)
    for page, followers in mix.TRANSITIONS.items():
        assert sum(followers.values()) == pytest.approx(1), page
    chance = random.Random(1)
    followers = Counter(mix.next_page("item", chance) for _ in range(10_000))
    assert {page: count / 10_000 for page, count in followers.items()} == pytest.approx(
        mix.TRANSITIONS["item"], abs=0.015
    )
    assert len({mix.address("item", chance) for _ in range(100)}) > 50
    assert len({mix.address("category", chance) for _ in range(100)}) > 10


def test_data_are_the_same_for_everybody_whole_and_as_clients_count_on_it() -> None:
    assert list(data.sql()) == list(data.sql())
    assert list(data.sql()) != list(data.sql(data.SEED + 1))
    tables: dict[str, list[Sequence[int | str]]] = dict(data.tables())
    for table, count in (("categories", data.CATEGORY_COUNT), ("items", data.ITEM_COUNT), ("users", data.USERS)):
        assert [row[0] for row in tables[table]] == list(range(1, count + 1))
    titles = {row[0]: str(row[3]).lower() for row in tables["items"]}
    assert set(data.search_words()) <= {word for word, _ in tables["words"]}
    assert all(str(word) in titles[item] for word, item in tables["words"])


def test_clients_and_sensors_have_the_same_buckets() -> None:
    script = CHECKOUT / "telegraf" / "access_log.pl"
    assert sensors_edges(script.read_text()) == DURATION_EDGES
    assert LATE_SECONDS in LATENESS_EDGES
