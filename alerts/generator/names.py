"""Names as a user writes them: one name, or a regular expression for many, in Prometheus' (RE2's) syntax."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

from alerts.generator.document import Value

_PLAIN = re.compile(r"[\w./:@ -]+")
# What Python's regular expressions have and RE2 has not: looking around, backreferences, possessive and atomic groups;
# escapes of its own; more than 1000 times; and {,3}, which RE2 takes for these very four characters.
_NOT_RE2 = re.compile(
    r"\(\?(?!:|P<|[imsU-]+[:)])<?.|(?<!\\)(?:\\\\)*\\(?:[1-9ZNuU]|[^\x00-\x7f])|[*+?}]\+"
    r"|\{(?:\d+,)?(?:1\d{3}(?<!1000)|[2-9]\d{3}|\d{5,})(?:,\d*)?\}|\{,\d+\}"
)


@dataclass(frozen=True)
class Names:
    """Which names are meant: one, if `text` has letters, digits and `_ . / : @ -` alone, else a regular expression."""

    text: str

    @property
    def single(self) -> bool:
        return _PLAIN.fullmatch(self.text) is not None

    @property
    def regex(self) -> str:
        """The regular expression that matches them from end to end."""
        return self.text.replace(".", r"\.") if self.single else self.text

    def match(self, name: str) -> bool:
        return re.fullmatch(self.regex, name) is not None

    def may_overlap(self, other: Names) -> bool:
        """Whether a name is known to be meant by both: two different regular expressions pass for disjoint."""
        if self.single:
            return other.match(self.text)
        return self.match(other.text) if other.single else self.text == other.text

    def apart_from(self, other: Names) -> bool:
        """Whether it is sure that no name is meant by both: by two regular expressions, if they begin differently."""
        if self.single or other.single:
            return not self.may_overlap(other)
        return not (self._beginning.startswith(other._beginning) or other._beginning.startswith(self._beginning))

    @property
    def _beginning(self) -> str:
        """What all names begin with that a regular expression means, as far as it is plain to see."""
        if "|" in self.text:
            return ""
        plain = re.match(r"[\w/:@ -]*", self.text)
        beginning = plain[0] if plain else ""
        return beginning[:-1] if self.text[len(beginning) :].startswith(("?", "*", "{")) else beginning

    def matcher(self, label: str) -> str:
        """The label matcher of a PromQL selector."""
        return f"{label}={quoted(self.text)}" if self.single else f"{label}=~{quoted(self.text)}"


def names(value: Value) -> Names:
    """The names that a value means; raises `FileError` if it is a regular expression that Prometheus wouldn't take."""
    text = value.text()
    if not text.isprintable():
        value.refuse(f"{text!r} has what can't be in a name, such as a line's end")
    check_regex(text, value)
    return Names(text)


def check_regex(text: str, value: Value) -> None:
    """Raises `FileError` at `value` if `text` is no regular expression for Prometheus."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of [[:alpha:]], which RE2 knows
            re.compile(text)
    except re.error as error:
        value.refuse(f"bad regular expression {text!r}: {error}")
    if foreign := _NOT_RE2.search(text):
        value.refuse(f"bad regular expression {text!r}: Prometheus has no {foreign[0]!r}")


def quoted(text: str) -> str:
    """A PromQL string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def decimal(number: float) -> str:
    """A number with all of its digits, as Prometheus' clients write `le`: 0.001953125, 1."""
    return repr(number).removesuffix(".0")
