"""The pages that a visitor of the auction site views: the browsing mix, as transitions between pages."""

import random
from collections.abc import Mapping

from lab.site import data

# Page -> address; placeholders in braces are filled at random for each request, from existing values.
PAGES = {
    "home": "/",
    "categories": "/categories",
    "category": "/category?id={category}",
    "item": "/item?id={item}",
    "bids": "/bids?item={item}",
    "user": "/user?id={user}",
    "search": "/search?q={words}",
}

FIRST_PAGE = "home"
LEAVE = "leave"

# From each page, the probability of the next; LEAVE ends the session. Nobody bids, as in the studies' browsing mix:
# visitors go from lists to items, view bids, sellers and bidders, and return to the lists.
TRANSITIONS: Mapping[str, Mapping[str, float]] = {
    "home": {"categories": 0.55, "search": 0.25, "item": 0.15, LEAVE: 0.05},
    "categories": {"category": 0.85, "search": 0.10, LEAVE: 0.05},
    "category": {"item": 0.55, "category": 0.20, "categories": 0.10, "search": 0.05, LEAVE: 0.10},
    "item": {"bids": 0.25, "user": 0.15, "category": 0.30, "item": 0.10, "search": 0.10, LEAVE: 0.10},
    "bids": {"item": 0.40, "user": 0.25, "category": 0.25, LEAVE: 0.10},
    "user": {"item": 0.50, "category": 0.25, "search": 0.15, LEAVE: 0.10},
    "search": {"item": 0.60, "search": 0.20, "categories": 0.10, LEAVE: 0.10},
}

_WORDS = data.search_words()


def next_page(page: str, chance: random.Random) -> str:
    """The next page, or `LEAVE`."""
    followers = TRANSITIONS[page]
    return chance.choices(list(followers), list(followers.values()))[0]


def address(page: str, chance: random.Random) -> str:
    return PAGES[page].format(
        category=chance.randint(1, data.CATEGORY_COUNT),
        item=chance.randint(1, data.ITEM_COUNT),
        user=chance.randint(1, data.USERS),
        words="+".join(chance.sample(_WORDS, chance.randint(1, 2))),
    )
