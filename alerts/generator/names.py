"""Names in users' files: a name, or a regular expression in Prometheus' (RE2's) syntax."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_PLAIN = re.compile(r"[\w./:@ -]+")
# Syntax of Python's regular expressions that RE2 lacks: lookaround, backreferences, possessive quantifiers and atomic
# groups; some escapes; repetition over 1000; and {,3}, which is literal in RE2.
_NOT_RE2 = re.compile(
    r"\(\?(?!:|P<|[imsU-]+[:)])<?.|(?<!\\)(?:\\\\)*\\(?:[1-9ZNuU]|[^\x00-\x7f])|[*+?}]\+"
    r"|\{(?:\d+,)?(?:1\d{3}(?<!1000)|[2-9]\d{3}|\d{5,})(?:,\d*)?\}|\{,\d+\}"
)

Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[float, Field(gt=0)]


@dataclass(frozen=True)
class Names:
    """A single name, if `text` has only letters, digits and `_ . / : @ -`; otherwise a regular expression."""

    text: str

    @property
    def single(self) -> bool:
        return _PLAIN.fullmatch(self.text) is not None

    @property
    def regex(self) -> str:
        """A regular expression for the whole name."""
        return self.text.replace(".", r"\.") if self.single else self.text

    def match(self, name: str) -> bool:
        return re.fullmatch(self.regex, name) is not None

    def overlap(self, other: Names) -> bool | None:
        """Whether a name matches both; None: perhaps, as two different regular expressions may begin alike."""
        if self.single:
            return other.match(self.text)
        if other.single or self.text == other.text:
            return self.text == other.text or self.match(other.text)
        theirs = [_beginning(part) for part in other.text.split("|")]
        alike = any(
            ours.startswith(each) or each.startswith(ours)
            for ours in map(_beginning, self.text.split("|"))
            for each in theirs
        )
        return None if alike else False

    def matcher(self, label: str) -> str:
        """The label matcher of a PromQL selector."""
        return f"{label}={quoted(self.text)}" if self.single else f"{label}=~{quoted(self.text)}"


def _beginning(part: str) -> str:
    """The obvious literal prefix of all names that match an alternative of a regular expression."""
    plain = re.match(r"[\w/:@ -]*", part)
    beginning = plain[0] if plain else ""
    return beginning[:-1] if part[len(beginning) :].startswith(("?", "*", "{")) else beginning


def _names(text: Any) -> Names:
    if not isinstance(text, str) or not text.strip():
        raise ValueError("should be a name or a regular expression")
    if not text.isprintable():
        raise ValueError(f"{text!r} has a character that can't be in a name, such as a newline")
    return Names(check_regex(text))


WrittenNames = Annotated[Names, BeforeValidator(_names)]
"""`Names` in a file, rejected if Prometheus would reject them."""


def check_regex(text: str) -> str:
    """Return the text; raises ValueError if Prometheus would reject it as a regular expression."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about [[:alpha:]], which RE2 supports
            re.compile(text)
    except re.error as error:
        raise ValueError(f"bad regular expression {text!r}: {error}") from None
    if foreign := _NOT_RE2.search(text):
        raise ValueError(f"bad regular expression {text!r}: Prometheus has no {foreign[0]!r}")
    return text


def quoted(text: str) -> str:
    """A PromQL string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def decimal(number: float) -> str:
    """A number with all digits, in the format of Prometheus' clients for `le`: 0.001953125, 1."""
    return repr(number).removesuffix(".0")
