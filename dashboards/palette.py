"""Colours that people with any colour vision tell apart: Okabe and Ito's set (https://jfly.uni-koeln.de/color/)."""

from __future__ import annotations

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
    "perf": PURPLE,
    "node": SKY_BLUE,
    "prometheus": BLUE,
    "alertmanager": GREY,
}

_MANY = [SKY_BLUE, VERMILLION, GREEN, PURPLE, BLUE, YELLOW, ORANGE]
_DASHES: list[list[int] | None] = [None, [10, 6], [2, 6], [14, 5, 2, 5]]


def colours_by_name() -> dict[str, str]:
    """Regular expressions over a series' name, and the colour of what each matches.

    A virtual server has one colour on every dashboard, whoever else is drawn. Seven colours are all that can be told
    apart, so the name chooses: by its last number's last digit, as `web-1` and `web-2`, else by its last letter.
    """
    by_digit = {_last_digit(_every(7, start, "1234567890")): colour for start, colour in enumerate(_MANY)}
    by_letter = {_last_letter(_every(7, start, _LETTERS)): colour for start, colour in enumerate(_MANY)}
    return by_digit | by_letter


def dashes_by_name() -> dict[str, list[int]]:
    """Regular expressions over a series' name, and the line style of what each matches: dash, gap, ... in pixels.

    It tells those apart that share a colour: by the length of the name, odd or even, as `web-1` and `db-1`, and by
    whether the digit or letter is of the first seven that have a colour each.
    """
    dashes = {}
    for number, dash in enumerate(_DASHES):
        if dash is not None:
            odd, again = number % 2 == 1, number >= 2
            digits, letters = (
                ("890", _LETTERS[7:14] + _LETTERS[21:]) if again else ("1234567", _LETTERS[:7] + _LETTERS[14:21])
            )
            length = r"(?=(?:..)*.$)" if odd else r"(?=(?:..)*$)"
            dashes[_last_digit(digits, length)] = dash
            dashes[_last_letter(letters, length)] = dash
    return dashes


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _every(step: int, start: int, characters: str) -> str:
    return characters[start::step]


def _last_digit(digits: str, length: str = "") -> str:
    return f"/^{length}.*[{digits}]\\D*$/"


def _last_letter(letters: str, length: str = "") -> str:
    return f"/^{length}\\D*[{letters}][^a-z0-9]*$/i"
