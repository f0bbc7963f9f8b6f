"""Label values from text that guests' users chose: bounded, and without what a terminal or Prometheus can't show."""

from __future__ import annotations

MAX_CHARACTERS = 200


def clean(text: str) -> str:
    """Return the text with control characters, lone surrogates and the like escaped, and cut to a bounded length."""
    if not text.isprintable():
        text = "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode() for each in text[:MAX_CHARACTERS]
        )
    return text[:MAX_CHARACTERS]
