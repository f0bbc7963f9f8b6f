"""The auction site's data: the same for everybody, whole, and as clients count on it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from lab.site import data

# `mariadbd --bootstrap` takes no longer ones: sql/sql_bootstrap.h.
MOST_STATEMENT_BYTES, MOST_LINE_BYTES = 60_000, 20_000

Rows = list[Sequence[int | str]]


@pytest.fixture(scope="module")
def tables() -> dict[str, Rows]:
    return dict(data.tables())


def test_same_seed_same_data_and_another_seed_others() -> None:
    first = list(data.sql())
    assert first == list(data.sql())
    assert first != list(data.sql(data.SEED + 1))


@pytest.mark.parametrize(
    ("table", "count"),
    [("categories", data.category_count()), ("items", data.item_count()), ("users", data.USERS)],
)
def test_ids_are_one_to_the_number_that_clients_know(table: str, count: int, tables: dict[str, Rows]) -> None:
    assert [row[0] for row in tables[table]] == list(range(1, count + 1))


def test_bids_for_an_item_rise_and_end_at_its_price(tables: dict[str, Rows]) -> None:
    by_item: dict[int | str, Rows] = {}
    for bid in tables["bids"]:
        by_item.setdefault(bid[0], []).append(bid)
    for number, _category, _seller, _title, _description, start_price, price, bids, closes in tables["items"]:
        placed = [bid[1] for bid in by_item.get(number, [])]
        amounts = [start_price, *(bid[3] for bid in by_item.get(number, []))]
        assert len(placed) == bids
        assert amounts[-1] == price
        assert amounts == sorted(set(amounts), key=int)
        assert [*placed, closes] == sorted({*placed, closes}, key=str)


def test_every_word_for_the_search_is_in_some_title(tables: dict[str, Rows]) -> None:
    in_titles = {word for word, _ in tables["words"]}
    assert set(data.search_words()) <= in_titles
    titles = {row[0]: str(row[3]).lower() for row in tables["items"]}
    assert all(str(word) in titles[item] for word, item in tables["words"])


def test_statements_are_short_enough_for_mariadb(tables: dict[str, Rows]) -> None:
    rows = 0
    for statement in data.sql():
        assert len(statement.encode()) < MOST_STATEMENT_BYTES
        assert all(len(line.encode()) < MOST_LINE_BYTES for line in statement.splitlines())
        rows += len(re.findall(r"^\(", statement, re.MULTILINE))
    assert rows == sum(map(len, tables.values()))
