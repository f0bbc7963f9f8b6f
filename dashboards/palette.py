"""Colours that people with any colour vision tell apart: Okabe and Ito's set (https://jfly.uni-koeln.de/color/)."""

from __future__ import annotations

import itertools
from typing import NamedTuple

SKY_BLUE = "#56B4E9"
BLUE = "#0072B2"
GREEN = "#009E73"
YELLOW = "#F0E442"
ORANGE = "#E69F00"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#999999"

CALM = SKY_BLUE
HIGH = VERMILLION
HOST = ORANGE
GUESTS = BLUE
LIMIT = GREY
JOBS = {
    "xentop": ORANGE,
    "vestat": VERMILLION,
    "cadvisor": GREEN,
    "perf": PURPLE,
    "node": SKY_BLUE,
    "prometheus": BLUE,
    "telegraf": YELLOW,
    "alertmanager|app|guest|lab": GREY,
}
"""Regular expressions over the name of a job of prometheus.yml."""

CAUSES = {
    "kept": "transparent",  # of an objective: no cause is needed
    "self": PURPLE,
    "neighbour": ORANGE,
    "load": SKY_BLUE,
    "hypervisor": VERMILLION,
    "unknown": GREY,
}

BY_RANK = [SKY_BLUE, VERMILLION, GREEN, PURPLE, YELLOW, BLUE, ORANGE]

_MANY = [SKY_BLUE, VERMILLION, GREEN, PURPLE, BLUE, YELLOW]  # orange is the host's own


class Dashes(NamedTuple):
    """How a line is dashed."""

    pixels: list[int]
    """Dash, gap, dash, ..."""

    drawn: str
    """The same in characters. Four with a blank behind them: a name's length, odd or even, stays what it is."""


_STYLES = [None, Dashes([10, 6], "- -"), Dashes([2, 5], "···"), Dashes([14, 4, 2, 4], "-·-")]
"""None is a solid line."""

# Those that names often have before their last letter come first, so that they differ.
_LETTERS = "esvtaoindrhlcumwfgypbkjxqz"
_DIGITS = "0123456789"


def colours_by_name() -> dict[str, str]:
    """Regular expressions over a series' name, and the colour of what each matches; one matches.

    A virtual server has one colour on every dashboard, whoever else is drawn, so it follows from the name: of
    `HOST: NAME` from the part behind the colon. Six colours are left that can be told apart; names mostly differ in a
    number (`web-1`, `web-2`) or in a word (`web`, `db`). So the last digit and the last letter but one choose.
    """
    return {_any_of(_of_sum(colour)): _MANY[colour] for colour in range(len(_MANY))}


def styles_by_name() -> dict[str, Dashes]:
    """Regular expressions over a series' name, and the line style of what each matches; none: a solid line.

    It tells those apart that share a colour: by the host before the colon, by a name's length, odd or even, and by
    whether its digit is of those for which the colours begin again. `web-1` and `auction-1` are odd, and solid.
    """
    styles = {}
    for number, style in enumerate(_STYLES):
        if style is not None:
            alternatives = [
                _host(host, len(_STYLES)) + _length(odd=odd) + _second_round(yes=again)
                for host, odd, again in itertools.product(range(len(_STYLES)), (False, True), (False, True))
                if (host + (not odd) + 2 * again) % len(_STYLES) == number
            ]
            styles[f"/^(?:{'|'.join(alternatives)})/i"] = style
    return styles


def _of_sum(colour: int) -> list[str]:
    """Every pair of digit and letter that makes this colour: less the letter, so that `1-web` isn't `2-db` already."""
    count = len(_MANY)
    return [
        _last_digit(digit, count) + _letter_before_last(letter, count)
        for digit in range(count)
        for letter in range(count)
        if (digit - letter) % count == colour
    ]


def _any_of(alternatives: list[str]) -> str:
    """One of them, where the part behind the last colon begins."""
    return f"/(?:^|: )(?!.*: )(?:{'|'.join(alternatives)})/i"


def _last_digit(kind: int, kinds: int) -> str:
    found = rf"(?=.*[{_DIGITS[kind::kinds]}]\D*$)"
    return found if kind else rf"(?:{found}|(?=\D*$))"


def _letter_before_last(kind: int, kinds: int) -> str:
    found = f"(?=.*[{_LETTERS[kind::kinds]}][^a-z]*[a-z][^a-z]*$)"
    return found if kind else f"(?:{found}|(?!.*[a-z].*[a-z]))"


def _host(kind: int, kinds: int) -> str:
    found = f"(?=.*[{_LETTERS[kind::kinds]}{_DIGITS[kind::kinds]}][^a-z0-9]*: (?!.*: ))"
    return found if kind else f"(?:{found}|(?!.*: ))"


def _length(*, odd: bool) -> str:
    return "(?=(?:..)*.$)" if odd else "(?=(?:..)*$)"


def _second_round(*, yes: bool) -> str:
    return rf"(?{'=' if yes else '!'}.*[{_DIGITS[len(_MANY) :]}]\D*$)"
