"""The auction site's data: the same for everybody, generated from a seed.

    python3 -m lab.site.data > data.sql     SQL that fills the tables of schema.sql

Ids begin at 1 without gaps, so clients only need the numbers and words below.
"""

import json
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

SEED = 2007
USERS = 1_000
ITEMS_PER_CATEGORY = 120
MAX_BIDS = 24  # per item
MAX_COMMENTS = 12  # per user
# Of up to 4,700 characters: `mariadbd --bootstrap` refuses statements over 60,000 bytes, and lines over 20,000.
ROWS_AT_ONCE = 10

# The site's dates are fixed, so its pages never change: no auction closes during an experiment.
OPENED = datetime(2007, 1, 1, tzinfo=UTC)

WORDS = Path(__file__).with_name("words.json")
_WORDS = json.loads(WORDS.read_text())
CATEGORIES: Mapping[str, Sequence[str]] = _WORDS["categories"]
ADJECTIVES, MATERIALS, REGIONS, NAMES, SENTENCES, POINTS, REMARKS = (
    tuple(_WORDS[kind]) for kind in ("adjectives", "materials", "regions", "names", "sentences", "points", "remarks")
)
CATEGORY_COUNT = len(CATEGORIES)  # ids are 1 to this
ITEM_COUNT = CATEGORY_COUNT * ITEMS_PER_CATEGORY
Row = Sequence[int | str]


def search_words() -> list[str]:
    return sorted({*ADJECTIVES, *MATERIALS, *(noun for nouns in CATEGORIES.values() for noun in nouns)})


def tables(seed: int = SEED) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each table of schema.sql, values in the order of its columns."""
    chance = random.Random(seed)
    yield "categories", [(number, name, ITEMS_PER_CATEGORY) for number, name in enumerate(CATEGORIES, 1)]
    users: list[Row] = []
    for number in range(1, USERS + 1):
        since = OPENED - timedelta(days=chance.randrange(2_000))
        users.append((number, f"{chance.choice(NAMES)}{number}", chance.choice(REGIONS), f"{since:%Y-%m-%d}"))
    yield "users", users
    items: list[Row] = []
    bids: list[Row] = []
    words: list[tuple[str, int]] = []
    for number in range(1, ITEM_COUNT + 1):
        category = (number - 1) // ITEMS_PER_CATEGORY + 1
        item, its_bids = _item(chance, number, category)
        items.append(item)
        bids += its_bids
        words += [(word, number) for word in set(re.findall(r"[a-z-]+", str(item[3]).lower()))]
    yield "items", items
    yield "bids", bids
    yield "words", [*sorted(words)]
    yield "comments", [comment for user in range(1, USERS + 1) for comment in _comments(chance, user)]


def sql(seed: int = SEED) -> Iterator[str]:
    for table, rows in tables(seed):
        for first in range(0, len(rows), ROWS_AT_ONCE):
            values = (f"({', '.join(map(_literal, row))})" for row in rows[first : first + ROWS_AT_ONCE])
            yield f"INSERT INTO auction.{table} VALUES\n" + ",\n".join(values) + ";"


def _item(chance: random.Random, number: int, category: int) -> tuple[Row, list[Row]]:
    noun = chance.choice(list(CATEGORIES.values())[category - 1])
    adjective, material = chance.choice(ADJECTIVES), chance.choice(MATERIALS)
    title = f"{adjective} {material} {noun}".capitalize()
    closes = OPENED + timedelta(minutes=chance.randrange(60 * 24 * 30))
    price = start_price = chance.randrange(100, 20_000)
    placed = closes - timedelta(days=7)
    bids: list[Row] = []
    for _ in range(chance.randint(0, MAX_BIDS)):
        price += chance.randrange(50, 500 + price // 10)
        placed += timedelta(minutes=chance.randrange(1, 7 * 24 * 60 // MAX_BIDS))
        bids.append((number, f"{placed:%Y-%m-%d %H:%M:%S}", chance.randint(1, USERS), price))
    words = {"noun": noun, "adjective": adjective, "material": material}
    description = _description(chance, words)
    seller = chance.randint(1, USERS)
    return (
        (number, category, seller, title, description, start_price, price, len(bids), f"{closes:%Y-%m-%d %H:%M:%S}"),
        bids,
    )


def _description(chance: random.Random, words: dict[str, str]) -> str:
    blocks = [
        " ".join(_fill(chance, sentence, words) for sentence in chance.sample(SENTENCES, chance.randint(3, 5)))
        for _ in range(chance.randint(9, 12))
    ]
    blocks.insert(1, "\n".join(f"- {_fill(chance, point, words)}" for point in chance.sample(POINTS, 4)))
    return "\n\n".join(blocks)


def _comments(chance: random.Random, about: int) -> list[Row]:
    written = OPENED - timedelta(days=400)
    comments: list[Row] = []
    for _ in range(chance.randint(0, MAX_COMMENTS)):
        written += timedelta(minutes=chance.randrange(1, 40_000))
        noun = chance.choice(chance.choice(list(CATEGORIES.values())))
        text = _fill(chance, chance.choice(REMARKS), {"noun": noun, "material": chance.choice(MATERIALS)})
        rating = chance.choices((1, 0, -1), (8, 2, 1))[0]
        comments.append((about, f"{written:%Y-%m-%d %H:%M:%S}", chance.randint(1, USERS), rating, text))
    return comments


def _fill(chance: random.Random, sentence: str, words: dict[str, str]) -> str:
    number, item = chance.randint(2, 60), chance.randint(1, ITEM_COUNT)
    adjective, region = chance.choice(ADJECTIVES), chance.choice(REGIONS)
    other = number + chance.randint(1, 40)
    return sentence.format(**{"adjective": adjective, **words}, region=region, number=number, other=other, item=item)


def _literal(value: int | str) -> str:
    if isinstance(value, int):
        return str(value)
    return "'" + value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n") + "'"


if __name__ == "__main__":
    for statement in sql():
        sys.stdout.write(statement + "\n")
